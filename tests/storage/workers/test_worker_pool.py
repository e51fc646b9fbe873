"""Workers of a pool: how many run at once, when they poll, and which errors they survive."""

import asyncio
from collections.abc import Callable

import pytest

from storage.errors import CatalogUnavailable
from storage.leases import Lease, LeaseLost
from storage.workers.context import WorkContext
from storage.workers.store_health import StoreHealth
from storage.workers.worker_pool import WorkerPool, WorkSource
from tests.support.storage.leases import held_job, lonely_context
from tests.support.waiting import until

PATIENCE = 60.0


class JobList(WorkSource[WorkContext]):
    """A source of the jobs with these numbers; `do` is what doing one is."""

    def __init__(self, numbers: list[int], health: StoreHealth | None = None) -> None:
        super().__init__(lonely_context(health))
        self.waiting = list(numbers)
        self.done: list[int] = []
        self.errors: dict[int, Exception] = {}
        self.at_once = 0
        self.most_at_once = 0

    async def lease(self, owner: str) -> Lease | None:
        assert len(owner) == 32
        return held_job(self.waiting.pop(0)) if self.waiting else None

    async def do(self, held: Lease) -> None:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        self.done.append(held.id)
        if held.id in self.errors:
            raise self.errors[held.id]


async def run_until(pool: WorkerPool, condition: Callable[[], bool]) -> None:
    async def is_so() -> bool:
        return condition()

    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(pool.run())
        await until(is_so, within=PATIENCE)
        running.cancel()


async def test_a_pool_does_as_many_jobs_at_once_as_it_has_workers() -> None:
    jobs = JobList([1, 2, 3, 4, 5])
    pool = WorkerPool(jobs, size=2)
    await run_until(pool, lambda: len(jobs.done) == 5)
    assert jobs.most_at_once == 2


async def test_a_job_that_is_lost_or_breaks_off_ends_no_worker(
    caplog: pytest.LogCaptureFixture,
) -> None:
    jobs = JobList([1, 2, 3])
    jobs.errors = {1: LeaseLost(held_job()), 2: RuntimeError("a mistake of ours")}
    pool = WorkerPool(jobs, size=1, prefix="import ")
    await run_until(pool, lambda: jobs.done == [1, 2, 3])
    assert [record.message for record in caplog.records] == [
        "import job lost",
        "import job broke off",
    ]


async def test_a_database_that_does_not_answer_ends_no_worker(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("storage.workers.worker_pool._TROUBLE_SECONDS", 0.0)
    jobs = JobList([1, 2], StoreHealth(poll_seconds=0.01, steady_seconds=0))
    lease, failures = jobs.lease, [CatalogUnavailable("away")]

    async def lease_later(owner: str) -> Lease | None:
        if failures:
            raise failures.pop()
        return await lease(owner)

    monkeypatch.setattr(jobs, "lease", lease_later)
    jobs.errors = {1: CatalogUnavailable("away")}
    pool = WorkerPool(jobs, size=1)
    await run_until(pool, lambda: jobs.done == [1, 2])
    assert [record.message for record in caplog.records] == ["jobs not leased", "job not ended"]


async def test_nothing_is_leased_while_nothing_may_begin() -> None:
    jobs = JobList([1])
    may_begin = False
    asks = 0

    def answer() -> bool:
        nonlocal asks
        asks += 1
        return may_begin

    pool = WorkerPool(jobs, size=1, may_begin=answer)
    await run_until(pool, lambda: asks > 1)
    assert jobs.done == []
    may_begin = True
    await run_until(pool, lambda: jobs.done == [1])


async def test_a_nudge_ends_the_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.workers.worker_pool._POLL_SECONDS", 2 * PATIENCE)
    jobs = JobList([])
    was_asked = asyncio.Event()

    def note() -> bool:
        was_asked.set()
        return True

    pool = WorkerPool(jobs, size=1, may_begin=note)
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(run_until(pool, lambda: bool(jobs.done)))
        await was_asked.wait()
        jobs.waiting.append(1)
        pool.nudge()
        await first


async def test_one_of_the_idle_workers_polls_for_all_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("storage.workers.worker_pool._POLL_SECONDS", 2 * PATIENCE)
    jobs = JobList([])
    askers: list[int] = []

    def note() -> bool:
        askers.append(len(jobs.done))
        return True

    pool = WorkerPool(jobs, size=3, may_begin=note)
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(run_until(pool, lambda: len(jobs.done) == 4))
        await asyncio.sleep(0.05)
        assert askers == [0]
        jobs.waiting += [1, 2, 3, 4]
        pool.nudge()
        await first
    assert jobs.most_at_once > 1


async def test_the_end_of_a_job_makes_another_worker_poll(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("storage.workers.worker_pool._POLL_SECONDS", 2 * PATIENCE)
    jobs = JobList([1])
    do, was_asked = jobs.do, asyncio.Event()

    def note() -> bool:
        if jobs.at_once:
            was_asked.set()
        return True

    async def do_when_asked(held: Lease) -> None:
        jobs.at_once += 1
        await was_asked.wait()
        jobs.at_once -= 1
        if held.id == 1:
            jobs.waiting.append(2)  # it could not be leased before the end of the first
        await do(held)

    monkeypatch.setattr(jobs, "do", do_when_asked)
    pool = WorkerPool(jobs, size=2, may_begin=note)
    await run_until(pool, lambda: jobs.done == [1, 2])
