"""A cleanup is repeated whatever happens, and says in one line what it did or why it did not."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from media.no_op import do_nothing_async
from storage.cleanup.confirmation import Unconfirmed
from storage.cleanup.periodic import Cleanup, keep_cleaning
from storage.errors import StorageError

pytestmark = pytest.mark.anyio


async def clean_thrice(
    outcome: int | StorageError, verify: Callable[[], Awaitable[None]]
) -> list[int]:
    """Let a cleanup with this outcome run for three times; return the times that it got."""
    times: list[int] = []
    turns = 0
    enough = asyncio.Event()

    async def clean(now_us: int, /, *, confirmed: bool) -> int:
        assert not confirmed
        times.append(now_us)
        if isinstance(outcome, StorageError):
            raise outcome
        return outcome

    async def counted() -> None:
        nonlocal turns
        turns += 1
        if turns == 4:
            enough.set()
            await asyncio.Event().wait()
        await verify()

    async with asyncio.TaskGroup() as tasks:
        cleanup = Cleanup(what="films", seconds=0.0, clean=clean)
        task = tasks.create_task(keep_cleaning(cleanup, lambda: 7, counted))
        await enough.wait()
        task.cancel()
    return times


@pytest.mark.parametrize(
    ("outcome", "level", "message"),
    [
        pytest.param(5, logging.INFO, "films removed", id="done"),
        pytest.param(0, None, "", id="nothing to do"),
        pytest.param(StorageError("away"), logging.WARNING, "films not removed", id="failed"),
        pytest.param(Unconfirmed("many"), logging.ERROR, "films not removed", id="stopped"),
    ],
)
async def test_each_time_one_line_says_what_was_done(
    outcome: int | StorageError,
    level: int | None,
    message: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    assert await clean_thrice(outcome, do_nothing_async) == [7, 7, 7]
    lines = [(each.levelno, each.getMessage()) for each in caplog.records]
    assert lines == ([] if level is None else [(level, message)] * 3)


async def test_nothing_is_cleaned_where_store_and_catalog_do_not_belong_together(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def refuse() -> None:
        raise StorageError("another installation's")

    assert await clean_thrice(5, refuse) == []
    assert {each.getMessage() for each in caplog.records} == {"films not removed"}
