"""What was deleted is removed for good when its time is over, however much that is."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from storage.catalog import Catalog, open_catalog
from storage.catalog.records.common import Change
from storage.cleanup.expired_records import remove_expired_records
from tests.support.storage.new_videos import new_video

pytestmark = pytest.mark.anyio

NOW_US = 1_700_000_000_000_000
MANY = 60  # more than one transaction takes


@pytest.fixture
async def catalog(sqlite_database: Path) -> AsyncGenerator[Catalog]:
    async with open_catalog(sqlite_database, migrate=False) as opened:
        yield opened


async def test_all_that_has_expired_goes_and_the_rest_stays(catalog: Catalog) -> None:
    project = (await catalog.installation.first_start(NOW_US)).project.id
    for number in range(MANY + 1):
        whole = await catalog.videos.add(project, new_video(), Change(NOW_US))
        await catalog.videos.remove(whole.video.id, Change(NOW_US + number, keep_us=MANY))
    assert await remove_expired_records(catalog.trash, NOW_US + MANY - 1) == 0
    assert await remove_expired_records(catalog.trash, NOW_US + 2 * MANY - 1) == MANY
    assert await catalog.trash.count() == 1
    assert (await catalog.removals.find_overdue(1 << 62, 1)).count == 2 * MANY
