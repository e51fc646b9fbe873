"""Uploads that no client continues are removed, and nothing else is."""

import os
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest

from storage.catalog import Catalog, open_catalog
from storage.catalog.events.kinds import UploadDeletedEvent
from storage.catalog.records.common import Change
from storage.catalog.records.details import VideoDetails
from storage.catalog.records.videos import VideoFile
from storage.cleanup.cleanup_pass import MAX_FAILURES
from storage.cleanup.confirmation import TooMuchDue
from storage.cleanup.expired_uploads import (
    AGE_US,
    remove_expired_uploads,
    remove_old_links,
)
from storage.objects import addresses
from storage.objects.disk import DiskObjects
from tests.support.storage.new_videos import new_upload
from tests.support.storage.undeletable_disk import UndeletableDisk

NOW = 1_700_000_000_000_000
HOUR = 3600 * 1_000_000


@pytest.fixture
def objects(tmp_path: Path) -> Generator[DiskObjects]:
    with DiskObjects(tmp_path / "objects") as opened:
        yield opened


@pytest.fixture
async def catalog(sqlite_database: Path) -> AsyncGenerator[Catalog]:
    async with open_catalog(sqlite_database, migrate=True) as opened:
        await opened.installation.first_start(NOW)
        yield opened


async def begin(catalog: Catalog, objects: DiskObjects, name: str, expires_us: int) -> int:
    record = await catalog.uploads.begin(1, new_upload(name, expires_us=expires_us), NOW)
    await put(objects, name, NOW)
    return record.video


async def put(objects: DiskObjects, name: str, changed_us: int) -> None:
    await objects.put(addresses.upload(name), b"x")
    os.utime(objects.path(addresses.upload(name)), ns=(changed_us * 1000, changed_us * 1000))


async def remaining_uploads(objects: DiskObjects) -> set[str]:
    return {place.rpartition("/")[2] for place in await objects.addresses(addresses.UPLOADS)}


async def test_what_is_over_goes_and_what_is_under_way_stays(
    catalog: Catalog, objects: DiskObjects
) -> None:
    over = await begin(catalog, objects, "over", NOW + HOUR)
    going = await begin(catalog, objects, "going", NOW + 3 * HOUR)
    deleted = await begin(catalog, objects, "deleted", NOW + 3 * HOUR)
    await catalog.videos.remove(deleted, Change(NOW))
    await put(objects, "nobodys", NOW)
    await put(objects, "young", NOW + 2 * HOUR)
    now_us = NOW + 2 * HOUR
    assert AGE_US <= HOUR
    assert await remove_expired_uploads(objects, catalog.uploads, now_us) == 2
    assert await remaining_uploads(objects) == {"going", "young"}
    assert await catalog.videos.find(over) is None
    assert await catalog.videos.find(going) is not None
    kinds = [event.kind for event in (await catalog.events.find_page(1)).items]
    assert kinds.count("upload expired") == 1
    assert await remove_expired_uploads(objects, catalog.uploads, now_us) == 0


