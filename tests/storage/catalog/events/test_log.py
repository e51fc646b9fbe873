import pytest

from media.stream_events import EngineLostEvent, LiveEvent, RungShedEvent, SlateEvent, SwitchedEvent
from media.ticks import DAY_US
from storage.catalog import Catalog
from storage.catalog.events import log as event_log
from storage.catalog.records.common import Change, EventRecord, StreamRecord
from storage.catalog.records.details import StreamDetails
from storage.errors import NoSuchLabel
from tests.support.shared_engines import ON_BOTH

SHED = RungShedEvent(renditions=["720p"], late=3.1)

# The same statements on both: what differs between them has tests of its own.
SINCE = 2  # what is made before, as the first stream, has events of its own


async def test_events_are_read_newest_first_and_by_project(catalog: Catalog) -> None:
    first = await catalog.installation.first_start(1)
    assert first.stream is not None
    other = await catalog.projects.add("other", Change(1))
    foreign = await catalog.streams.add(other.id, "foreign", Change(1))
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
    other = await catalog.streams.add(1, "Other", Change(1))
    await catalog.projects.edit(1, Change(1), name="New")
    for stream in (first, other, first):
        await catalog.events.add(stream.hash, RungShedEvent(renditions=[], late=1.0), SINCE)
    await catalog.streams.remove(other.id, Change(SINCE))
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
        await catalog.streams.edit(stream.id, StreamDetails.edit(tags=(99,)), Change(1))
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


async def _first_stream(catalog: Catalog) -> StreamRecord:
    stream = (await catalog.installation.first_start(1)).stream
    assert stream is not None
    return stream


@ON_BOTH
async def test_programs_read_on_in_rising_order(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_log, "MOST_AFTER", 2)
    first = await _first_stream(catalog)
    other = await catalog.streams.add(1, "Other", Change(1))
    foreign = await catalog.projects.add("Foreign", Change(1))
    last = (await catalog.events.find_page(1)).items[0].id
    for stream in (first, other, first, other, first):
        await catalog.events.add(stream.hash, SHED, SINCE)
    seen: list[tuple[int, str]] = []
    totals: list[int] = []
    while (following := await catalog.events.find_after(1, last)).items:
        seen += [(each.id, each.subject) for each in following.items]
        totals.append(following.total)
        last = seen[-1][0]
    assert [hash_ for _, hash_ in seen] == [
        each.hash for each in (first, other, first, other, first)
    ]
    assert seen == sorted(seen, key=lambda each: each[0])
    assert totals == [5, 3, 1]
    mine = await catalog.events.find_after(1, 0, subject=other.hash)
    assert ([each.number for each in mine.items], mine.total) == ([1, 2], 3)
    assert (await catalog.events.find_after(foreign.id, 0)).total == 1


async def test_the_newest_have_pages_and_all_are_read_on(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_log, "MOST_COUNTED", 10)
    monkeypatch.setattr(event_log, "MOST_AFTER", 4)
    stream = await _first_stream(catalog)
    for number in range(20):
        await catalog.events.add(stream.hash, SHED, SINCE + number)
    pages = [await catalog.events.find_page(1, page=number) for number in (1, 2)]
    assert [(each.total, each.last, len(each.items)) for each in pages] == [
        (10, 1, 10), (10, 1, 0),
    ]  # fmt: skip
    numbers = [each.id for page in pages for each in page.items]
    assert numbers == sorted(numbers, reverse=True)
    following = await catalog.events.find_after(1, 0)
    assert following.total == 10
    assert following.last == following.items[-1].id + 4
    assert (await catalog.events.find_page(1)).items[0].id == numbers[0]


@ON_BOTH
async def test_each_stream_keeps_its_newest_events(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_log, "MOST_OF_STREAM", 20)
    monkeypatch.setattr(event_log, "_AT_ONCE", 7)
    first = await _first_stream(catalog)
    quiet = await catalog.streams.add(1, "Quiet", Change(1))
    for number in range(40):
        await catalog.events.add(first.hash, SHED, number)
    assert await catalog.events.remove_old(1) == 21
    assert await catalog.events.remove_old(1) == 0
    of_first = await catalog.events.find_after(1, 0, subject=first.hash)
    assert [each.number for each in of_first.items] == list(range(22, 42))
    assert (await catalog.events.find_after(1, 0, subject=quiet.hash)).total == 1


async def test_the_catalog_keeps_its_newest_events(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_log, "MOST", 5)
    await _first_stream(catalog)
    for number in range(8):
        await catalog.projects.edit(1, Change(number), name=f"{number}")
    newest = (await catalog.events.find_page(1)).items[0].id
    await catalog.events.remove_old(1)
    kept = await catalog.events.find_after(1, 0)
    assert [each.id for each in kept.items] == list(range(newest - 4, newest + 1))


async def test_events_are_kept_for_their_days(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_log, "_AT_ONCE", 2)
    stream = await _first_stream(catalog)
    began = (await catalog.events.find_page(1)).items[0].id
    # The clock of a host was ahead for one of them, and behind for another.
    for day in (100, 101, 300, 102, 189, 190, 103, 191):
        await catalog.events.add(stream.hash, SHED, day * DAY_US)
    now_us = 191 * DAY_US + 1

    async def kept() -> list[int]:
        found = await catalog.events.find_after(1, began)
        return [each.created_us // DAY_US for each in found.items]

    # A clock that says all of it is old, of which no event is recent, removes nothing.
    assert await catalog.events.remove_old(2_000 * DAY_US) == 0
    counts = [await catalog.events.remove_old(now_us) for _ in range(4)]
    assert counts == [2, 2, 0, 0], "no more at once than a share"
    assert await kept() == [102, 189, 190, 103, 191]


async def test_the_newest_event_of_some_kinds_is_that_of_the_stream(catalog: Catalog) -> None:
    first = (await catalog.installation.first_start(1)).stream
    assert first is not None
    other = await catalog.streams.add(1, "Other", Change(1))
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
