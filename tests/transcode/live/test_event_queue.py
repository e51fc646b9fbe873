import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from media.stream_events import EngineLostEvent, RungShedEvent, StreamEvent
from storage.errors import CatalogBusy, CatalogError, CatalogUnavailable, StorageError
from tests.support.ingest.virtual_clock import run
from transcode.live.event_queue import MAX_EVENTS, EventQueue

FIRST = EngineLostEvent(cause="x")

Event = tuple[str, StreamEvent]


class FailingJournal:
    """Takes `seconds` for each event; raises the given errors first."""

    def __init__(self, *errors: Exception, seconds: float = 0.0) -> None:
        self.written: list[Event] = []
        self.seconds = seconds
        self._errors = list(errors)

    async def write(self, stream: str, event: StreamEvent) -> None:
        await asyncio.sleep(self.seconds)
        if self._errors:
            raise self._errors.pop(0)
        self.written.append((stream, event))


@asynccontextmanager
async def queue_to(journal: FailingJournal) -> AsyncGenerator[EventQueue, None]:
    queue = EventQueue(journal.write)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(queue.run())
        async with queue.written_at_exit():
            yield queue
        running.cancel()


def some_events(count: int) -> list[Event]:
    return [
        (f"stream {number % 3}", RungShedEvent(renditions=[], late=number))
        for number in range(count)
    ]


def test_events_are_written_in_order_without_blocking_the_caller() -> None:
    journal = FailingJournal(seconds=0.1)

    async def scenario() -> None:
        clock = asyncio.get_running_loop().time
        async with queue_to(journal) as queue:
            began = clock()
            for event in some_events(10):
                queue.add(*event)
            assert clock() == began
            await asyncio.sleep(2)

    run(scenario())
    assert journal.written == some_events(10)


@pytest.mark.parametrize("error", [CatalogBusy("busy"), CatalogUnavailable("gone")])
def test_events_wait_for_a_catalog_that_is_away(
    error: StorageError, caplog: pytest.LogCaptureFixture
) -> None:
    journal = FailingJournal(*[error] * 20)

    async def scenario() -> None:
        async with queue_to(journal) as queue:
            for event in some_events(3):
                queue.add(*event)
            await asyncio.sleep(10)

    run(scenario())
    assert journal.written == some_events(3)
    assert [record.msg for record in caplog.records] == ["events are delayed"]


def test_an_event_that_the_catalog_refuses_costs_no_other(caplog: pytest.LogCaptureFixture) -> None:
    journal = FailingJournal(CatalogError("refused"))

    async def scenario() -> None:
        async with queue_to(journal) as queue:
            for event in some_events(3):
                queue.add(*event)

    run(scenario())
    assert journal.written == some_events(3)[1:]
    assert [record.msg for record in caplog.records] == ["event not written"]


def test_a_write_that_hangs_is_tried_again() -> None:
    journal = FailingJournal(seconds=1000.0)

    async def scenario() -> None:
        async with queue_to(journal) as queue:
            queue.add(*some_events(1)[0])
            await asyncio.sleep(6)
            journal.seconds = 0.0
            await asyncio.sleep(6)

    run(scenario())
    assert journal.written == some_events(1)


def test_the_oldest_are_dropped_when_too_many_wait(caplog: pytest.LogCaptureFixture) -> None:
    journal = FailingJournal(seconds=1.0)

    async def scenario() -> None:
        async with queue_to(journal) as queue:
            queue.add("stream", FIRST)
            await asyncio.sleep(0.5)  # it is being written
            for event in some_events(MAX_EVENTS + 5):
                queue.add(*event)
            await asyncio.sleep(MAX_EVENTS + 10)

    run(scenario())
    assert journal.written == [("stream", FIRST), *some_events(MAX_EVENTS + 5)[5:]]
    assert [record.msg for record in caplog.records] == ["events dropped"]


@pytest.mark.parametrize(("seconds", "written"), [(0.5, 3), (1000.0, 0)])
def test_the_end_waits_for_what_is_queued_but_not_for_long(seconds: float, written: int) -> None:
    journal = FailingJournal(seconds=seconds)

    async def scenario() -> float:
        clock = asyncio.get_running_loop().time
        async with queue_to(journal) as queue:
            for event in some_events(3):
                queue.add(*event)
            began = clock()
        return clock() - began

    assert run(scenario()) <= 2.0
    assert len(journal.written) == written
