"""The life cycle of a leased task: each end records one thing, and in the right order."""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from typing import ClassVar

import pytest

from storage.catalog.videos.jobs import TRANSCODE
from storage.errors import CatalogBusy, CatalogError, CatalogUnavailable
from storage.leases import LeaseLost
from storage.objects.base import StoreFailed
from storage.workers.context import WorkContext
from storage.workers.leased_task import AttemptFailed, InputRefused, LeasedTask, TaskEvents
from storage.workers.store_health import StoreHealth
from tests.support.storage.leases import held_job, lonely_context
from tests.support.waiting import until

LEASE_US = round(60_000 * float(os.environ.get("HEADEND_TEST_SCALE", "1")))
MOST = TRANSCODE.most_failures  # of any kind that does not say otherwise
EVENTS = TaskEvents(what="work", begun="begun", failed="failed", given_up="given up")


async def succeed() -> str:
    return "made"


class RecordedTask(LeasedTask[WorkContext, str]):
    """A task that does `work` and keeps a list of what it was asked to record."""

    events: ClassVar = EVENTS
    spent_reason: ClassVar = "It broke off {} times."

    def __init__(
        self,
        work: Callable[[], Awaitable[str]] = succeed,
        failures: int = 0,
        *,
        subject: int = 2,
        health: StoreHealth | None = None,
    ) -> None:
        self.away: StoreFailed | None = None
        health = health or StoreHealth(self._check, poll_seconds=0.01)
        held = held_job(subject=subject, attempt=failures + 1, failures=failures, lease_us=LEASE_US)
        super().__init__(lonely_context(health), held)
        self.work = work
        self.calls: list[str] = []
        self.extended = 0
        self.extension_errors: list[Exception] = []
        self.finish_error: Exception | None = None
        self.end_errors: list[Exception] = []

    async def _check(self, *, thorough: bool) -> None:
        assert thorough
        if self.away is not None:
            raise self.away

    def _record_call(self, call: str) -> None:
        if self.end_errors:
            raise self.end_errors.pop(0)
        self.calls.append(call)

    async def extend_lease(self) -> None:
        self.extended += 1
        if self.extension_errors:
            raise self.extension_errors.pop(0)

    async def make(self) -> str:
        return await self.work()

    async def finish(self, outcome: str) -> None:
        if self.finish_error is not None:
            raise self.finish_error
        self._record_call(f"finish {outcome}")

    async def fail(self, reason: str) -> None:
        self._record_call(f"fail {reason}")

    async def put_back(self, *, failed: bool) -> None:
        self._record_call(f"put back {'later' if failed else 'at once'}")

    async def discard(self) -> None:
        self.calls.append("discard")


def raising(error: Exception) -> Callable[[], Awaitable[str]]:
    async def work() -> str:
        raise error

    return work


