"""The operations on tags and categories, key by key, through the whole application."""

from typing import Any

import httpx
import pytest

from storage.catalog.records.common import Change
from tests.support.api.application import ApiService, Json

# The noun of a record and the plural in the addresses of its list.
KINDS = [("tag", "tags"), ("category", "categories")]
both = pytest.mark.parametrize(("noun", "nouns"), KINDS)


async def add(
    api_service: ApiService, nouns: str, project: object = 1, **body: object
) -> httpx.Response:
    return await api_service.client.post(
        f"/api/projects/{project}/{nouns}", json=body, headers=api_service.owner
    )


async def create_label(api_service: ApiService, noun: str, nouns: str, name: str) -> Json:
    answer = await add(api_service, nouns, name=name)
    assert answer.status_code == 201, answer.text
    record: Json = answer.json()[noun]
    return record


async def edit(
    api_service: ApiService, nouns: str, number: object, **body: object
) -> httpx.Response:
    return await api_service.client.put(
        f"/api/{nouns}/{number}", json=body, headers=api_service.owner
    )


async def list_names(api_service: ApiService, nouns: str, query: str = "") -> list[str]:
    body = await api_service.listed(query, path=f"/api/projects/1/{nouns}")
    return [item["name"] for item in body["data"]]


@both
async def test_adding_answers_with_the_record_and_nothing_else(
    api_service: ApiService, noun: str, nouns: str
) -> None:
    answer = await add(api_service, nouns, name="  Știri 🎬 ")
    assert answer.status_code == 201
    record = answer.json()[noun]
    assert answer.json() == {
        "message": f"{noun.capitalize()} added.",
        noun: {"id": record["id"], "name": "Știri 🎬", "active": True},
    }
    assert type(record["id"]) is int
    event = await api_service.newest_event()
    assert (event["type"], event["facts"]) == (
        f"{noun} added",
        {noun: record["id"], "name": "Știri 🎬"},
    )
    assert event["token"] == 1


@both
async def test_an_inactive_label_can_be_added_by_the_projects_key(
    api_service: ApiService, noun: str, nouns: str
) -> None:
    answer = await add(api_service, nouns, api_service.key, name="News", active=False)
    assert answer.status_code == 201
    assert answer.json()[noun]["active"] is False


@both
async def test_editing_answers_with_the_record_and_nothing_else(
    api_service: ApiService, noun: str, nouns: str
) -> None:
    record = await create_label(api_service, noun, nouns, "News")
    answer = await edit(api_service, nouns, record["id"], name="Sport")
    assert answer.status_code == 200
    assert answer.json() == {
        "message": f"{noun.capitalize()} updated.",
        noun: {"id": record["id"], "name": "Sport", "active": True},
    }
    assert (await api_service.newest_event())["facts"] == {noun: record["id"], "keys": ["name"]}
    answer = await edit(api_service, nouns, record["id"], active=False)
    assert answer.json()[noun] == {"id": record["id"], "name": "Sport", "active": False}
    # An empty edit changes nothing.
    before = await api_service.newest_event()
    answer = await edit(api_service, nouns, record["id"])
    assert answer.json()[noun] == {"id": record["id"], "name": "Sport", "active": False}
    assert await api_service.newest_event() == before


@both
async def test_a_taken_name_is_a_conflict_that_changes_nothing(
    api_service: ApiService, noun: str, nouns: str
) -> None:
    await create_label(api_service, noun, nouns, "News")
    other = await create_label(api_service, noun, nouns, "Sport")
    before = await api_service.newest_event()
    for answer in (
        await add(api_service, nouns, name="NEWS"),
        await edit(api_service, nouns, other["id"], name="news", active=False),
    ):
        assert answer.status_code == 409
        assert set(answer.json()) == {"message", "errors"}
        assert set(answer.json()["errors"]) == {"name"}
    body = await api_service.listed(path=f"/api/projects/1/{nouns}")
    assert [(item["name"], item["active"]) for item in body["data"]] == [
        ("Sport", True),
        ("News", True),
    ]
    assert await api_service.newest_event() == before


