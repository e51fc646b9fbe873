"""A task that survives the failure of a task group can still be timed out, and cancelled."""

import asyncio
from contextlib import nullcontext, suppress

import pytest

from storage.cancellation import uncancelled


async def _fail() -> None:
    await asyncio.sleep(0)
    raise OSError("the disk")


async def _survive() -> None:
    """Let a group fail while it is being left, and go on."""
    with suppress(ExceptionGroup), uncancelled():
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_fail())


async def test_a_timeout_after_a_failed_group_is_a_timeout() -> None:
    async def scenario() -> None:
        await _survive()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await asyncio.Event().wait()

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(scenario())
    assert not task.cancelled(), "the timeout was taken for a cancellation"


async def test_the_error_leaves_no_cancellation_behind() -> None:
    async def scenario() -> int:
        await _survive()
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(scenario())
    assert task.result() == 0


@pytest.mark.parametrize("wrapped", [True, False])
async def test_a_cancellation_from_outside_goes_through(*, wrapped: bool) -> None:
    async def scenario() -> None:
        with uncancelled() if wrapped else nullcontext():
            await asyncio.Event().wait()

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(scenario())
        await asyncio.sleep(0)
        task.cancel()
    assert task.cancelled()
