"""The list of events, through the whole application."""

import pytest

from tests.api.house import NOW_US, House

pytestmark = pytest.mark.anyio

EVENTS = "/api/projects/1/events"


async def test_events_are_listed_newest_first(house: House) -> None:
    stream = await house.add("A stream")
    await house.catalog.add_event(stream["hash"], "engine lost", {"cause": "x"}, NOW_US)
    await house.catalog.add_event(
        stream["hash"], "rung shed", {"renditions": ["720p"], "late": 3.1}, NOW_US + 1_000_000
    )
    body = await house.listed(path=EVENTS)
    assert body["data"][:2] == [
        {
            "id": 4,
            "type": "rung shed",
            "subject": stream["hash"],
            "facts": {"renditions": ["720p"], "late": 3.1},
            "token": None,
            "created_at": "2023-11-14T22:13:21.123456Z",
        },
        {
            "id": 3,
            "type": "engine lost",
            "subject": stream["hash"],
            "facts": {"cause": "x"},
            "token": None,
            "created_at": "2023-11-14T22:13:20.123456Z",
        },
    ]
    added = body["data"][2]
    assert (added["type"], added["subject"], added["token"]) == ("stream added", stream["hash"], 1)
    assert body["meta"]["per_page"] == 10


@pytest.mark.parametrize(
    ("since", "found"),
    [
        ("2023-11-14T22:13:21Z", [4]),
        ("2023-11-14", [4, 3, 2, 1]),
        ("2023-11-15T00:13:21%2B02:00", [4]),
        ("1066-10-14", [4, 3, 2, 1]),
        ("9999-12-31", []),
    ],
)
async def test_since_leaves_out_what_is_older(house: House, since: str, found: list[int]) -> None:
    stream = await house.add("A stream")
    for second in (0, 1):
        await house.catalog.add_event(stream["hash"], "rung shed", {}, NOW_US + second * 1_000_000)
    body = await house.listed(f"?since={since}", path=EVENTS)
    assert [event["id"] for event in body["data"]] == found
    assert "since=" in body["links"]["first"]


@pytest.mark.parametrize("query", ["since=yesterday", "since=2026-13-01", "page=0"])
async def test_what_is_no_moment_and_no_page_is_refused(house: House, query: str) -> None:
    answer = await house.client.get(f"{EVENTS}?{query}", headers=house.owner)
    assert answer.status_code == 422
    assert set(answer.json()["errors"]) == {query.partition("=")[0]}


async def test_events_of_another_project_are_not_there(house: House) -> None:
    other = await house.catalog.add_project("other", NOW_US)
    headers = await house.headers_of("theirs", other.id, write=False)
    assert (await house.client.get(EVENTS, headers=headers)).status_code == 404
    assert (await house.client.get(EVENTS)).status_code == 401
