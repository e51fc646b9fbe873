"""The list of countries, and countries as bodies name them."""

import iso3166
import pytest

from api.http.errors import ApiError
from api.library.references import read_countries
from tests.support.api.application import House

pytestmark = pytest.mark.anyio


async def test_every_country_is_listed_with_the_documented_keys(house: House) -> None:
    body = await house.listed(path="/api/countries")
    assert set(body) == {"data"}
    assert all(set(item) == {"id", "name"} for item in body["data"])
    assert {item["id"]: item["name"] for item in body["data"]} == {
        int(each.numeric): each.name for each in iso3166.countries
    }
    assert len(body["data"]) == len(iso3166.countries)
    assert {"id": 642, "name": "Romania"} in body["data"]
    assert body["data"][0]["name"] == "Afghanistan"


async def test_the_list_takes_a_token(house: House) -> None:
    assert (await house.client.get("/api/countries")).status_code == 401


async def test_a_token_of_a_project_that_may_read_gets_the_same_list(house: House) -> None:
    reader = await house.headers_of("reader", 1, write=False)
    answer = await house.client.get("/api/countries", headers=reader)
    assert answer.json() == await house.listed(path="/api/countries")


def test_countries_are_read_in_either_form_once_each() -> None:
    found = read_countries([642, "at", "RO", 40, "De"])
    assert [each.code for each in found] == ["RO", "AT", "DE"]
    assert read_countries([]) == ()


def test_each_that_is_no_country_is_named() -> None:
    with pytest.raises(ApiError) as refused:
        read_countries([642, "XX", 10**40, "<script>", "642"])
    assert refused.value.status_code == 422
    assert refused.value.errors == {
        "countries": [
            "There is no country 'XX'.",
            f"There is no country '1{19 * '0'}'.",
            "There is no country '<script>'.",
            "There is no country '642'.",
        ]
    }
