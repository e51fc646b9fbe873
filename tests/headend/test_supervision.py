import asyncio
import logging

import pytest

from headend.supervision import BackgroundTask, keep_running, run_in_background
from tests.support.ingest.virtual_clock import run


class Work:
    """Fails at each start with the next of the given causes; afterwards keeps running."""

    def __init__(self, *causes: Exception, runs_for: float = 0.0) -> None:
        self.starts: list[float] = []
        self._causes = list(causes)
        self._runs_for = runs_for

    async def start(self) -> None:
        self.starts.append(asyncio.get_running_loop().time())
        if not self._causes:
            await asyncio.Event().wait()
        await asyncio.sleep(self._runs_for)
        raise self._causes.pop(0)


async def run_for(seconds: float, *works: Work) -> None:
    tasks = (BackgroundTask(f"work {index}", work.start) for index, work in enumerate(works))
    async with run_in_background(*tasks):
        await asyncio.sleep(seconds)


def pauses(work: Work, runs_for: float = 0.0) -> list[float]:
    return [
        round(later - earlier - runs_for, 3)
        for earlier, later in zip(work.starts, work.starts[1:], strict=False)
    ]


def test_a_failed_task_is_restarted_and_the_others_continue() -> None:
    broken, healthy = Work(KeyError("gone")), Work()
    run(run_for(30, broken, healthy))
    assert len(broken.starts) == 2
    assert len(healthy.starts) == 1


def test_each_restart_waits_longer_up_to_a_minute() -> None:
    work = Work(*(ValueError(str(each)) for each in range(9)))
    run(run_for(1000, work))
    assert pauses(work) == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_a_task_that_ran_long_is_restarted_soon() -> None:
    work = Work(*(ValueError("rare") for _ in range(3)), runs_for=61.0)
    run(run_for(300, work))
    assert pauses(work, 61.0) == [1, 1, 1]


def test_a_fault_is_logged_with_its_traceback_once(caplog: pytest.LogCaptureFixture) -> None:
    faults = (KeyError("gone"), KeyError("gone"), OSError("full"), KeyError("gone"))
    run(run_for(300, Work(*faults)))
    records = [record for record in caplog.records if record.msg == "background task failed"]
    assert [record.levelno for record in records] == [logging.ERROR] * 4
    assert [bool(record.exc_info) for record in records] == [True, False, True, True]
    assert [vars(record)["task"] for record in records] == ["work 0"] * 4
    assert [vars(record)["cause"] for record in records] == [repr(fault) for fault in faults]
    assert [vars(record)["again_in"] for record in records] == [1, 2, 4, 8]


def test_a_finished_task_is_not_restarted() -> None:
    starts: list[int] = []

    async def once() -> None:
        starts.append(1)

    run(keep_running(BackgroundTask("once", once)))
    assert starts == [1]


def test_a_fault_of_the_block_ends_the_tasks_and_is_raised() -> None:
    async def scenario() -> None:
        async with run_in_background(BackgroundTask("work", Work().start)):
            raise LookupError("the block's own")

    with pytest.raises(ExceptionGroup) as caught:
        run(scenario())
    assert caught.group_contains(LookupError, match="the block's own")
