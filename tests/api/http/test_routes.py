"""Which parameters a query may have, wherever they are declared; and OPTIONS."""

import pytest

from tests.support.api.application import STREAMS, ApiService


async def test_each_unknown_parameter_is_named_and_known_ones_are_not(
    api_service: ApiService,
) -> None:
    answer = await api_service.client.get(
        "/api/tokens?page=1&pag=2&pag=3&sort=x", headers=api_service.owner
    )
    assert answer.status_code == 422
    assert answer.json()["errors"] == {
        "pag": ["This parameter is not known here."],
        "sort": ["This parameter is not known here."],
    }


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(
            "/api/projects/1/players?search=x&sort_order=asc&page=1", id="of a dependency"
        ),
        pytest.param("/api/projects/1/events?since=2026-01-01", id="of the handler"),
        pytest.param("/api/projects?", id="none"),
        pytest.param("/api/projects/1/videos?_=1700000000", id="of an operation that takes any"),
    ],
)
async def test_an_operations_own_parameters_are_taken(api_service: ApiService, path: str) -> None:
    answer = await api_service.client.get(path, headers=api_service.owner)
    assert answer.status_code == 200, answer.text


async def test_a_query_of_a_thousand_names_is_answered_with_fifty(api_service: ApiService) -> None:
    query = "&".join(f"n{number}=" for number in range(1000))
    answer = await api_service.client.get(f"/api/projects?{query}", headers=api_service.owner)
    assert (answer.status_code, len(answer.json()["errors"])) == (422, 50)


async def test_who_asks_for_the_methods_is_told_whatever_the_query(api_service: ApiService) -> None:
    answer = await api_service.client.options("/api/tokens?x=1", headers=api_service.owner)
    assert answer.status_code == 204
    assert "GET" in answer.headers["allow"]


async def test_an_upload_link_takes_no_parameters(api_service: ApiService) -> None:
    added = await api_service.client.post(
        "/api/projects/1/upload-links", json={}, headers=api_service.owner
    )
    path = "/api/" + added.json()["upload_link"]["address"].partition("/api/")[2]
    headers = {"Tus-Resumable": "1.0.0", "Upload-Length": "5"}
    assert (await api_service.client.post(f"{path}?x=1", headers=headers)).status_code == 422
    assert (await api_service.client.post(path, headers=headers)).status_code == 201


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        (STREAMS, "GET, OPTIONS, POST"),
        ("/api/projects/1", "DELETE, GET, OPTIONS, PUT"),
        ("/api/countries", "GET, OPTIONS"),
    ],
)
async def test_options_and_a_wrong_method_name_the_same(
    api_service: ApiService, path: str, methods: str
) -> None:
    answer = await api_service.client.options(path, headers=api_service.owner)
    assert (answer.status_code, answer.headers["allow"]) == (204, methods)
    wrong = await api_service.client.patch(path, headers=api_service.owner)
    assert wrong.status_code == 405
    assert sorted(wrong.headers["allow"].split(", ")) == methods.split(", ")
