"""A remote check is made once for all calls within some seconds."""

import asyncio

import pytest

from headend.roles.remembered_check import RememberedCheck
from tests.support.manual_clock import ManualClock

pytestmark = pytest.mark.anyio


class CheckedDependency:
    """A dependency that may be unavailable."""

    def __init__(self) -> None:
        self.checks = 0
        self.problem: str | None = None

    async def check(self) -> str | None:
        self.checks += 1
        await asyncio.sleep(0)
        return self.problem


async def test_many_calls_cause_one_check_in_three_seconds() -> None:
    dependency, clock = CheckedDependency(), ManualClock()
    check = RememberedCheck(dependency.check, clock)
    async with asyncio.TaskGroup() as tasks:
        for _ in range(20):
            tasks.create_task(check.problem())
    clock.now += 2.9
    assert await check.problem() is None
    assert dependency.checks == 1
    dependency.problem = "it is away"
    assert await check.problem() is None
    clock.now += 0.2
    assert await check.problem() == "it is away"
    dependency.problem = None
    assert await check.problem() == "it is away"
    clock.now += 3
    assert await check.problem() is None
    assert dependency.checks == 3
