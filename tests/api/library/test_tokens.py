"""The operations on tokens, key by key, through the whole application."""

from typing import Any

import httpx
import pytest

from storage.catalog.records.common import Change
from tests.support.api.application import STREAMS, ApiService, Json

TOKENS = "/api/tokens"
NOW = "2023-11-14T22:13:20.123456Z"


async def add(
    api_service: ApiService, headers: dict[str, str] | None = None, **body: object
) -> httpx.Response:
    headers = api_service.owner if headers is None else headers
    return await api_service.client.post(TOKENS, json=body, headers=headers)


async def create_token(api_service: ApiService, **body: object) -> tuple[Json, dict[str, str]]:
    """Add a token; return its record and the headers of its bearer."""
    answer = await api_service.client.post(TOKENS, json=body, headers=api_service.owner)
    assert answer.status_code == 201, answer.text
    return answer.json()["token"], {"Authorization": f"Bearer {answer.json()['secret']}"}


async def list_tokens(api_service: ApiService, headers: dict[str, str], query: str = "") -> Json:
    answer = await api_service.client.get(TOKENS + query, headers=headers)
    assert answer.status_code == 200, answer.text
    page: Json = answer.json()
    return page


async def test_adding_answers_with_the_record_and_the_token_once(api_service: ApiService) -> None:
    answer = await add(api_service, name="Panou", project=1, write=True)
    assert answer.status_code == 201
    assert answer.headers["cache-control"] == "no-store"
    body = answer.json()
    assert set(body) == {"message", "token", "secret"}
    assert body["message"] == "Token added."
    assert body["token"] == {
        "id": 2, "name": "Panou", "project": 1, "write": True,
        "created_at": NOW, "revoked_at": None, "created_by": 1,
    }  # fmt: skip
    assert body["secret"].startswith("headend_")
    listing = await api_service.client.get(TOKENS, headers=api_service.owner)
    assert body["secret"] not in listing.text
    assert listing.json()["data"][0] == body["token"]
    events = await api_service.client.get("/api/projects/1/events", headers=api_service.owner)
    assert body["secret"] not in events.text
    newest = events.json()["data"][0]
    assert (newest["type"], newest["token"]) == ("token added", 1)
    assert newest["facts"] == {"token": 2, "name": "Panou", "write": True}


async def test_a_token_opens_what_it_was_made_for(api_service: ApiService) -> None:
    _, reader = await create_token(api_service, name="reader")
    _, writer = await create_token(api_service, name="writer", project=1, write=True)
    assert (await api_service.client.get(STREAMS, headers=reader)).status_code == 200
    stream = {"title": "x"}
    assert (await api_service.client.post(STREAMS, json=stream, headers=reader)).status_code == 403
    assert (await api_service.client.post(STREAMS, json=stream, headers=writer)).status_code == 201


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"write": True}, "name"),
        ({"name": ""}, "name"),
        ({"name": "x", "write": None}, "write"),
        ({"name": "x", "write": 1}, "write"),
        ({"name": "x", "project": "1"}, "project"),
        ({"name": "x", "project": True}, "project"),
        ({"name": "x", "project": 0}, "project"),
        ({"name": "x", "project": -1}, "project"),
        ({"name": "x", "project": 999}, "project"),
        ({"name": "x", "project": 1 << 31}, "project"),
        ({"name": "x", "project": 10**40}, "project"),
        ({"name": "x", "secret": "mine"}, "secret"),
    ],
)
async def test_a_body_that_is_wrong_is_refused(
    api_service: ApiService, body: dict[str, Any], field: str
) -> None:
    answer = await add(api_service, **body)
    assert answer.status_code == 422, answer.text
    assert set(answer.json()["errors"]) == {field}
    assert (await list_tokens(api_service, api_service.owner))["meta"]["total"] == 1


async def test_revoking_takes_effect_at_once_and_once(api_service: ApiService) -> None:
    token, bearer = await create_token(api_service, name="old", write=True)
    path = f"{TOKENS}/{token['id']}"
    answer = await api_service.client.delete(path, headers=api_service.owner)
    assert (answer.status_code, answer.content) == (204, b"")
    assert (await api_service.client.get(STREAMS, headers=bearer)).status_code == 401
    record = (await list_tokens(api_service, api_service.owner))["data"][0]
    assert record == token | {"revoked_at": NOW}
    assert (await api_service.client.delete(path, headers=api_service.owner)).status_code == 204
    events = (await api_service.listed(path="/api/projects/1/events"))["data"]
    assert [event["type"] for event in events].count("token revoked") == 1


