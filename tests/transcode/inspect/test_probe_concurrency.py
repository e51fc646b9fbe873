"""The limit on concurrent probes: many files cost no more than a few."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from transcode.inspect.probe import MAX_PROBES, ProbeTimeout, probe, probe_place

pytestmark = pytest.mark.usefixtures("children_start")


def children() -> set[int]:
    """Return the child processes of all threads of this process."""
    pids: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # the thread has ended since
            pids |= {int(number) for number in (task / "children").read_text().split()}
    return pids


async def test_many_files_are_probed_a_few_at_a_time(short_film: Path) -> None:
    crowd, most = 3 * MAX_PROBES, 0
    before = children()
    async with asyncio.TaskGroup() as tasks:
        looks = [tasks.create_task(probe(short_film, seconds=60)) for _ in range(crowd)]
        while not all(look.done() for look in looks):
            most = max(most, len(children() - before))
            await asyncio.sleep(0.005)
    assert all(look.result().width == 854 for look in looks)
    assert 1 < most <= MAX_PROBES


async def test_a_caller_without_a_turn_in_time_is_refused_and_holds_none(short_film: Path) -> None:
    async with asyncio.TaskGroup() as tasks:
        done = asyncio.Event()

        async def busy() -> None:
            async with probe_place():
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
