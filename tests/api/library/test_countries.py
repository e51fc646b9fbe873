"""The list of countries."""

import iso3166

from tests.support.api.application import ApiService


async def test_every_country_is_listed_with_the_documented_keys(api_service: ApiService) -> None:
    body = await api_service.listed(path="/api/countries")
    assert set(body) == {"data"}
    assert all(set(item) == {"id", "name"} for item in body["data"])
    assert {item["id"]: item["name"] for item in body["data"]} == {
        int(each.numeric): each.name for each in iso3166.countries
    }
    assert len(body["data"]) == len(iso3166.countries)
    assert {"id": 642, "name": "Romania"} in body["data"]
    assert body["data"][0]["name"] == "Afghanistan"


async def test_the_list_takes_a_token(api_service: ApiService) -> None:
    assert (await api_service.client.get("/api/countries")).status_code == 401


async def test_a_token_of_a_project_that_may_read_gets_the_same_list(
    api_service: ApiService,
) -> None:
    reader = await api_service.headers_of("reader", 1, write=False)
    answer = await api_service.client.get("/api/countries", headers=reader)
    assert answer.json() == await api_service.listed(path="/api/countries")
