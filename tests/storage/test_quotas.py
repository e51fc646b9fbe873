"""What exceeds a project's quotas, and with which messages."""

from pathlib import Path

import pytest

from storage.catalog import Catalog, open_catalog
from storage.catalog.records.common import Change
from storage.quotas import NO_QUOTAS, QuotaCheck, QuotaLimits
from tests.support.storage.new_videos import new_video

DAY_US = 24 * 3600 * 1_000_000
NOW_US = 100 * DAY_US
MINUTE_US = 60_000_000


def check(catalog: Catalog, limits: QuotaLimits) -> QuotaCheck:
    return QuotaCheck(catalog.usage, limits, lambda: NOW_US)


async def test_a_project_is_refused_what_exceeds_a_quota(either_database: str | Path) -> None:
    async with open_catalog(either_database, migrate=True) as catalog:
        await catalog.installation.first_start(NOW_US)  # makes a project with a stream
        file = new_video(size=1000, length_us=5 * MINUTE_US, source="sources/x/1")
        await catalog.videos.add(1, file, Change(NOW_US))
        streams = check(catalog, QuotaLimits(streams=1))
        assert (streams.limits_streams, streams.limits_files) == (True, False)
        assert await streams.refuse_stream(1) == "This project may have 1 streams, and has as many."
        assert await streams.refuse_file(1, 10**12) is None
        room = check(catalog, QuotaLimits(stored_bytes=1500))
        assert await room.refuse_file(1, 500) is None
        assert await room.refuse_file(1, 501) == (
            "This project may store 1500 bytes, and stores 1000: there is no room for this file."
        )
        assert await room.refuse_file(2, 1500) is None
        assert await room.refuse_clip(1, 500) is None
        assert await room.refuse_clip(1, 501) == (
            "This project may store 1500 bytes, and stores 1000: there is no room for this clip."
        )
        time = check(catalog, QuotaLimits(minutes=5))
        assert await time.refuse_file(1, 0) == (
            "This project may add files of 5 minutes within 30 days, and added 5."
        )
        assert await time.refuse_clip(1, 0) is None
        assert await check(catalog, QuotaLimits(minutes=6)).refuse_file(1, 0) is None


@pytest.mark.parametrize("project", [1, 2])
async def test_without_quotas_nothing_is_refused(sqlite_database: Path, project: int) -> None:
    async with open_catalog(sqlite_database, migrate=True) as catalog:
        none = check(catalog, NO_QUOTAS)
        assert not none.limits_files
        assert not none.limits_streams
        assert await none.refuse_file(project, 10**15) is None
        assert await none.refuse_stream(project) is None
