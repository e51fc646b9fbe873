"""Whether a process can do its work: its database, the store of its media, and its disk."""

import asyncio
from pathlib import Path

import pytest

from headend.roles.readiness import create_store_health, find_problems, keep_noting_pauses
from storage.catalog import Catalog
from storage.catalog.engine.database import Database, database_url
from storage.objects.base import StoreFailed, StoreFull
from tests.support.storage.full_disk import MIB, small_disk
from tests.support.transcode.transcode_fixture import vod_fixture
from tests.support.waiting import until

pytestmark = pytest.mark.anyio


async def test_the_store_is_healthy_only_if_disk_and_catalog_are(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with vod_fixture(tmp_path / "data") as vod:
        assert await create_store_health(vod.catalog, vod.objects).check_thoroughly()
        full = create_store_health(vod.catalog, vod.objects, min_free_bytes=1 << 62)
        assert not await full.is_well()
        with pytest.raises(StoreFull):
            await vod.objects.check(min_free_bytes=1 << 62)
        assert "storage.min_free_bytes" in str(vars(caplog.records[0])["cause"])
    assert not await create_store_health(vod.catalog, vod.objects).check_thoroughly()  # closed
    folder = Database(database_url(tmp_path), busy_ms=100)  # no file
    assert not await create_store_health(Catalog(folder), vod.objects).check_thoroughly()
    await folder.close()


async def test_a_folder_of_the_store_that_cannot_be_written_is_a_problem(tmp_path: Path) -> None:
    async with vod_fixture(tmp_path / "data") as vod:

        async def problems() -> list[str]:
            health = create_store_health(vod.catalog, vod.objects)  # as of now
            return await find_problems(
                vod.catalog, health, tmp_path, store="the disk of the media", min_free_bytes=0
            )

        assert await problems() == []
        with small_disk(tmp_path / "other", MIB) as disk:
            (vod.objects.root / "live").symlink_to(disk.folder)
            (problem,) = await problems()
        assert problem.startswith("the folder live of the store: it is a disk of its own")


async def test_a_disk_without_inodes_is_named_once(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 64 * MIB, inodes=500) as disk:
        async with vod_fixture(tmp_path / "data", disk.folder / "objects") as vod:
            health = create_store_health(vod.catalog, vod.objects, min_free_bytes=1)
            for folder in (disk.folder, tmp_path):  # the data folder, on the same or another disk
                (problem,) = await find_problems(
                    vod.catalog, health, folder, store="the disk of the media", min_free_bytes=1
                )
                assert "no inodes are left, though bytes may be" in problem


async def test_a_pause_is_recorded_for_the_doctor_and_so_is_its_end(tmp_path: Path) -> None:
    async with vod_fixture(tmp_path / "data") as vod:
        await vod.catalog.installation.first_start(1)
        health = create_store_health(vod.catalog, vod.objects)
        error = StoreFailed("videos/a", "Permission denied")
        assert [health.is_to_blame(video, error) for video in (1, 2)] == [False, True]

        async def is_recorded() -> bool:
            return await vod.catalog.installation.find_pause() is not None

        async def is_over() -> bool:
            return not await is_recorded()

        async with asyncio.TaskGroup() as tasks:
            noting = tasks.create_task(keep_noting_pauses(vod.catalog, health, 0.01))
            await until(is_recorded, within=60)
            assert await vod.catalog.installation.find_pause() == health.pause
            health.record_success()
            await until(is_over, within=60)
            noting.cancel()
