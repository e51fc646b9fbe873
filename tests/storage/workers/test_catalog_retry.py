"""Writes to a catalog that does not answer: repeated, but not for ever, and not if refused."""

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from storage.errors import CatalogBusy, CatalogError, CatalogUnavailable
from storage.leases import LeaseLost
from storage.workers import catalog_retry
from storage.workers.catalog_retry import longest_wait, until_answered
from tests.support.storage.leases import held_job

pytestmark = pytest.mark.anyio

JOB = held_job()


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that would have been made, which are left out."""
    pauses: list[float] = []
    sleep, ours = asyncio.sleep, threading.current_thread()

    async def skip(seconds: float) -> None:
        if threading.current_thread() is not ours:  # a server's, which another test has begun
            await sleep(seconds)
            return
        pauses.append(seconds)
        await sleep(0)

    monkeypatch.setattr(catalog_retry.asyncio, "sleep", skip)
    return pauses


def failing(*errors: Exception) -> tuple[Callable[[], Awaitable[str]], list[None]]:
    """Return a write that raises each of these errors once, and a list of its tries."""
    left, tries = list(errors), list[None]()

    async def write() -> str:
        tries.append(None)
        if left:
            raise left.pop(0)
        return "written"

    return write, tries


async def test_an_answer_is_waited_for_with_growing_pauses(
    no_pauses: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    write, tries = failing(*[CatalogUnavailable("away"), CatalogBusy("busy")] * 4)
    assert await until_answered(write, within=60, facts={"job": 1}) == "written"
    assert len(tries) == 9
    assert no_pauses == [0.25, 0.5, 1.0, 2.0, 2.0, 2.0, 2.0, 2.0]
    assert [record.message for record in caplog.records] == ["catalog not written yet"]


async def test_a_write_that_is_refused_is_tried_four_times() -> None:
    write, tries = failing(*[CatalogError("refused")] * 9)
    with pytest.raises(CatalogError, match="refused"):
        await until_answered(write, within=60, facts={})
    assert len(tries) == 4


async def test_the_time_is_up_at_last() -> None:
    write, tries = failing(*[CatalogUnavailable("away")] * 99)
    ticks = iter(range(1000))
    with pytest.raises(CatalogUnavailable):
        await until_answered(write, within=10, facts={}, clock=lambda: next(ticks))
    assert len(tries) == 10


async def test_a_lost_lease_ends_it() -> None:
    write, tries = failing(CatalogBusy("busy"), CatalogBusy("busy"))

    async def extend() -> None:
        raise LeaseLost(JOB)

    with pytest.raises(LeaseLost):
        await until_answered(write, within=60, facts={}, before_retry=extend)
    assert len(tries) == 1


def test_writes_are_retried_for_minutes_while_the_database_is_away() -> None:
    assert longest_wait(JOB.lease_us) == 300
