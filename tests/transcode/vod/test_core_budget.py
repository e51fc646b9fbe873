"""Cores that engines share: none is used twice, and released ones are used again."""

import asyncio

from transcode.vod.core_budget import CoreBudget


async def test_no_more_are_used_at_once_than_there_are() -> None:
    cores = CoreBudget(3)
    most = used = 0

    async def use() -> None:
        nonlocal most, used
        async with cores.one():
            used += 1
            most = max(most, used)
            assert cores.idle == 3 - used
            await asyncio.sleep(0)
            used -= 1

    async with asyncio.TaskGroup() as tasks:
        for _ in range(20):
            tasks.create_task(use())
    assert (most, cores.idle) == (3, 3)


async def test_more_are_given_only_where_they_are_idle() -> None:
    cores = CoreBudget(4)
    async with cores.one(), cores.idle_ones(9) as besides:
        assert (besides, cores.idle) == (3, 0)
        async with cores.idle_ones(2) as none:
            assert none == 0
    assert cores.idle == 4
    async with cores.one(), cores.one(), cores.idle_ones(1) as besides:
        assert (besides, cores.idle) == (1, 1)


async def test_a_waiting_caller_gets_released_cores() -> None:
    cores = CoreBudget(1)
    order: list[str] = []

    async def wait() -> None:
        async with cores.one():
            order.append("second")

    async with asyncio.TaskGroup() as tasks, cores.one():
        waiting = tasks.create_task(wait())
        await asyncio.sleep(0)
        order.append("first")
        assert not waiting.done()
    assert order == ["first", "second"]


async def test_a_caller_cancelled_while_waiting_keeps_none() -> None:
    cores = CoreBudget(1)

    async def wait() -> None:
        async with cores.one():
            raise AssertionError("there was none")

    async with asyncio.TaskGroup() as tasks, cores.one():
        waiting = tasks.create_task(wait())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.sleep(0)
    assert waiting.cancelled()
    assert cores.idle == 1


def test_there_is_always_one() -> None:
    assert CoreBudget(0).total == 1
