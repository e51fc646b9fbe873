"""A video's row: no other transaction gets it while it is locked; each change makes a version.

The rows of its resolutions are replaced as one.
"""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from storage.catalog import Catalog
from storage.catalog.engine.database import Database, database_url, open_database
from storage.catalog.records.common import Change
from storage.catalog.videos import rows
from tests.support.shared_engines import ON_BOTH
from tests.support.storage.new_videos import new_video

NOW = 1_800_000_000_000_000


@pytest.fixture
async def database(location: str | Path, catalog: Catalog) -> AsyncGenerator[Database]:
    await catalog.installation.first_start(NOW)
    async with open_database(database_url(location), create=False) as opened:
        yield opened


@ON_BOTH
async def test_a_change_raises_the_version_and_sets_the_time(
    catalog: Catalog, database: Database
) -> None:
    new = new_video(size=0, source="")
    video = (await catalog.videos.add(1, new, Change(NOW))).video.id
    async with database.writing() as connection:
        before = await rows.lock(connection, video)
        assert before is not None
        await rows.change(connection, before, NOW + 5, {"progress": 7})
        after = await rows.lock(connection, video)
    assert after is not None
    assert (after.version, after.updated_us, after.progress) == (before.version + 1, NOW + 5, 7)


async def test_a_video_that_is_not_there_has_no_row(database: Database) -> None:
    async with database.writing() as connection:
        assert await rows.lock(connection, 99) is None


async def test_planned_resolutions_replace_the_ones_before(
    catalog: Catalog, database: Database
) -> None:
    video = (await catalog.videos.add(1, new_video(rungs=[(1, 64, 36)]), Change(NOW))).video.id
    for planned in ([(2, 128, 72), (3, 256, 144)], []):
        async with database.writing() as connection:
            await rows.plan_resolutions(connection, video, planned)
        stored = await catalog.videos.find(video)
        assert stored is not None
        assert [(each.number, each.width, each.height) for each in stored.rungs] == planned
        assert not any(each.transcoded for each in stored.rungs)
