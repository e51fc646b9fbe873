"""Ended streams refuse encoders until none has tried for a while, or their owner allows them."""

from collections.abc import AsyncGenerator, Iterable
from itertools import accumulate
from pathlib import Path

import pytest

from media.stream_events import RefusedEvent
from storage.catalog import Catalog, open_catalog
from storage.catalog.records.common import Change, IngestRecord, StreamRecord
from storage.catalog.streams.commands import CommandKind, StreamCommand
from storage.catalog.streams.holds import extend
from tests.support.shared_engines import ON_BOTH

SECOND = 1_000_000
HOLD = 60 * SECOND
NOW = 1_700_000_000 * SECOND
REFUSED = RefusedEvent(slot="primary", reason="the stream was ended")


@pytest.fixture
async def second(location: str | Path, catalog: Catalog) -> AsyncGenerator[Catalog]:
    """The same catalog, as another process has it open."""
    del catalog  # made first
    async with open_catalog(location, migrate=False) as opened:
        yield opened


async def ended(catalog: Catalog, *, at_us: int = NOW, found: bool = True) -> StreamRecord:
    """Return the first stream after a command to end it, which found a run or did not."""
    first = await catalog.installation.first_start(1)
    stream = first.stream or await catalog.streams.find(1)
    assert stream is not None
    command = StreamCommand(stream=stream.id, hash=stream.hash, kind=CommandKind.END)
    number = await catalog.commands.add(command, at_us)
    assert await catalog.commands.start(number, at_us, hold_us=HOLD)
    await catalog.commands.answer(number, {"ended": found}, at_us)
    return await shown(catalog, stream.id)


async def shown(catalog: Catalog, stream: int) -> StreamRecord:
    record = await catalog.streams.find(stream)
    assert record is not None
    return record


async def looked_up(catalog: Catalog, stream: StreamRecord) -> IngestRecord:
    record = await catalog.live_state.find_ingest(stream.key)
    assert record is not None
    return record


async def refused(catalog: Catalog, stream: StreamRecord, now_us: int) -> int | None:
    """Let an encoder try; return until when it is refused, None if it is let in."""
    record = await looked_up(catalog, stream)
    return await catalog.holds.refuse(record, REFUSED, hold_us=HOLD, now_us=now_us)


async def kinds(catalog: Catalog, stream: StreamRecord) -> list[str]:
    page = await catalog.events.find_page(stream.project, subject=stream.hash)
    return [event.kind for event in page.items]


def lapses_at(pauses: Iterable[float], *, hold_us: int = HOLD) -> float | None:
    """Return when an encoder is let in, in seconds after the end, if it tries after these pauses.

    None: all its attempts are refused.
    """
    until_us, refused_us = hold_us, None
    for seconds in accumulate(pauses):
        now_us = round(seconds * SECOND)
        if now_us >= until_us:
            return seconds
        after_us = extend(until_us, refused_us, hold_us=hold_us, now_us=now_us)
        if after_us is not None:
            until_us, refused_us = after_us, now_us
    return None


@pytest.mark.parametrize(
    ("pauses", "let_in_at"),
    [
        pytest.param([59], None, id="within the time"),
        pytest.param([60], 60, id="nobody tried"),
        pytest.param([2] * 1000, None, id="every 2 s for half an hour"),
        pytest.param([2, 59.9], None, id="each attempt begins the time anew"),
        pytest.param([2, 65.1], 67.1, id="and 5 s later it is over"),
        pytest.param([30, 30, 65.1], 125.1, id="a person who waits"),
    ],
)
def test_encoders_are_let_in_once_none_has_tried_for_the_time(
    pauses: list[float], let_in_at: float | None
) -> None:
    assert lapses_at(pauses) == let_in_at


@pytest.mark.parametrize("growth", [1.5, 1.55])
@pytest.mark.parametrize("first", [1.0, 2.0, 10.0])
def test_an_encoder_that_waits_longer_and_longer_is_refused_at_each_attempt(
    growth: float, first: float
) -> None:
    """OBS tries 25 times, and waits for at most 15 minutes."""
    pauses = [min(first * growth**number, 900.0) for number in range(25)]
    assert pauses[-1] == 900.0
    assert lapses_at(pauses) is None


def test_an_encoder_that_stops_waiting_longer_is_waited_for_as_any_other() -> None:
    assert lapses_at([2, 50, *[5] * 30, 75]) == 277


