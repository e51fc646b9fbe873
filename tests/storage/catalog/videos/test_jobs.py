"""Jobs of videos: a new one ends the old one, and numbers its attempts on."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from storage.catalog import Catalog
from storage.catalog.engine.database import Database, database_url, open_database
from storage.catalog.records.common import Change
from storage.catalog.videos import jobs
from storage.catalog.videos.jobs import TRANSCODE
from storage.leases import Lease, LeaseLost
from tests.support.shared_engines import ON_BOTH
from tests.support.storage.new_videos import new_video

NOW = 1_800_000_000_000_000
SECOND = 1_000_000


@pytest.fixture
async def database(location: str | Path, catalog: Catalog) -> AsyncGenerator[Database]:
    """The same database, for statements in the test's own transaction."""
    await catalog.installation.first_start(NOW)
    async with open_database(database_url(location), create=False) as opened:
        yield opened


async def queued(catalog: Catalog, project: int = 1) -> int:
    """Add a video, which queues a job; return the video's number."""
    file = new_video()
    return (await catalog.videos.add(project, file, Change(NOW))).video.id


async def leased(catalog: Catalog, owner: str, now_us: int = NOW) -> Lease:
    job = await catalog.jobs.lease(owner, now_us, TRANSCODE)
    assert job is not None
    return job


async def test_a_new_job_of_a_video_ends_the_old_one_and_numbers_on(
    catalog: Catalog, database: Database
) -> None:
    video = await queued(catalog)
    old = await leased(catalog, "one")
    async with database.writing() as connection:
        await jobs.enqueue(connection, video, NOW)
    with pytest.raises(LeaseLost):
        await catalog.jobs.extend(old, NOW)
    new = await leased(catalog, "two")
    assert (new.id != old.id, new.attempt) == (True, 2)
    assert await catalog.jobs.lease("three", NOW + 1, TRANSCODE) is None


@ON_BOTH
async def test_a_transaction_that_is_undone_queues_nothing(
    catalog: Catalog, database: Database
) -> None:
    video = await queued(catalog)
    job = await leased(catalog, "one")
    with pytest.raises(ZeroDivisionError):
        async with database.writing() as connection:
            await jobs.enqueue(connection, video, NOW)
            raise ZeroDivisionError
    await catalog.jobs.extend(job, NOW)
    assert await catalog.jobs.lease("two", NOW, TRANSCODE) is None
