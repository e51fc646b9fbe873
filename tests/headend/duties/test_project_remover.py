"""Deleted projects are removed with their media, even if the removing process is killed."""

import asyncio
import shutil
from collections.abc import AsyncGenerator, Generator, Sequence
from pathlib import Path

import pytest

from headend.duties.media_remover import StoredMedia
from headend.duties.project_remover import keep_removing_projects, remove_projects
from media.no_op import do_nothing_async
from media.stream_keys import PublicHash
from storage.catalog import Catalog, open_catalog
from storage.catalog.projects.removal import MAX_MEDIA_ROWS
from storage.catalog.records.common import Change
from storage.errors import CatalogUnavailable
from storage.objects.disk import DiskObjects
from tests.support.sql import migrated
from tests.support.storage.new_videos import new_upload, new_video
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

NOW = 1_700_000_000_000_000
KEPT = "K" * 12
VIDEOS = MAX_MEDIA_ROWS + 5


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def deleted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the catalog and the media; made once, since its many videos take seconds."""
    folder = tmp_path_factory.mktemp("deleted")
    asyncio.run(make(folder))
    return folder


@pytest.fixture
def folder(deleted: Path, tmp_path: Path) -> Path:
    """A copy of `deleted` for one test."""
    return shutil.copytree(deleted, tmp_path / "installation")


@pytest.fixture
def objects(folder: Path) -> Generator[DiskObjects]:
    with DiskObjects(folder / "objects") as opened:
        yield opened


@pytest.fixture
async def catalog(folder: Path) -> AsyncGenerator[Catalog]:
    """A catalog whose second project is deleted, with the media of both."""
    async with open_catalog(folder / "catalog.db", migrate=False) as opened:
        yield opened


async def make(folder: Path) -> None:
    location = migrated(folder / "catalog.db")
    with DiskObjects(folder / "objects") as objects:
        async with open_catalog(location, migrate=False) as opened:
            await opened.installation.first_start(NOW)
            await film(opened, objects, 1, KEPT)
            project = await opened.projects.add("Doomed", Change(NOW))
            for number in range(VIDEOS):
                await film(opened, objects, project.id, f"V{number:011}")
            stream = await opened.streams.add(project.id, "A stream", Change(NOW))
            await objects.put(f"live/{stream.hash}/poster/360p.jpg", b"x")
            await objects.put(f"slates/p-{project.key}/{KEPT}.jpg", b"x")
            await opened.uploads.begin(project.id, new_upload("upload", expires_us=NOW * 2), NOW)
            await objects.put("uploads/upload", b"x")
            assert await opened.projects.remove(project.id, Change(NOW))


async def film(catalog: Catalog, objects: DiskObjects, project: int, hash_: str) -> None:
    new = new_video(hash_)
    await catalog.videos.add(project, new, Change(NOW))
    await objects.put(f"sources/{hash_}/1", b"x")


async def media(objects: DiskObjects) -> list[str]:
    folders = ("sources", "videos", "live", "slates", "uploads", "trash")
    return [each for folder in folders for each in await objects.addresses(folder)]


class KilledMedia(StoredMedia):
    """Removes the media of some rows, and is killed after so many times."""

    def __init__(self, objects: DiskObjects, times: int) -> None:
        super().__init__(objects, do_nothing_async)
        self._times = times

    async def remove(self, hashes: Sequence[PublicHash]) -> None:
        assert 0 < len(hashes) <= MAX_MEDIA_ROWS
        await super().remove(hashes)
        self._times -= 1
        if not self._times:
            raise asyncio.CancelledError


@pytest.mark.parametrize("times", [1, 2])
async def test_a_removal_killed_between_media_and_rows_is_finished_by_the_next(
    catalog: Catalog, objects: DiskObjects, times: int
) -> None:
    with pytest.raises(asyncio.CancelledError):
        await remove_projects(catalog.removed_projects, KilledMedia(objects, times))
    assert await catalog.removed_projects.find() is not None
    assert len(await media(objects)) > 1
    await remove_projects(catalog.removed_projects, StoredMedia(objects, do_nothing_async))
    assert await catalog.removed_projects.find() is None
    assert await media(objects) == [f"sources/{KEPT}/1"]
    assert await catalog.visibility.find(KEPT) is not None


async def test_two_processes_can_remove_the_same_projects(
    catalog: Catalog, objects: DiskObjects
) -> None:
    async with asyncio.TaskGroup() as tasks:
        for _ in range(2):
            stored = StoredMedia(objects, do_nothing_async)
            tasks.create_task(remove_projects(catalog.removed_projects, stored))
    assert await media(objects) == [f"sources/{KEPT}/1"]


async def test_projects_are_removed_in_the_background_once_the_media_are_verified(
    catalog: Catalog, objects: DiskObjects, caplog: pytest.LogCaptureFixture
) -> None:
    async def foreign() -> None:
        raise CatalogUnavailable("not these")

    stored = StoredMedia(objects, do_nothing_async)

    async def gone() -> bool:
        return await catalog.removed_projects.find() is None

    removed = catalog.removed_projects
    async with asyncio.TaskGroup() as tasks:
        refused = tasks.create_task(keep_removing_projects(removed, stored, foreign))
        await until(lambda: "projects not removed" in caplog.text)
        refused.cancel()
        assert len(await media(objects)) == VIDEOS + 4
        running = tasks.create_task(keep_removing_projects(removed, stored, do_nothing_async))
        await until(gone)
        running.cancel()
    assert await media(objects) == [f"sources/{KEPT}/1"]