def test_attempts_in_quick_succession_store_something_once_in_five_seconds() -> None:
    until_us, refused_us, changed = NOW + HOLD, None, 0
    for now_us in range(NOW, NOW + HOLD, SECOND // 10):
        after_us = extend(until_us, refused_us, hold_us=HOLD, now_us=now_us)
        if after_us is not None:
            until_us, refused_us, changed = after_us, now_us, changed + 1
        assert until_us >= now_us + HOLD
    assert changed == 12


@ON_BOTH
async def test_an_ended_stream_refuses_its_encoders_for_the_time(
    catalog: Catalog, second: Catalog
) -> None:
    """Whichever process they try."""
    stream = await ended(catalog)
    assert stream.held_until_us == NOW + HOLD
    assert await refused(second, stream, NOW + 2 * SECOND) == NOW + 67 * SECOND
    assert await refused(catalog, stream, NOW + 4 * SECOND) == NOW + 67 * SECOND
    assert await refused(second, stream, NOW + 66 * SECOND) is not None
    until_us = (await shown(catalog, stream.id)).held_until_us
    assert until_us is not None
    assert await refused(catalog, stream, until_us) is None


async def test_a_stream_that_nobody_ended_is_not_held(catalog: Catalog) -> None:
    first = await catalog.installation.first_start(1)
    assert first.stream is not None
    assert await refused(catalog, first.stream, NOW) is None


async def test_a_command_that_found_nothing_to_end_leaves_the_stream_as_it_was(
    catalog: Catalog,
) -> None:
    stream = await ended(catalog, found=False)
    assert await refused(catalog, stream, NOW + SECOND) is None
    stream = await ended(catalog, at_us=NOW + SECOND)
    assert await refused(catalog, stream, NOW + 2 * SECOND) is not None
    before = await shown(catalog, stream.id)
    stream = await ended(catalog, at_us=NOW + 9 * SECOND, found=False)
    assert stream.held_until_us == before.held_until_us
    assert await kinds(catalog, stream) == ["refused", "stream ended", "stream added"]


async def test_a_command_that_is_taken_twice_remembers_what_was_before_the_first(
    catalog: Catalog,
) -> None:
    """As after the death of the process that took it."""
    stream = await ended(catalog, found=False)
    command = StreamCommand(stream=stream.id, hash=stream.hash, kind=CommandKind.END)
    number = await catalog.commands.add(command, NOW)
    for later in range(2):
        assert await catalog.commands.start(number, NOW + later, hold_us=HOLD)
    assert (await shown(catalog, stream.id)).held_until_us == NOW + HOLD
    await catalog.commands.answer(number, {"ended": False}, NOW + 2)
    assert (await shown(catalog, stream.id)).held_until_us is None


@ON_BOTH
async def test_the_first_refusal_of_an_end_is_an_event_and_a_broadcast(catalog: Catalog) -> None:
    stream = await ended(catalog)
    newest = await catalog.outbox.newest()
    for tries in range(30):
        assert await refused(catalog, stream, NOW + tries * 2 * SECOND) is not None
    page = await catalog.events.find_page(stream.project, subject=stream.hash)
    assert [event.kind for event in page.items] == ["refused", "stream ended", "stream added"]
    assert page.items[0].facts == REFUSED.facts
    sent, _ = await catalog.outbox.read_after(newest, 10)
    assert len(sent) == 1
    after = await shown(catalog, stream.id)
    assert after.version == stream.version + 1
    again = await ended(catalog, at_us=NOW + 1000 * SECOND)
    assert again.refused_us is None
    await refused(catalog, stream, NOW + 1001 * SECOND)
    assert (await kinds(catalog, stream))[:2] == ["refused", "stream ended"]


@ON_BOTH
async def test_the_owner_allows_encoders_again(catalog: Catalog, second: Catalog) -> None:
    stream = await ended(catalog)
    looked_up_before = await looked_up(catalog, stream)
    assert await second.holds.allow(stream.id, Change(NOW + 1, by=1))
    assert await refused(catalog, stream, NOW + 2) is None
    # It read the hold before it was allowed, and asks to extend it afterwards.
    late = await catalog.holds.refuse(looked_up_before, REFUSED, hold_us=HOLD, now_us=NOW + 3)
    assert late is None
    page = await catalog.events.find_page(stream.project, subject=stream.hash)
    assert (page.items[0].kind, page.items[0].facts, page.items[0].token) == (
        "stream allowed",
        {"stream": stream.id},
        1,
    )
    # Once is enough, and a stream that is not there is none.
    version = (await shown(catalog, stream.id)).version
    assert await catalog.holds.allow(stream.id, Change(NOW + 4, by=1))
    assert (await shown(catalog, stream.id)).version == version
    assert (await kinds(catalog, stream)).count("stream allowed") == 1
    assert not await catalog.holds.allow(99, Change(NOW, by=1))
    assert not await catalog.holds.allow(2**63, Change(NOW, by=1))


async def test_a_new_key_is_let_in_at_once(catalog: Catalog) -> None:
    stream = await ended(catalog)
    assert await catalog.streams.rotate(stream.id, Change(NOW + 1, by=1))
    rotated = await shown(catalog, stream.id)
    assert await refused(catalog, rotated, NOW + 2) is None