@both
@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, {"name"}),
        ({"name": None}, {"name"}),
        ({"name": ""}, {"name"}),
        ({"name": " \u200b "}, {"name"}),
        ({"name": "a\nb"}, {"name"}),
        ({"name": "a\x00"}, {"name"}),
        ({"name": 5}, {"name"}),
        ({"name": "x" * 256}, {"name"}),
        ({"name": "x", "active": 1}, {"active"}),
        ({"name": "x", "active": None}, {"active"}),
        ({"name": "x", "colour": "red", "id": 4}, {"colour", "id"}),
        ({"name": ["x"], "active": "yes", "z": 1}, {"name", "active", "z"}),
    ],
)
async def test_a_body_that_is_wrong_is_refused_with_every_fault(
    api_service: ApiService, noun: str, nouns: str, body: dict[str, Any], fields: set[str]
) -> None:
    answer = await add(api_service, nouns, **body)
    assert answer.status_code == 422, answer.text
    assert set(answer.json()["errors"]) == fields
    record = await create_label(api_service, noun, nouns, "Name")
    before = await api_service.newest_event()
    answer = await edit(api_service, nouns, record["id"], **(body or {"names": "x"}))
    assert answer.status_code == 422
    assert set(answer.json()["errors"]) == (fields if body else {"names"})
    assert await list_names(api_service, nouns) == ["Name"]
    assert await api_service.newest_event() == before


@both
async def test_a_name_has_at_most_255_characters_of_any_script(
    api_service: ApiService, noun: str, nouns: str
) -> None:
    # Four bytes each, three letters each when folded, four letters each when composed.
    longest = ["\U0001d518" * 255, "\u1f82" * 255, "\U0001d160" * 255]
    for name in (*longest, "'; DROP TABLE tags; --%_\\"):
        assert (await create_label(api_service, noun, nouns, name))["name"] == name
    assert await list_names(api_service, nouns, "?search=%27%3B%20drop") == [
        "'; DROP TABLE tags; --%_\\"
    ]
    assert await list_names(api_service, nouns, "?sort_column=id") == [
        *longest,
        "'; DROP TABLE tags; --%_\\",
    ]


@both
async def test_a_list_comes_in_the_envelope_with_the_documented_keys(
    api_service: ApiService, noun: str, nouns: str
) -> None:
    for number in range(12):
        await create_label(api_service, noun, nouns, f"Name {number:02}")
    path = f"https://live.example/api/projects/1/{nouns}"
    body = await api_service.listed(
        "?search=name&sort_column=name&page=2", f"/api/projects/1/{nouns}"
    )
    assert set(body) == {"data", "links", "meta"}
    assert [set(item) for item in body["data"]] == [{"id", "name", "active"}] * 2
    assert [item["name"] for item in body["data"]] == ["Name 10", "Name 11"]
    filters = "search=name&sort_column=name"
    assert body["links"] == {
        "first": f"{path}?{filters}&page=1",
        "last": f"{path}?{filters}&page=2",
        "prev": f"{path}?{filters}&page=1",
        "next": None,
    }
    meta = body["meta"]
    assert set(meta) == {
        "current_page", "from", "last_page", "links", "path", "per_page", "to", "total",
    }  # fmt: skip
    assert (meta["per_page"], meta["total"], meta["from"], meta["to"]) == (10, 12, 11, 12)
    assert meta["path"] == path
    assert await list_names(api_service, nouns) == [
        f"Name {number:02}" for number in range(11, 1, -1)
    ]


@both
async def test_a_list_is_sorted_as_asked(api_service: ApiService, noun: str, nouns: str) -> None:
    for name in ("b", "C", "a"):
        await create_label(api_service, noun, nouns, name)
    middle = (await api_service.listed(path=f"/api/projects/1/{nouns}"))["data"][1]
    await edit(api_service, nouns, middle["id"], active=False)
    for query, expected in [
        ("", ["a", "C", "b"]),
        ("?sort_order=asc", ["b", "C", "a"]),
        ("?sort_column=id", ["b", "C", "a"]),
        ("?sort_column=name", ["a", "b", "C"]),
        ("?sort_column=name&sort_order=desc", ["C", "b", "a"]),
        ("?sort_column=active", ["C", "b", "a"]),
        ("?sort_column=active&sort_order=desc", ["a", "b", "C"]),
    ]:
        assert await list_names(api_service, nouns, query) == expected, query
    for query in ("sort_column=title", "sort_order=up", "page=0", "search=%00"):
        answer = await api_service.client.get(
            f"/api/projects/1/{nouns}?{query}", headers=api_service.owner
        )
        assert answer.status_code == 422
        assert set(answer.json()["errors"]) == {query.partition("=")[0]}


@both
async def test_projects_have_separate_labels(
    api_service: ApiService, noun: str, nouns: str
) -> None:
    other = (await api_service.catalog.projects.add("Other", Change(1))).id
    await create_label(api_service, noun, nouns, "News")
    answer = await add(api_service, nouns, other, name="news")
    assert answer.status_code == 201
    body = await api_service.listed(path=f"/api/projects/{other}/{nouns}")
    assert [item["name"] for item in body["data"]] == ["news"]
    assert (await add(api_service, nouns, 999, name="x")).status_code == 404
