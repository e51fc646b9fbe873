"""The list of events, through the whole application."""

import pytest

from api.library import events
from media.stream_events import EngineLostEvent, RungShedEvent
from storage.catalog.events import log as event_log
from storage.catalog.records.common import Change
from tests.support.api.application import NOW_US, ApiService

EVENTS = "/api/projects/1/events"
SHED = RungShedEvent(renditions=["720p"], late=3.1)


async def test_events_are_listed_newest_first(api_service: ApiService) -> None:
    stream = await api_service.add("A stream")
    await api_service.catalog.events.add(stream["hash"], EngineLostEvent(cause="x"), NOW_US)
    await api_service.catalog.events.add(
        stream["hash"], RungShedEvent(renditions=["720p"], late=3.1), NOW_US + 1_000_000
    )
    body = await api_service.listed(path=EVENTS)
    assert body["data"][:2] == [
        {
            "id": 4,
            "number": 3,
            "type": "rung shed",
            "subject": stream["hash"],
            "facts": {"renditions": ["720p"], "late": 3.1},
            "token": None,
            "created_at": "2023-11-14T22:13:21.123456Z",
        },
        {
            "id": 3,
            "number": 2,
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
    ("since", "numbers"),
    [
        ("2023-11-14T22:13:21Z", [4]),
        ("2023-11-14", [4, 3, 2, 1]),
        ("2023-11-15T00:13:21%2B02:00", [4]),
        ("1066-10-14", [4, 3, 2, 1]),
        ("9999-12-31", []),
    ],
)
async def test_since_leaves_out_what_is_older(
    api_service: ApiService, since: str, numbers: list[int]
) -> None:
    stream = await api_service.add("A stream")
    for second in (0, 1):
        await api_service.catalog.events.add(stream["hash"], SHED, NOW_US + second * 1_000_000)
    body = await api_service.listed(f"?since={since}", path=EVENTS)
    assert [event["id"] for event in body["data"]] == numbers
    assert "since=" in body["links"]["first"]


async def test_the_events_of_one_stream_are_listed_with_its_own_numbers(
    api_service: ApiService,
) -> None:
    streams = [await api_service.add(title) for title in ("One", "Two")]
    for stream in streams * 6:
        await api_service.catalog.events.add(stream["hash"], SHED, NOW_US)
    await api_service.catalog.projects.edit(1, Change(NOW_US), name="New")
    for stream in streams:
        query = f"?stream={stream['id']}"
        page = await api_service.listed(query, path=EVENTS)
        assert [each["number"] for each in page["data"]] == list(range(7, 0, -1))
        assert {each["subject"] for each in page["data"]} == {stream["hash"]}
        assert page["meta"]["total"] == 7
        assert f"stream={stream['id']}" in page["links"]["first"]
        # Together with the other filter.
        later = await api_service.listed(f"{query}&since=2038-01-01", path=EVENTS)
        assert later["data"] == []
    everything = await api_service.listed(path=EVENTS)
    assert (everything["data"][0]["type"], everything["data"][0]["number"]) == (
        "project edited", None,
    )  # fmt: skip


async def test_a_program_reads_on_from_the_last_event_that_it_has(
    api_service: ApiService, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (event_log, events):
        monkeypatch.setattr(module, "MOST_AFTER", 3)
    streams = [await api_service.add(title) for title in ("One", "Two")]
    for stream in streams * 3:
        await api_service.catalog.events.add(stream["hash"], SHED, NOW_US)
    oldest_first = [event["id"] for event in (await api_service.listed(path=EVENTS))["data"][::-1]]
    after = oldest_first[0]
    page = await api_service.listed(f"?after={after}", path=EVENTS)
    assert [event["id"] for event in page["data"]] == oldest_first[1:4]
    assert (page["meta"]["per_page"], page["meta"]["total"], page["meta"]["last_page"]) == (3, 8, 3)
    assert page["links"]["prev"] is None
    # What is written meanwhile comes last, and nothing is read twice.
    await api_service.catalog.events.add(streams[0]["hash"], SHED, NOW_US)
    last = (await api_service.listed(path=EVENTS))["data"][0]["id"]
    seen = [event["id"] for event in page["data"]]
    while following := page["links"]["next"]:
        page = (await api_service.client.get(following, headers=api_service.owner)).json()
        seen += [event["id"] for event in page["data"]]
        assert page["links"]["last"].endswith(f"after={oldest_first[6]}")
    assert seen == [*oldest_first[1:], last]
    nothing = await api_service.listed(f"?after={last}", path=EVENTS)
    assert (nothing["data"], nothing["meta"]["from"], nothing["meta"]["to"]) == ([], None, None)
    assert nothing["links"]["next"] is None


async def test_a_program_reads_on_about_one_stream(api_service: ApiService) -> None:
    streams = [await api_service.add(title) for title in ("One", "Two")]
    for stream in streams * 2:
        await api_service.catalog.events.add(stream["hash"], SHED, NOW_US)
    query = f"?stream={streams[1]['id']}&after=0"
    page = await api_service.listed(query, path=EVENTS)
    assert [each["number"] for each in page["data"]] == [1, 2, 3]
    assert page["links"]["first"].endswith(query)


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        ("after=-1", "The after must be the id of an event, or 0."),
        ("after=", "The after must be the id of an event, or 0."),
        ("after=01", "The after must be the id of an event, or 0."),
        ("after=9999999999999999999", "The after must be the id of an event, or 0."),
        ("after=1&page=1", "The after cannot be combined with page."),
        ("after=1&since=2026-01-01", "The after cannot be combined with since."),
    ],
)
async def test_what_makes_no_sense_with_after_is_refused(
    api_service: ApiService, query: str, fault: str
) -> None:
    answer = await api_service.client.get(f"{EVENTS}?{query}", headers=api_service.owner)
    assert answer.status_code == 422
    assert answer.json()["errors"] == {"after": [fault]}


async def test_a_stream_of_another_project_has_no_events_here(api_service: ApiService) -> None:
    other = await api_service.catalog.projects.add("other", Change(NOW_US))
    foreign = await api_service.catalog.streams.add(other.id, "Foreign", Change(NOW_US))
    answer = await api_service.client.get(
        f"{EVENTS}?stream={foreign.id}", headers=api_service.owner
    )
    assert answer.status_code == 422
    assert answer.json()["errors"] == {
        "stream": ["The stream must be the number of one of this project."]
    }


@pytest.mark.parametrize(
    "query",
    [
        "since=yesterday", "since=2026-13-01", "page=0", "stream=", "stream=x", "stream=0",
        "stream=01", "stream=999", "stream=99999999999999999999",
    ],
)  # fmt: skip
async def test_what_is_no_moment_no_page_and_no_stream_is_refused(
    api_service: ApiService, query: str
) -> None:
    answer = await api_service.client.get(f"{EVENTS}?{query}", headers=api_service.owner)
    assert answer.status_code == 422
    assert set(answer.json()["errors"]) == {query.partition("=")[0]}


async def test_events_of_another_project_are_not_found(api_service: ApiService) -> None:
    other = await api_service.catalog.projects.add("other", Change(NOW_US))
    headers = await api_service.headers_of("theirs", other.id, write=False)
    assert (await api_service.client.get(EVENTS, headers=headers)).status_code == 404
    assert (await api_service.client.get(EVENTS)).status_code == 401
