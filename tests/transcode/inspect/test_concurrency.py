"""Turns at looking: a crowd of files costs no more than a few."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from transcode.inspect.concurrency import MAX_PROBES, probe_slot
from transcode.inspect.probe import ProbeTimeout, probe

pytestmark = pytest.mark.usefixtures("children_start")


def children() -> set[int]:
    """The processes that this one has begun, on whichever of its threads."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # the thread has ended since
            found |= {int(number) for number in (task / "children").read_text().split()}
    return found


async def test_a_crowd_is_looked_at_a_few_at_a_time(short_film: Path) -> None:
    crowd, most = 3 * MAX_PROBES, 0
    before = children()
    async with asyncio.TaskGroup() as tasks:
        looks = [tasks.create_task(probe(short_film, seconds=60)) for _ in range(crowd)]
        while not all(look.done() for look in looks):
            most = max(most, len(children() - before))
            await asyncio.sleep(0.005)
    assert all(look.result().width == 854 for look in looks)
    assert 1 < most <= MAX_PROBES


async def test_who_gets_no_turn_in_time_is_told_so_and_holds_none(short_film: Path) -> None:
    async with asyncio.TaskGroup() as tasks:
        done = asyncio.Event()

        async def busy() -> None:
            async with probe_slot():
                await done.wait()

        for _ in range(MAX_PROBES):
            tasks.create_task(busy())
        await asyncio.sleep(0)
        before = children()
        with pytest.raises(ProbeTimeout):
            await probe(short_film, seconds=0.05)
        assert children() <= before
        done.set()
    assert (await probe(short_film, seconds=60)).width == 854