@pytest.mark.parametrize(
    ("error", "failures", "calls", "event"),
    [
        pytest.param(InputRefused("no film"), 0, ["fail no film"], "failed", id="refused"),
        pytest.param(
            AttemptFailed("full"), 0, ["put back later", "discard"], "work put back", id="put back"
        ),
        pytest.param(AttemptFailed("full"), MOST - 1, ["fail full"], "given up", id="failed last"),
    ],
)
async def test_what_a_failed_attempt_records(
    error: Exception,
    failures: int,
    calls: list[str],
    event: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    task = RecordedTask(raising(error), failures)
    await task.run()
    assert task.calls == calls
    assert [record.message for record in caplog.records] == ["begun", event]


async def test_a_finished_task_is_recorded_once() -> None:
    task = RecordedTask()
    await task.run()
    assert task.calls == ["finish made"]


async def test_a_task_that_failed_too_often_is_not_tried_again() -> None:
    task = RecordedTask(raising(AssertionError("tried")), MOST)
    await task.run()
    assert task.calls == [f"fail It broke off {MOST} times."]


async def test_the_lease_is_extended_while_the_work_takes_longer() -> None:
    task = RecordedTask()

    async def was_extended() -> bool:
        return task.extended >= 3

    async def wait_for_three() -> str:
        await until(was_extended, within=60)
        return "made"

    task.work = wait_for_three
    # The database may fail for less than a lease.
    task.extension_errors = [CatalogError("busy")]
    await task.run()
    assert task.calls == ["finish made"]


@pytest.mark.parametrize(
    "errors",
    [
        pytest.param([LeaseLost(held_job())], id="lost"),
        pytest.param([CatalogError("gone")] * 1000, id="not extended in time"),
    ],
)
async def test_work_whose_lease_is_lost_is_cancelled_and_discarded(errors: list[Exception]) -> None:
    task = RecordedTask(asyncio.Event().wait)  # type: ignore[arg-type]  # it never returns
    task.extension_errors = errors
    async with asyncio.timeout(60):
        with pytest.raises(LeaseLost):
            await task.run()
    assert task.calls == ["discard"]


async def test_a_task_lost_at_its_end_is_discarded() -> None:
    task = RecordedTask()
    task.finish_error = LeaseLost(held_job())
    with pytest.raises(LeaseLost):
        await task.run()
    assert task.calls == ["discard"]


async def test_nothing_is_discarded_where_the_record_may_have_been_made() -> None:
    task = RecordedTask()
    task.finish_error = CatalogError("no answer")
    with pytest.raises(CatalogError):
        await task.run()
    assert task.calls == []


async def test_a_cancelled_task_is_given_back_at_once() -> None:
    begun = asyncio.Event()

    async def hang() -> str:
        begun.set()
        await asyncio.Event().wait()
        return "never"

    task = RecordedTask(hang)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(task.run())
        await begun.wait()
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
    assert running.cancelled()
    assert task.calls == ["put back at once", "discard"]


@pytest.mark.parametrize("error", [AttemptFailed("not stored"), InputRefused("no film")])
async def test_an_attempt_that_breaks_off_while_the_store_is_away_does_not_count(
    error: Exception,
) -> None:
    """Not even the last attempt counts, and no file is refused because of such a store."""
    task = RecordedTask(raising(error), MOST - 1)
    task.away = StoreFailed("the store", "its folder is not there")
    await task.run()
    assert task.calls == ["put back at once", "discard"]


@pytest.mark.parametrize("error", [CatalogBusy("busy"), CatalogUnavailable("away")])
async def test_an_attempt_that_the_database_ends_does_not_count(error: Exception) -> None:
    task = RecordedTask(raising(error), MOST - 1)
    await task.run()
    assert task.calls == ["put back at once", "discard"]


@pytest.mark.parametrize(
    ("work", "calls"),
    [
        pytest.param(succeed, ["finish made"], id="finished"),
        pytest.param(raising(InputRefused("no film")), ["fail no film"], id="refused"),
        pytest.param(raising(AttemptFailed("full")), ["put back later", "discard"], id="failed"),
    ],
)
async def test_an_end_that_the_database_does_not_take_is_recorded_again(
    work: Callable[[], Awaitable[str]], calls: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    task = RecordedTask(work)
    task.end_errors = [CatalogUnavailable("away"), CatalogBusy("busy")]
    await task.run()
    assert task.calls == calls
    assert task.extended >= 2  # before each repetition
    assert caplog.records[0].message == "catalog not written yet"


async def test_what_may_have_been_recorded_without_an_answer_is_not_discarded() -> None:
    """The first try took effect although its answer was lost, so the lease is over."""
    task = RecordedTask()
    task.end_errors = [CatalogUnavailable("the answer was lost"), LeaseLost(held_job())]
    with pytest.raises(LeaseLost):
        await task.run()
    assert task.calls == []


async def test_a_video_that_fails_as_the_one_before_is_put_back_and_does_not_count() -> None:
    """The checks find the store well; the first of the videos has attempts left."""
    health = StoreHealth()

    async def fail_to_store() -> str:
        error = StoreFailed("videos/a", "Permission denied")
        raise AttemptFailed("The media could not be stored.") from error

    last = MOST - 1
    tasks = [RecordedTask(fail_to_store, subject=1, health=health)]
    tasks += [RecordedTask(fail_to_store, last, subject=video, health=health) for video in (2, 1)]
    for task in tasks:
        await task.run()
    later, at_once = ["put back later", "discard"], ["put back at once", "discard"]
    assert [task.calls for task in tasks] == [later, at_once, at_once]
    assert health.pause is not None
    await RecordedTask(subject=3, health=health).run()
    assert health.pause is None


async def test_videos_that_fail_without_an_error_of_the_store_count() -> None:
    health = StoreHealth()
    for video in (1, 2, 3):
        task = RecordedTask(raising(AttemptFailed("It broke.")), subject=video, health=health)
        await task.run()
        assert task.calls == ["put back later", "discard"]
    assert health.pause is None