@pytest.mark.parametrize("number", ["0", "-1", "02", "abc", "999", "2147483648", "9" * 30])
async def test_what_is_no_tokens_number_is_not_found(api_service: ApiService, number: str) -> None:
    answer = await api_service.client.delete(f"{TOKENS}/{number}", headers=api_service.owner)
    assert answer.status_code == 404
    assert (await api_service.client.get(STREAMS, headers=api_service.owner)).status_code == 200


async def test_a_token_of_a_project_manages_tokens_of_its_project_only(
    api_service: ApiService,
) -> None:
    other = (await api_service.catalog.projects.add("Other", Change(1))).id
    mine, bearer = await create_token(api_service, name="mine", project=other, write=True)
    theirs, _ = await create_token(api_service, name="theirs", project=1)
    # Without a project, the new token is for the same project; it cannot be for more.
    answer = await add(api_service, bearer, name="helper")
    assert (answer.status_code, answer.json()["token"]["project"]) == (201, other)
    helper = answer.json()["token"]
    assert (await add(api_service, bearer, name="x", project=None)).status_code == 403
    assert (await add(api_service, bearer, name="x", project=1)).status_code == 422
    page = await list_tokens(api_service, bearer)
    assert (page["data"], page["meta"]["total"]) == ([helper, mine], 2)
    for number, status in ((1, 404), (theirs["id"], 404), (helper["id"], 204)):
        answer = await api_service.client.delete(f"{TOKENS}/{number}", headers=bearer)
        assert answer.status_code == status
    assert (await api_service.client.get(STREAMS, headers=api_service.owner)).status_code == 200
    # A token that the owner's token adds without a project is for all projects.
    everything, _ = await create_token(api_service, name="all")
    assert everything["project"] is None


async def test_a_read_only_token_manages_no_tokens(api_service: ApiService) -> None:
    _, reader = await create_token(api_service, name="reader")
    for headers, status in ((reader, 403), ({}, 401)):
        answers = [
            await api_service.client.get(TOKENS, headers=headers),
            await add(api_service, headers, name="x"),
            await api_service.client.delete(f"{TOKENS}/1", headers=headers),
        ]
        assert [answer.status_code for answer in answers] == [status] * 3


async def test_tokens_come_in_pages_newest_first(api_service: ApiService) -> None:
    for number in range(11):
        await create_token(api_service, name=f"{number}")
    body = await list_tokens(api_service, api_service.owner)
    assert set(body) == {"data", "links", "meta"}
    assert [item["name"] for item in body["data"]] == [f"{number}" for number in range(10, 0, -1)]
    assert (body["meta"]["total"], body["meta"]["per_page"]) == (12, 10)
    assert body["links"]["next"] == "https://live.example/api/tokens?page=2"
    answer = await api_service.client.get(f"{TOKENS}?page=0", headers=api_service.owner)
    assert answer.status_code == 422


async def test_revoking_a_token_can_revoke_those_that_it_made(api_service: ApiService) -> None:
    leaked, headers = await create_token(api_service, name="leaked", write=True)
    child = (await add(api_service, headers, name="child", write=True)).json()
    assert child["token"]["created_by"] == leaked["id"]
    bearer = {"Authorization": f"Bearer {child['secret']}"}
    url = f"{TOKENS}/{leaked['id']}"
    wrong = await api_service.client.delete(f"{url}?descendants=maybe", headers=api_service.owner)
    assert (wrong.status_code, set(wrong.json()["errors"])) == (422, {"descendants"})
    assert (await api_service.client.delete(url, headers=api_service.owner)).status_code == 204
    assert (await api_service.client.get(STREAMS, headers=bearer)).status_code == 200
    answer = await api_service.client.delete(f"{url}?descendants=true", headers=api_service.owner)
    assert answer.status_code == 204
    assert (await api_service.client.get(STREAMS, headers=bearer)).status_code == 401
