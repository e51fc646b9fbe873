"""Leases are judged by the clock of the database, whichever host a worker runs on."""

import asyncio

import pytest

from storage.catalog import Catalog
from storage.catalog.engine.clock import DatabaseClock
from storage.catalog.engine.database import Database
from storage.catalog.records.common import Change
from storage.catalog.videos.jobs import TRANSCODE
from storage.errors import CatalogUnavailable
from storage.leases import LEASE_US
from storage.wall_clock import wall_clock_us
from tests.support.shared_engines import ON_BOTH
from tests.support.storage.new_videos import new_video

pytestmark = pytest.mark.anyio

SECOND = 1_000_000
HOUR = 3600 * SECOND


async def test_a_clock_follows_the_database_and_no_host() -> None:
    database_us, host_us = 5_000 * SECOND, 77 * SECOND

    async def read() -> int:
        nonlocal host_us
        host_us += 20_000  # the round trip to the database
        return database_us

    clock = DatabaseClock(read, monotonic_us=lambda: host_us, wall_us=lambda: 9 * HOUR)
    assert clock.now_us() == 9 * HOUR
    await clock.synchronize()
    assert clock.now_us() == database_us + 10_000
    host_us += 3 * SECOND
    assert clock.now_us() == database_us + 10_000 + 3 * SECOND


async def test_a_clock_that_is_kept_synchronized_outlives_a_database_that_is_away() -> None:
    answers = iter([1_000 * SECOND, None, 2_000 * SECOND])
    read_all = asyncio.Event()

    async def read() -> int:
        answer = next(answers, 0)
        if answer is None:
            raise CatalogUnavailable("the database is away")
        if not answer:
            read_all.set()
            await asyncio.Event().wait()
        return answer

    clock = DatabaseClock(read, monotonic_us=lambda: 0)
    await clock.synchronize()
    async with asyncio.TaskGroup() as tasks:
        keeping = tasks.create_task(clock.keep_synchronized(interval=0.001))
        await read_all.wait()
        assert clock.now_us() == 2_000 * SECOND
        keeping.cancel()


@ON_BOTH
async def test_databases_tell_the_time(database: Database) -> None:
    before = wall_clock_us()
    database_us = await database.now_us()
    # The server of the test is on this host; SQLite counts milliseconds.
    assert before - 2_000 <= database_us <= wall_clock_us() + 2_000


@ON_BOTH
async def test_a_worker_whose_host_is_an_hour_ahead_takes_nothing_from_others(
    catalog: Catalog, database: Database
) -> None:
    here = DatabaseClock(database.now_us)
    ahead = DatabaseClock(
        database.now_us,
        monotonic_us=lambda: wall_clock_us() + HOUR,
        wall_us=lambda: wall_clock_us() + HOUR,
    )
    await here.synchronize()
    await ahead.synchronize()
    await catalog.installation.first_start(wall_clock_us())
    file = new_video()
    await catalog.videos.add(1, file, Change(here.now_us()))
    job = await catalog.jobs.lease("here", here.now_us(), TRANSCODE)
    assert job is not None
    assert await catalog.jobs.lease("ahead", ahead.now_us(), TRANSCODE) is None
    # A lease that the fast host extends is not an hour longer either.
    await catalog.jobs.extend(job, ahead.now_us())
    assert (
        await catalog.jobs.lease("late", here.now_us() + LEASE_US + SECOND, TRANSCODE) is not None
    )