async def test_what_cannot_be_removed_holds_nothing_up_and_is_reported_once(
    catalog: Catalog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    objects = UndeletableDisk(tmp_path / "stuck", *map(addresses.upload, ("b", "n1")))
    with objects:
        for name in ("a", "b", "c"):
            await begin(catalog, objects, name, NOW + HOUR)
        for name in ("n1", "n2"):
            await put(objects, name, NOW)
        later_us = NOW + 2 * HOUR
        assert await remove_expired_uploads(objects, catalog.uploads, later_us) == 3
        assert await remaining_uploads(objects) == {"b", "n1"}
        (line,) = [each for each in caplog.records if each.levelname == "WARNING"]
        assert line.getMessage() == "upload files not removed"
        assert line.__dict__["objects"] == 3  # `b` twice: with its row, and as one of no upload
        objects.stuck.clear()
        await remove_expired_uploads(objects, catalog.uploads, later_us)
        assert await remaining_uploads(objects) == set()


async def test_a_disk_that_removes_nothing_is_left_alone_soon(
    catalog: Catalog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    names = [f"n{number}" for number in range(MAX_FAILURES + 5)]
    objects = UndeletableDisk(tmp_path / "stuck", *map(addresses.upload, names))
    with objects:
        for name in names:
            await put(objects, name, NOW)
        await begin(catalog, objects, "expired", NOW + HOUR)
        assert await remove_expired_uploads(objects, catalog.uploads, NOW + 2 * HOUR) == 1
        assert objects.calls == MAX_FAILURES + 2  # the file and the pieces of the expired one
        assert len([each for each in caplog.records if each.levelname == "WARNING"]) == 1


async def test_files_that_are_no_objects_stay_and_stop_no_cleanup(
    catalog: Catalog, objects: DiskObjects
) -> None:
    await put(objects, "nobodys", NOW)
    await objects.put(addresses.upload_piece("nobodys", 0, "a"), b"x")
    file = objects.root / addresses.UPLOADS / ".DS_Store"
    file.write_bytes(b"x")
    folder = objects.root / addresses.PIECES / ".snapshot"
    folder.mkdir()
    for path in (file, folder, folder.with_name("nobodys")):
        os.utime(path, ns=(NOW * 1000, NOW * 1000))
    assert await remove_expired_uploads(objects, catalog.uploads, NOW + 2 * HOUR) == 0
    assert await remaining_uploads(objects) == set()
    assert await objects.folder_names(addresses.PIECES) == set()
    assert file.exists()
    assert folder.exists()


async def test_a_finished_upload_is_forgotten_and_its_video_stays(
    catalog: Catalog, objects: DiskObjects
) -> None:
    video = await begin(catalog, objects, "done", NOW + HOUR)
    await catalog.uploads.claim("done", "w")
    await catalog.uploads.finish("done", "w", VideoFile(source="s/x/1", size=5), Change(NOW))
    assert await remove_expired_uploads(objects, catalog.uploads, NOW + 2 * HOUR) == 1
    assert await remaining_uploads(objects) == set()
    assert await catalog.uploads.find("done") is None
    stored = await catalog.videos.find(video)
    assert stored is not None
    assert stored.video.state == "queued"


async def test_pieces_of_no_open_upload_go_to_the_trash_when_they_are_old(
    catalog: Catalog, objects: DiskObjects
) -> None:
    await begin(catalog, objects, "over", NOW + HOUR)
    await begin(catalog, objects, "going", NOW + 3 * HOUR)
    for name, changed_us in (("over", NOW), ("going", NOW), ("none", NOW), ("new", NOW + 2 * HOUR)):
        await objects.put(addresses.upload_piece(name, 0, "a"), b"x")
        folder = objects.path(addresses.upload_pieces(name))
        os.utime(folder, ns=(changed_us * 1000, changed_us * 1000))
    assert await remove_expired_uploads(objects, catalog.uploads, NOW + 2 * HOUR) == 1
    assert await objects.folder_names(addresses.PIECES) == {"going", "new"}
    trashed = {each.split("/", 2)[2] for each in await objects.addresses(addresses.TRASH)}
    assert trashed == {"pieces/none/0-a", "pieces/over/0-a", "uploads/over"}


async def test_many_expired_at_once_wait_for_an_operator(
    catalog: Catalog, objects: DiskObjects
) -> None:
    for number in range(11):
        await begin(catalog, objects, f"over{number}", NOW + HOUR)
    deleted = await begin(catalog, objects, "deleted", NOW + HOUR)
    await catalog.videos.remove(deleted, Change(NOW))
    await put(objects, "nobodys", NOW)
    ahead_us = NOW + 30 * 24 * HOUR
    with pytest.raises(TooMuchDue, match="the time of 11 of 11 uploads is over"):
        await remove_expired_uploads(objects, catalog.uploads, ahead_us)
    # What no clock orders goes on.
    assert await remaining_uploads(objects) == {f"over{number}" for number in range(11)}
    assert await catalog.uploads.find("over0") is not None
    removed = await remove_expired_uploads(objects, catalog.uploads, ahead_us, confirmed=True)
    assert (removed, await remaining_uploads(objects)) == (11, set())


async def test_an_upload_of_a_deleted_video_is_deleted_and_not_kept(
    catalog: Catalog, objects: DiskObjects
) -> None:
    deleted = await begin(catalog, objects, "deleted", NOW + 3 * HOUR)
    await catalog.videos.remove(deleted, Change(NOW))
    assert await remove_expired_uploads(objects, catalog.uploads, NOW) == 1
    assert await remaining_uploads(objects) == set()
    assert await objects.addresses(addresses.TRASH) == []


async def test_what_an_owner_deleted_never_goes_to_the_trash(
    catalog: Catalog, tmp_path: Path
) -> None:
    """A store that is away for hours changes nothing, nor does a process that is killed."""
    objects = UndeletableDisk(tmp_path / "stuck", addresses.upload("first"))
    with objects:
        video = await begin(catalog, objects, "first", NOW + HOUR)
        await catalog.videos.remove(video, Change(NOW))
        await begin(catalog, objects, "second", NOW + 9 * HOUR)
        await catalog.uploads.remove("second", UploadDeletedEvent, Change(NOW))
        assert await remove_expired_uploads(objects, catalog.uploads, NOW + HOUR) == 1
        objects.stuck.clear()
        await remove_expired_uploads(objects, catalog.uploads, NOW + 3 * HOUR)
        assert await objects.folder_names(addresses.TRASH) == set()
        due = await catalog.removals.find_due(1 << 62, 9)
        assert {"uploads/first", "uploads/second"} <= {each.address for each in due}


async def test_bytes_are_old_by_the_stores_clock(catalog: Catalog, objects: DiskObjects) -> None:
    await put(objects, "nobodys", NOW)
    later_us, young_us = NOW + 9 * HOUR, NOW + AGE_US
    for store_us, remaining in ((young_us, {"nobodys"}), (young_us + 1, set[str]())):
        await remove_expired_uploads(objects, catalog.uploads, later_us, store_us=store_us)
        assert await remaining_uploads(objects) == remaining


async def test_many_old_links_wait_for_an_operator(catalog: Catalog) -> None:
    for _ in range(11):
        await catalog.links.add(1, VideoDetails(), Change(NOW), most_bytes=1, expires_us=NOW + HOUR)
    ahead_us = NOW + 30 * 24 * HOUR
    with pytest.raises(TooMuchDue, match="the time of 11 of 11 upload links is over"):
        await remove_old_links(catalog.links, ahead_us)
    assert await remove_old_links(catalog.links, ahead_us, confirmed=True) == 11
