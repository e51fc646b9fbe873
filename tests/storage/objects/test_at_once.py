"""Work on many objects at a time: bounded, and not stopped by failures."""

import asyncio

import pytest

from storage.objects.at_once import do_each
from storage.objects.base import StoreFailed

pytestmark = pytest.mark.anyio


async def test_so_many_are_worked_at_and_no_more() -> None:
    running, most, done = 0, 0, set[int]()

    async def work(item: int) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        done.add(item)

    await do_each(range(20), work, at_once=3)
    assert done == set(range(20))
    assert most == 3


async def test_what_fails_does_not_stop_the_others_and_is_raised_at_the_end() -> None:
    done: list[int] = []

    async def work(item: int) -> None:
        if item in {1, 3}:
            raise StoreFailed(f"a/{item}", "it failed")
        done.append(item)

    with pytest.raises(StoreFailed, match="a/3"):
        await do_each(range(6), work, at_once=1)
    assert done == [0, 2, 4, 5]


async def test_nothing_to_do_is_done() -> None:
    async def work(item: int) -> None:
        raise AssertionError(item)

    await do_each([], work, at_once=4)


async def test_a_bug_ends_the_rest_and_is_raised_as_it_is() -> None:
    done: list[int] = []

    async def work(item: int) -> None:
        if item == 1:
            raise ZeroDivisionError
        await asyncio.sleep(0)
        done.append(item)

    with pytest.raises(ZeroDivisionError):
        await do_each(range(6), work, at_once=2)
    assert len(done) < 5
