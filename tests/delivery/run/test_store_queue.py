"""The queue of what a run has shown and must store."""

import asyncio
from pathlib import Path

from delivery.edge.memory import MemoryEdge
from delivery.run.run_objects import RunObjects
from delivery.run.run_state import LiveWindow, RunState
from delivery.run.run_store import StoredRun
from delivery.run.run_writer import RunWriter
from delivery.run.step_builder import StepBuilder
from delivery.run.store_queue import StoreQueue
from media.hls.segment import InitSection
from storage.objects.addresses import live_init, live_segment
from storage.objects.disk import DiskObjects
from tests.support.manual_clock import ManualClock
from tests.support.storage.engine_reports import HASH, NOON_US, RUN, FailingObjects
from tests.support.waiting import until

INIT = InitSection(rendition="720p", number=0, codecs="avc1.64001F", data=b"init")


class SlowObjects(FailingObjects):
    """A store whose writes of segments wait until they are let go; `begun` are their addresses."""

    def __init__(self, disk: DiskObjects) -> None:
        super().__init__(disk)
        self.begun: list[str] = []
        self.let_go = asyncio.Event()

    async def put(self, address: str, data: bytes, *, vital: bool = False) -> None:
        if address.endswith(".m4s"):
            self.begun.append(address)
            await self.let_go.wait()
        await super().put(address, data, vital=vital)


def queue_on(objects: SlowObjects) -> StoreQueue:
    run, edge = StoredRun(hash=HASH, run=RUN, state=RunState()), MemoryEdge()
    writer = RunWriter(
        RunObjects(objects, HASH),
        edge,
        run,
        StepBuilder(0, {}, None, {}),
        (),
        window=LiveWindow(),
        now_us=NOON_US,
        clock=ManualClock(),
    )
    return StoreQueue(writer, edge, run, dict)


async def test_segments_queued_one_behind_the_other_are_stored_at_the_same_time(
    tmp_path: Path,
) -> None:
    """A cancelled task leaves what it has not stored at the beginning of the queue."""
    with DiskObjects(tmp_path) as disk:
        objects = SlowObjects(disk)
        queue = queue_on(objects)
        queue.add(INIT)
        queue.add_segment(0, "720p", b"picture")
        queue.add_segment(0, "audio", b"sound")
        both = [live_segment(HASH, RUN, name, 0) for name in ("720p", "audio")]
        async with asyncio.TaskGroup() as tasks:
            storing = tasks.create_task(queue.store())
            await until(lambda: len(objects.begun) == 2)
            assert await disk.get(live_init(HASH, RUN, "720p", 0)) == b"init"
            storing.cancel()
        assert sorted(objects.begun) == both
        assert queue.unstored == {(0, "720p"): b"picture", (0, "audio"): b"sound"}
        objects.let_go.set()
        assert await queue.store() == 0
        assert [await disk.get(each) for each in both] == [b"picture", b"sound"]
        assert queue.unstored == {}


async def test_init_sections_that_wait_are_bounded(tmp_path: Path) -> None:
    with DiskObjects(tmp_path) as disk:
        queue = queue_on(SlowObjects(disk))
        count = 0
        while queue.takes_inits:
            queue.add(INIT)
            count += 1
        assert count == 1024
        assert await queue.store() == 0
        assert queue.takes_inits
