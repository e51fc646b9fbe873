import pytest

from media.stream_events import EngineLostEvent, LiveEvent, RungShedEvent, SlateEvent, SwitchedEvent
from storage.catalog import Catalog
from storage.catalog.library.labels import TagById
from storage.catalog.records.common import EventRecord
from storage.catalog.streams.repository import StreamChange
from storage.errors import NoSuchLabel

SHED = RungShedEvent(renditions=["720p"], late=3.1)

# The same statements on both: what differs between them has tests of its own.
SINCE = 2  # what is made before, as the first stream, has events of its own


async def test_events_are_read_newest_first_and_by_project(catalog: Catalog) -> None:
    first = await catalog.installation.first_start(1)
    assert first.stream is not None
    other = await catalog.projects.add("other", 1)
    foreign = await catalog.streams.add(other.id, "foreign", 1)
    await catalog.events.add(first.stream.hash, EngineLostEvent(cause="é"), 10)
    await catalog.events.add(foreign.hash, RungShedEvent(renditions=[], late=1.0), 11)
    await catalog.events.add(first.stream.hash, RungShedEvent(renditions=["720p"], late=3.1), 12)
    page = await catalog.events.find_page(first.project.id, since_us=SINCE)
    newest = page.items[0].id
    assert page.items == (
        EventRecord(
            id=newest,
            subject=first.stream.hash,
            kind="rung shed",
            facts={"renditions": ["720p"], "late": 3.1},
            token=None,
            created_us=12,
            number=3,
        ),
        EventRecord(
            id=newest - 2,
            subject=first.stream.hash,
            kind="engine lost",
            facts={"cause": "é"},
            token=None,
            created_us=10,
            number=2,
        ),
    )
    theirs = await catalog.events.find_page(other.id, since_us=SINCE)
    assert [event.id for event in theirs.items] == [newest - 1]
    newer = await catalog.events.find_page(first.project.id, since_us=11)
    assert [event.id for event in newer.items] == [newest]


async def test_the_events_of_each_stream_are_counted_and_no_others(catalog: Catalog) -> None:
    first = (await catalog.installation.first_start(1)).stream
    assert first is not None
    other = await catalog.streams.add(1, "Other", 1)
    await catalog.projects.edit(1, name="New", by=None, now_us=1)
    for stream in (first, other, first):
        await catalog.events.add(stream.hash, RungShedEvent(renditions=[], late=1.0), SINCE)
    await catalog.streams.remove(other.id, now_us=SINCE, by=None)
    events = (await catalog.events.find_page(1)).items[::-1]
    assert [(each.kind, each.subject, each.number) for each in events] == [
        ("stream added", first.hash, 1),
        ("stream added", other.hash, 1),
        ("project edited", "", None),
        ("rung shed", first.hash, 2),
        ("rung shed", other.hash, 2),
        ("rung shed", first.hash, 3),
        ("stream deleted", other.hash, 3),
    ]
    mine = await catalog.events.find_page(1, subject=first.hash)
    assert ([each.number for each in mine.items], mine.total) == ([3, 2, 1], 3)
    assert (await catalog.events.find_page(1, subject=first.hash, since_us=SINCE)).total == 2


async def test_an_event_that_is_taken_back_leaves_no_hole(catalog: Catalog) -> None:
    stream = (await catalog.installation.first_start(1)).stream
    assert stream is not None
    with pytest.raises(NoSuchLabel):
        await catalog.streams.edit(stream.id, StreamChange(tags=(TagById(99),)), now_us=1, by=None)
    await catalog.events.add(stream.hash, RungShedEvent(renditions=[], late=1.0), SINCE)
    assert [each.number for each in (await catalog.events.find_page(1)).items] == [2, 1]


async def test_an_event_of_no_stream_is_nothing(catalog: Catalog) -> None:
    await catalog.installation.first_start(1)
    await catalog.events.add("AAAAAAAAAAAA", RungShedEvent(renditions=[], late=1.0), SINCE)
    assert (await catalog.events.find_page(1, since_us=SINCE)).total == 0


async def test_pages_hold_ten(catalog: Catalog) -> None:
    first = await catalog.installation.first_start(1)
    assert first.stream is not None
    for number in range(23):
        await catalog.events.add(
            first.stream.hash, EngineLostEvent(cause=str(number)), SINCE + number
        )
    last = await catalog.events.find_page(1, since_us=SINCE, page=3)
    assert [event.facts["cause"] for event in last.items] == ["2", "1", "0"]
    assert (last.total, last.last) == (23, 3)
    assert (await catalog.events.find_page(1, since_us=SINCE, page=4)).items == ()


async def test_the_newest_event_of_some_kinds_is_that_of_the_stream(catalog: Catalog) -> None:
    first = (await catalog.installation.first_start(1)).stream
    assert first is not None
    other = await catalog.streams.add(1, "Other", 1)
    switched = SwitchedEvent(from_="primary", to="backup-1", reason="lost")
    for stream, event in (
        (first, LiveEvent()), (first, switched), (first, EngineLostEvent(cause="x")),
        (other, LiveEvent()),
    ):  # fmt: skip
        await catalog.events.add(stream.hash, event, SINCE)
    newest = await catalog.events.find_newest(1, first.hash, (LiveEvent, SwitchedEvent))
    assert newest is not None
    assert (newest.kind, newest.subject, newest.facts) == (
        "switched",
        first.hash,
        {"from": "primary", "to": "backup-1", "reason": "lost"},
    )
    assert await catalog.events.find_newest(1, first.hash, (SlateEvent,)) is None
    assert await catalog.events.find_newest(2, first.hash, (LiveEvent,)) is None
