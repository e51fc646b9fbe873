"""The operations on players, key by key, through the whole application."""

from typing import Any

import httpx
import pytest

from tests.support.api.application import ApiService, Json

PLAYERS = "/api/projects/1/players"
NOW = "2023-11-14T22:13:20.123456Z"
STANDARD = {
    "autoplay": False, "muted": False, "loop": False, "controls": True, "color": None,
    "created_at": NOW, "updated_at": NOW,
}  # fmt: skip


async def add(api_service: ApiService, **body: object) -> httpx.Response:
    return await api_service.client.post(PLAYERS, json=body, headers=api_service.owner)


async def create_player(api_service: ApiService, name: str, **options: object) -> Json:
    answer = await add(api_service, name=name, **options)
    assert answer.status_code == 201, answer.text
    player: Json = answer.json()["player"]
    return player


async def edit(api_service: ApiService, number: object, **body: object) -> httpx.Response:
    return await api_service.client.put(
        f"/api/players/{number}", json=body, headers=api_service.owner
    )


async def test_adding_answers_with_the_player_and_nothing_else(api_service: ApiService) -> None:
    answer = await add(api_service, name="Ecran")
    assert answer.status_code == 201
    number = answer.json()["player"]["id"]
    assert answer.json() == {
        "message": "Player added.",
        "player": {"id": number, "name": "Ecran", **STANDARD},
    }
    event = await api_service.newest_event()
    assert (event["type"], event["facts"]) == (
        "player added",
        {"player": number, "name": "Ecran"},
    )
    assert event["token"] == 1


async def test_options_are_kept_as_they_were_sent(api_service: ApiService) -> None:
    options = {
        "autoplay": True, "muted": True, "loop": True, "controls": False, "color": "#FFaa00",
    }  # fmt: skip
    player = await create_player(api_service, "Ecran", **options)
    assert {key: player[key] for key in options} == options
    listed = await api_service.listed(path=PLAYERS)
    assert listed["data"] == [player]


async def test_an_edit_changes_only_the_keys_that_it_sends(api_service: ApiService) -> None:
    player = await create_player(api_service, "One", color="#112233", loop=True)
    answer = await edit(api_service, player["id"], name="Two", controls=False)
    assert answer.status_code == 200
    assert answer.json() == {
        "message": "Player updated.",
        "player": player | {"name": "Two", "controls": False},
    }
    assert (await api_service.newest_event())["facts"] == {
        "player": player["id"],
        "keys": ["name", "controls"],
    }
    cleared = (await edit(api_service, player["id"], color=None)).json()["player"]
    assert cleared == player | {"name": "Two", "controls": False, "color": None}
    before = await api_service.newest_event()
    assert (await edit(api_service, player["id"])).json()["player"] == cleared
    assert await api_service.newest_event() == before


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": None}, "name"),
        ({"name": "\u200b"}, "name"),
        ({"name": "x" * 256}, "name"),
        ({"name": "x", "autoplay": None}, "autoplay"),
        ({"name": "x", "muted": "yes"}, "muted"),
        ({"name": "x", "color": "red"}, "color"),
        ({"name": "x", "color": "#12345"}, "color"),
        ({"name": "x", "color": "#123456\n"}, "color"),
        ({"name": "x", "color": "#12345g"}, "color"),
        ({"name": "x", "color": 7}, "color"),
        ({"name": "x", "options": {}}, "options"),
    ],
)
async def test_a_body_that_is_wrong_is_refused(
    api_service: ApiService, body: dict[str, Any], field: str
) -> None:
    player = await create_player(api_service, "One")
    before = await api_service.newest_event()
    for answer in (await add(api_service, **body), await edit(api_service, player["id"], **body)):
        assert answer.status_code == 422, answer.text
        assert set(answer.json()["errors"]) == {field}
    assert (await add(api_service)).json()["errors"] == {"name": ["The name is required."]}
    assert (await api_service.listed(path=PLAYERS))["data"] == [player]
    assert await api_service.newest_event() == before


async def test_a_list_comes_in_pages_searched_and_sorted(api_service: ApiService) -> None:
    for name in ("b", "C", "a", *(f"more {number}" for number in range(8))):
        await create_player(api_service, name)
    body = await api_service.listed(path=PLAYERS)
    assert set(body) == {"data", "links", "meta"}
    assert (body["meta"]["total"], body["meta"]["per_page"], body["meta"]["to"]) == (11, 10, 10)
    body = await api_service.listed("?sort_column=name", PLAYERS)
    assert [item["name"] for item in body["data"]][:3] == ["a", "b", "C"]
    body = await api_service.listed("?search=c", PLAYERS)
    assert [item["name"] for item in body["data"]] == ["C"]
    for query in ("sort_column=active", "page=x"):
        answer = await api_service.client.get(f"{PLAYERS}?{query}", headers=api_service.owner)
        assert answer.status_code == 422
