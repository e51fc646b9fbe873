import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec
import pytest

from ingest.stream.journal_queue import JournalQueue
from ingest.stream.ports import LiveState, PortError
from media.stream_events import BackOnAirEvent, StreamEvent
from media.stream_keys import Slot
from tests.support.ingest.virtual_clock import virtual_time

HASH = "Ab3dEf6hIj9l"
STATE = LiveState(
    stream=1, hash=HASH, live=True, processing=True, on_air=Slot(0), sending=frozenset({Slot(0)}),
    no_audio=False,
)  # fmt: skip
OTHER = msgspec.structs.replace(STATE, live=False)


class BlockedJournal:
    """A journal that refuses the first writes, or never answers."""

    def __init__(self, *, refusals: int = 0, hangs: bool = False) -> None:
        self.took: list[tuple[LiveState, tuple[StreamEvent, ...]]] = []
        self.tries = 0
        self.refusals = refusals
        self.hangs = hangs

    async def write(self, state: LiveState, events: tuple[StreamEvent, ...]) -> None:
        self.tries += 1
        if self.hangs:
            await asyncio.Event().wait()
        if self.refusals:
            self.refusals -= 1
            raise PortError("busy")
        self.took.append((state, events))


def number(count: int) -> StreamEvent:
    return BackOnAirEvent(slot="primary", gap_ms=count)


@asynccontextmanager
async def writing(journal: BlockedJournal) -> AsyncGenerator[JournalQueue, None]:
    written = JournalQueue(HASH, journal)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(written.run())
        yield written
        written.close()


@virtual_time
async def test_a_state_is_written_once_with_its_events() -> None:
    journal = BlockedJournal()
    async with writing(journal) as written:
        written.add_event(number(1))
        for _ in range(3):
            written.set_state(STATE)
            await asyncio.sleep(1)
        written.set_state(OTHER)
        await asyncio.sleep(1)
        written.add_event(number(2))
        written.set_state(OTHER)
    assert journal.took == [(STATE, (number(1),)), (OTHER, ()), (OTHER, (number(2),))]


@virtual_time
async def test_refused_writes_are_retried_in_order_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    journal = BlockedJournal(refusals=3)
    with caplog.at_level(logging.WARNING):
        async with writing(journal) as written:
            for count, state in enumerate((STATE, OTHER, STATE)):
                written.add_event(number(count))
                written.set_state(state)
            assert written.is_pending
            await asyncio.sleep(2)
            assert not written.is_pending
    assert journal.took == [(STATE, (number(0),)), (OTHER, (number(1),)), (STATE, (number(2),))]
    assert [record.message for record in caplog.records] == ["state not written"]


@virtual_time
async def test_a_journal_that_does_not_answer_delays_the_end_by_seconds_only() -> None:
    journal = BlockedJournal(hangs=True)
    async with writing(journal) as written:
        began = asyncio.get_running_loop().time()
        written.set_state(STATE)
        assert asyncio.get_running_loop().time() == began
        await asyncio.sleep(1)
    # The attempt in progress, and the last one.
    assert asyncio.get_running_loop().time() - began == pytest.approx(10.25, abs=0.1)
    assert journal.took == []
    assert written.is_pending


@virtual_time
async def test_unwritten_events_are_bounded_and_the_newest_are_kept() -> None:
    journal = BlockedJournal()
    async with writing(journal) as written:
        for count in range(1_000):
            written.add_event(number(count))
            written.set_state(STATE if count % 2 else OTHER)
    assert len(journal.took) < 20
    recorded = [each for _, some in journal.took for each in some]
    assert len(recorded) < 150
    assert recorded == sorted(recorded, key=lambda each: str(each.facts["gap_ms"]).zfill(4))
    assert recorded[-1] == number(999)
    assert journal.took[-1][0] == STATE


@virtual_time
async def test_events_without_states_in_between_are_bounded_too() -> None:
    journal = BlockedJournal()
    async with writing(journal) as written:
        for count in range(1_000):
            written.add_event(number(count))
        written.set_state(STATE)
    ((_, recorded),) = journal.took
    assert len(recorded) < 100
    assert recorded[-1] == number(999)


@virtual_time
async def test_waiting_for_a_state_ends_once_it_is_written_with_all_events() -> None:
    journal = BlockedJournal(refusals=1)
    async with writing(journal) as written, asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(written.wait_for(lambda: STATE))
        written.set_state(OTHER)
        await asyncio.sleep(2)
        assert not waiting.done()
        written.set_state(STATE)
        await asyncio.sleep(1)
        assert waiting.done()
        written.add_event(number(0))
        waiting = tasks.create_task(written.wait_for(lambda: STATE))
        await asyncio.sleep(1)
        assert not waiting.done()
        written.set_state(STATE)
        await asyncio.sleep(1)
        assert waiting.done()


@virtual_time
async def test_a_write_in_progress_finishes_after_the_end_of_its_queue() -> None:
    began, over = asyncio.Event(), asyncio.Event()

    class SlowJournal(BlockedJournal):
        async def write(self, state: LiveState, events: tuple[StreamEvent, ...]) -> None:
            began.set()
            await over.wait()
            await super().write(state, events)

    journal = SlowJournal()
    async with writing(journal) as written:
        written.set_state(STATE)
        await began.wait()
        written.discard()
        over.set()
        await asyncio.sleep(1)
        written.set_state(OTHER)
        await asyncio.sleep(1)
    assert [state for state, _ in journal.took] == [STATE]
