"""Refused operations on one stream, which change nothing."""

import pytest

from tests.api.streams.test_item import add_record, call, get_stream, newest_events
from tests.support.api.application import ApiService, Json


async def refused(api_service: ApiService, stream: Json, body: object, *fields: str) -> Json:
    """Check that an edit is refused for these fields, and changes nothing."""
    answer = await call(api_service, "PUT", stream["id"], json=body)
    assert answer.status_code == 422, (body, answer.text)
    errors: Json = answer.json().get("errors", {})
    assert set(errors) == set(fields), body
    assert await get_stream(api_service, stream) == stream, body
    return errors


WRONG: list[tuple[Json, str]] = [
    ({"title": None}, "title"),
    ({"title": ""}, "title"),
    ({"title": "x" * 256}, "title"),
    ({"title": "a\x00b"}, "title"),
    ({"title": 7}, "title"),
    ({"description": "x" * 10_001}, "description"),
    ({"description": "a\x00b"}, "description"),
    ({"category": 99}, "category"),
    ({"category": "News"}, "category"),
    ({"category": 2**70}, "category"),
    ({"category": -1}, "category"),
    ({"player": 99}, "player"),
    ({"player": 2**63}, "player"),
    ({"countries": ["ZZ"]}, "countries"),
    ({"countries": [0]}, "countries"),
    ({"countries": "RO"}, "countries"),
    ({"countries": [None]}, "countries"),
    ({"tags": [{"id": 99}]}, "tags"),
    ({"tags": [{}]}, "tags"),
    ({"tags": ["a"]}, "tags"),
    ({"tags": [{"name": ""}]}, "tags"),
    ({"tags": [{"name": "a", "more": 1}]}, "tags"),
    ({"tags": [{"name": "new"}, {"id": 2**70}]}, "tags"),
    ({"resolutions": []}, "resolutions"),
    ({"resolutions": None}, "resolutions"),
    ({"resolutions": [7]}, "resolutions"),
    ({"resolutions": [1, 0]}, "resolutions"),
    ({"resolutions": [2**70]}, "resolutions"),
    ({"resolutions": ["1"]}, "resolutions"),
    ({"live": True}, "live"),
    ({"settings": {}}, "settings"),
]


@pytest.mark.parametrize("field", dict.fromkeys(field for _, field in WRONG))
async def test_an_invalid_key_is_named_and_nothing_changes(
    api_service: ApiService, field: str
) -> None:
    stream = await api_service.add("Mine")
    for body in (body for body, wrong in WRONG if wrong == field):
        await refused(api_service, stream, {"title": "Other", **body}, field)
        answer = await api_service.client.get("/api/projects/1/tags", headers=api_service.owner)
        assert answer.json()["data"] == [], body
        assert (await newest_events(api_service))[0][0] == "stream added", body


async def test_each_unknown_country_is_named(api_service: ApiService) -> None:
    stream = await api_service.add("Mine")
    errors = await refused(api_service, stream, {"countries": ["RO", "ZZ", 1]}, "countries")
    assert errors == {"countries": ["There is no country 'ZZ'.", "There is no country '1'."]}


async def test_labels_and_players_of_another_project_are_refused(api_service: ApiService) -> None:
    stream = await api_service.add("Mine")
    other = await api_service.client.post(
        "/api/projects", json={"name": "Other"}, headers=api_service.owner
    )
    theirs = other.json()["project"]["id"]
    tag = await add_record(api_service, "tags", "Theirs", theirs)
    category = await add_record(api_service, "categories", "Theirs", theirs)
    player = await add_record(api_service, "players", "Theirs", theirs)
    await refused(api_service, stream, {"tags": [{"id": tag}]}, "tags")
    await refused(api_service, stream, {"category": category}, "category")
    await refused(api_service, stream, {"player": player}, "player")


async def test_an_unreadable_body_is_refused_with_its_own_status(api_service: ApiService) -> None:
    stream = await api_service.add("Mine")
    for content, kind, status in (
        (b"{", "application/json", 400),
        (b"[]", "application/json", 422),
        (b"{}", "text/plain", 415),
    ):
        answer = await call(
            api_service, "PUT", stream["id"], content=content,
            headers={**api_service.owner, "Content-Type": kind},
        )  # fmt: skip
        assert answer.status_code == status, answer.text
    assert await get_stream(api_service, stream) == stream
