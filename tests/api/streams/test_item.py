"""Operations on one stream, key by key, through the whole application and on both databases."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.streams.test_collection import FULL
from tests.support.api.application import ApiService, Json
from tests.support.shared_engines import mostly_on

# Both databases get the same statements here; their differences have separate tests.
pytestmark = mostly_on("sqlite")


@pytest.fixture
def catalog_database(either_database: str | Path) -> str | Path:
    """Either database."""
    return either_database


async def call(
    api_service: ApiService, method: str, stream: object, path: str = "", **request: Any
) -> httpx.Response:
    """Call an operation on a stream as its owner (Any: what httpx takes)."""
    headers = request.pop("headers", api_service.owner)
    url = f"/api/streams/{stream}{path}"
    return await api_service.client.request(method, url, headers=headers, **request)


async def edit_stream(api_service: ApiService, stream: Json, **body: object) -> Json:
    answer = await call(api_service, "PUT", stream["id"], json=body)
    assert answer.status_code == 200, answer.text
    assert set(answer.json()) == {"message", "stream"}
    assert answer.json()["message"] == "Stream updated."
    after: Json = answer.json()["stream"]
    assert set(after) == FULL
    return after


async def get_stream(api_service: ApiService, stream: Json) -> Json:
    answer = await call(api_service, "GET", stream["id"])
    assert answer.status_code == 200, answer.text
    assert set(answer.json()) == {"data"}
    return answer.json()["data"]  # type: ignore[no-any-return]  # JSON


async def add_record(api_service: ApiService, nouns: str, name: str, project: object = 1) -> int:
    """Add a category, a tag or a player, and return its ID."""
    answer = await api_service.client.post(
        f"/api/projects/{project}/{nouns}", json={"name": name}, headers=api_service.owner
    )
    assert answer.status_code == 201, answer.text
    (record,) = (value for key, value in answer.json().items() if key != "message")
    return int(record["id"])


async def newest_events(api_service: ApiService) -> list[tuple[str, int | None]]:
    """Return the newest events of streams with their tokens, newest first."""
    answer = await api_service.client.get("/api/projects/1/events", headers=api_service.owner)
    return [(each["type"], each["token"]) for each in answer.json()["data"] if each["subject"]]


async def test_a_single_stream_is_shown_in_its_full_form(api_service: ApiService) -> None:
    stream = await api_service.add("Mine")
    assert await get_stream(api_service, stream) == stream
    assert set(stream) == FULL


async def test_every_key_of_an_edit_comes_back_and_stays(api_service: ApiService) -> None:
    stream = await api_service.add("Mine")
    category, player = (
        await add_record(api_service, "categories", "News"),
        await add_record(api_service, "players", "Big"),
    )
    after = await edit_stream(
        api_service,
        stream,
        title="Știri 👩‍👩‍👧",
        description="One line\nand another, with\ttabs: ăîșț 漢字",
        category=category,
        countries=["RO", 250, "de", 642],
        tags=[{"name": "Sport"}, {"name": "Live"}],
        resolutions=[1, 5, 5],
        player=player,
    )
    sport, live = after["tags"][1], after["tags"][0]
    assert after == {
        **stream,
        "title": "Știri 👩‍👩‍👧",
        "description": "One line\nand another, with\ttabs: ăîșț 漢字",
        "category": {"id": category, "name": "News"},
        "countries": [
            {"id": 642, "code": "RO", "name": "Romania"},
            {"id": 250, "code": "FR", "name": "France"},
            {"id": 276, "code": "DE", "name": "Germany"},
        ],
        "tags": [{"id": live["id"], "name": "Live"}, {"id": sport["id"], "name": "Sport"}],
        "resolutions": [
            {"id": number, "name": name, "active": number in {1, 5}}
            for number, name in enumerate(
                ("360p", "480p", "720p", "1080p", "1440p", "2160p"), start=1
            )
        ],
        "player": {"id": player, "name": "Big"},
        "embed": after["embed"],
    }
    assert await get_stream(api_service, stream) == after
    (item, *_) = (await api_service.listed())["data"]
    assert {key: after[key] for key in item if key != "stream"} == {
        key: item[key] for key in item if key != "stream"
    }


async def test_only_what_is_sent_changes(api_service: ApiService) -> None:
    stream = await api_service.add("Mine")
    category = await add_record(api_service, "categories", "News")
    before = await edit_stream(
        api_service,
        stream,
        description="x",
        category=category,
        countries=["RO"],
        tags=[{"name": "a"}],
    )
    assert await edit_stream(api_service, stream) == before
    assert (await edit_stream(api_service, stream, title="Other")) == {
        **before,
        "title": "Other",
        "embed": {name: text.replace("Mine", "Other") for name, text in before["embed"].items()},
    }


async def test_null_clears_what_may_be_empty(api_service: ApiService) -> None:
    stream = await api_service.add("Mine")
    await edit_stream(
        api_service,
        stream,
        description="x",
        category=await add_record(api_service, "categories", "News"),
        player=await add_record(api_service, "players", "Big"),
        countries=["RO"],
        tags=[{"name": "a"}],
    )
    cleared = await edit_stream(
        api_service, stream, description=None, category=None, player=None, countries=None, tags=None
    )
    assert cleared == stream


async def test_a_records_own_tags_can_be_sent_back_as_they_were_shown(
    api_service: ApiService,
) -> None:
    stream = await api_service.add("Mine")
    tagged = await edit_stream(api_service, stream, tags=[{"name": "a"}, {"name": "b"}])
    assert await edit_stream(api_service, stream, tags=tagged["tags"]) == tagged
    assert (await edit_stream(api_service, stream, tags=[{"name": "A"}]))["tags"] == tagged["tags"][
        :1
    ]


async def test_publishing_and_unpublishing_answer_with_the_stream(api_service: ApiService) -> None:
    stream = await api_service.add("Mine")
    for action, published in (("publish", True), ("unpublish", False), ("publish", True)):
        answer = await call(api_service, "POST", stream["id"], f"/{action}")
        assert answer.status_code == 200
        assert answer.json() == {
            "message": f"Stream {action}ed.",
            "stream": {**stream, "published": published},
        }
    assert [kind for kind, _ in await newest_events(api_service)][:3] == [
        "published",
        "unpublished",
        "published",
    ]


async def test_every_change_is_an_event_with_its_token(api_service: ApiService) -> None:
    stream = await api_service.add("Mine")
    writer = await api_service.headers_of("writer", 1, write=True)
    for method, path, body in (
        ("PUT", "", {"title": "Other"}),
        ("POST", "/unpublish", None),
        ("PUT", "/settings", {"failover": {"goodbye_seconds": 1}}),
        ("POST", "/backups", None),
        ("DELETE", f"/backups/{stream['backups'][0]['id']}", None),
        ("POST", "/rotate-key", None),
        ("DELETE", "", None),
    ):
        answer = await call(api_service, method, stream["id"], path, json=body, headers=writer)
        assert answer.status_code < 300, (path, answer.text)
    events = await newest_events(api_service)
    token = events[0][1]
    assert token is not None
    assert events[:8] == [
        ("stream deleted", token),
        ("stream key changed", token),
        ("backup removed", token),
        ("backup added", token),
        ("stream settings changed", token),
        ("unpublished", token),
        ("stream edited", token),
        ("stream added", 1),
    ]
    assert token != 1


async def test_backups_come_and_go_under_numbers_of_their_own(api_service: ApiService) -> None:
    stream = await api_service.add("Mine")
    (first,) = stream["backups"]
    answer = await call(api_service, "POST", stream["id"], "/backups")
    assert answer.status_code == 201
    assert answer.json()["message"] == "Backup added."
    second: Json = answer.json()["backup"]
    assert second == {
        "id": second["id"],
        "name": "Backup 2",
        "rtmps_url": "rtmps://spare.example:1936/live-backup-2",
        "rtmp_url": "rtmp://spare.example:1935/live-backup-2",
        "publish": False,
        "live": False,
    }
    for backup in (first, second):
        path = f"/backups/{backup['id']}"
        assert (await call(api_service, "DELETE", stream["id"], path)).status_code == 204
        assert (await call(api_service, "DELETE", stream["id"], path)).status_code == 404
    assert (await get_stream(api_service, stream))["backups"] == []
    third = await call(api_service, "POST", stream["id"], "/backups")
    assert third.json()["backup"]["name"] == "Backup 3"


async def test_a_ninth_backup_is_refused(api_service: ApiService) -> None:
    stream = await api_service.add("Mine")
    for _ in range(7):
        assert (await call(api_service, "POST", stream["id"], "/backups")).status_code == 201
    before = await get_stream(api_service, stream)
    answer = await call(api_service, "POST", stream["id"], "/backups")
    assert answer.status_code == 409
    assert answer.json() == {"message": "A stream may have at most 8 backups."}
    assert await get_stream(api_service, stream) == before


async def test_a_backup_of_another_stream_is_not_found(api_service: ApiService) -> None:
    stream, other = await api_service.add("Mine"), await api_service.add("Other")
    for number in (0, "x", 99, 2**31, 2**63, 2**64, other["backups"][0]["id"]):
        answer = await call(api_service, "DELETE", stream["id"], f"/backups/{number}")
        assert answer.status_code == 404, (number, answer.text)
    assert await get_stream(api_service, other) == other


async def test_a_token_that_may_only_read_sees_no_key(api_service: ApiService) -> None:
    stream = await api_service.add("Secret")
    secret = stream["stream"].split("_")[1]
    reader = await api_service.headers_of("reader", 1, write=False)
    answer = await call(api_service, "GET", stream["id"], headers=reader)
    listing = await api_service.client.get("/api/projects/1/streams", headers=reader)
    assert answer.json()["data"]["stream"] == f"{stream['hash']}_********"
    assert [each["stream"] for each in listing.json()["data"]][:1] == ["********"]
    assert secret not in answer.text + listing.text
    writer = await api_service.headers_of("writer", 1, write=True)
    assert secret in (await call(api_service, "GET", stream["id"], headers=writer)).text
