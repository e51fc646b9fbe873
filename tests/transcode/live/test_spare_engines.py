"""Spare engines: one is used, none is used, or its user fails."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from tests.support.transcode.live_runs import STREAM, children
from tests.support.waiting import until
from transcode.live import spare_engines
from transcode.live.spare_engines import SpareEngines

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def waiting() -> AsyncGenerator[tuple[SpareEngines, int]]:
    """Have one engine wait for the stream; return its process ID."""
    spares = SpareEngines()
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(spares.run())
        spares.expect(STREAM)
        spares.expect(STREAM)
        await until(lambda: bool(children()))
        (pid,) = children()
        yield spares, pid
        running.cancel()
    assert children() == []


async def test_a_run_begins_with_the_engine_that_waits() -> None:
    async with waiting() as (spares, pid):
        async with spares.engine(STREAM) as child:
            assert (child.pid, children()) == (pid, [pid])
            async with spares.engine("another12345") as other:
                assert sorted(children()) == sorted([pid, other.pid])
            async with spares.engine(STREAM) as second:  # there was one
                assert second.pid != pid
        assert children() == []
        assert len(spares) == 0


async def test_an_engine_that_has_not_started_yet_is_waited_for() -> None:
    spares = SpareEngines()
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(spares.run())
        spares.expect(STREAM)
        await until(lambda: len(spares) == 1)
        async with spares.engine(STREAM) as child:
            assert children() == [child.pid]
        running.cancel()


async def test_a_run_that_is_cancelled_before_its_engine_has_started_ends_no_other() -> None:
    spares = SpareEngines()

    async def use(stream: str) -> None:
        async with spares.engine(stream):
            raise AssertionError("it has started")

    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(spares.run())
        spares.expect("another12345")
        await until(lambda: len(children()) == 1)
        (pid,) = children()
        spares.expect(STREAM)
        while len(spares) < 2:  # noqa: ASYNC110 - `until` would wait for its start
            await asyncio.sleep(0)
        using = tasks.create_task(use(STREAM))
        await asyncio.sleep(0)
        using.cancel()
        await asyncio.wait([using])
        assert using.cancelled()
        assert not running.done()
        async with spares.engine("another12345") as child:
            assert child.pid == pid
        running.cancel()
    assert children() == []


async def test_an_unused_engine_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spare_engines, "_KEPT_SECONDS", 0.1)
    async with waiting() as (spares, _):
        await until(lambda: not children())
        async with spares.engine(STREAM) as child:
            assert children() == [child.pid]


async def test_an_engine_whose_user_fails_is_killed() -> None:
    async with waiting() as (spares, pid):
        with pytest.raises(ZeroDivisionError):
            async with spares.engine(STREAM) as child:
                assert child.pid == pid
                raise ZeroDivisionError
        assert children() == []


async def test_no_more_engines_wait_than_a_host_can_spare() -> None:
    spares = SpareEngines()
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(spares.run())
        for number in range(10):
            spares.expect(f"stream{number}")
        await until(lambda: len(children()) == 4)
        assert len(spares) == 4
        async with spares.engine("stream9"):
            assert len(children()) == 5
        running.cancel()
    assert children() == []
