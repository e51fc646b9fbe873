"""Which catalog and which store belong together, on the real SQLite and the real disk."""

import time
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import msgspec
import pytest

from storage.catalog import Catalog, open_catalog
from storage.catalog.records.common import Change
from storage.installation_key import (
    EmptyStore,
    ForeignMedia,
    StoreMismatch,
    UnfinishedCopy,
    begin_copy,
    check_store,
    complete_key,
    end_copy,
    refuse_media,
    verify_key,
)
from storage.lease_verdict import MediaLease
from storage.objects.addresses import LEASE
from storage.objects.base import StoreFull
from storage.objects.disk import DiskObjects
from storage.objects.read_only import ReadOnlyObjects
from storage.store_lease import StoreLease
from tests.support.sql import migrated, run_sql
from tests.support.storage.disk_trace import traced_disk
from tests.support.storage.new_videos import new_video

KNOWN, FOREIGN = "AAAAAAAAAAAA", "BBBBBBBBBBBB"


@pytest.fixture
def objects(tmp_path: Path) -> Generator[DiskObjects]:
    with DiskObjects(tmp_path / "objects") as opened:
        yield opened


@pytest.fixture
async def new_catalog(tmp_path: Path) -> AsyncGenerator[Catalog]:
    """A catalog after its first start."""
    async with open_catalog(migrated(tmp_path / "catalog.db"), migrate=True) as opened:
        await opened.installation.first_start(1)
        yield opened


@pytest.fixture
async def catalog(new_catalog: Catalog) -> Catalog:
    """A catalog after its first start, with one video."""
    video = new_video(KNOWN)
    await new_catalog.videos.add(1, video, Change(time.time_ns() // 1000))
    return new_catalog


async def is_tied(objects: DiskObjects, catalog: Catalog, *, is_new: bool = False) -> bool:
    return await check_store(catalog, objects, is_new=is_new)


async def finish(objects: DiskObjects, catalog: Catalog) -> None:
    await complete_key(catalog, objects)


async def tie(objects: DiskObjects, catalog: Catalog, *, is_new: bool = False) -> None:
    """Do what a start does."""
    if not await is_tied(objects, catalog, is_new=is_new):
        await finish(objects, catalog)


async def same(objects: DiskObjects, catalog: Catalog) -> bool:
    try:
        await verify_key(catalog, objects)
    except StoreMismatch:
        return False
    return True


async def test_a_new_installation_gets_one_key_in_both_places(
    objects: DiskObjects, new_catalog: Catalog
) -> None:
    catalog = new_catalog
    assert not await same(objects, catalog)
    await tie(objects, catalog)
    key = await catalog.installation.find_key()
    assert len(key) == 32
    assert (await objects.get("installation")).decode().strip() == key
    assert await same(objects, catalog)
    await tie(objects, catalog)
    assert await catalog.installation.find_key() == key


async def test_the_key_survives_a_power_cut(objects: DiskObjects, new_catalog: Catalog) -> None:
    with traced_disk(objects.root) as trace:
        await tie(objects, new_catalog)
    calls = [call for call in trace if call[0] in ("fsync", "rename")]
    assert ("rename", "installation") in calls
    assert ("fsync", "installation") in calls[calls.index(("rename", "installation")) :]


@pytest.mark.parametrize("folder", ["sources", "videos"])
async def test_an_installation_without_keys_gets_them_if_one_video_is_known(
    objects: DiskObjects, catalog: Catalog, folder: str
) -> None:
    for hash_ in (FOREIGN, KNOWN):
        await objects.put(f"{folder}/{hash_}/1", b"x")
    await tie(objects, catalog)
    assert await same(objects, catalog)


async def test_an_installation_without_keys_gets_them_if_one_stream_is_known(
    objects: DiskObjects, catalog: Catalog
) -> None:
    (stream,) = await catalog.streams.find_all()
    await objects.put(f"live/{stream.hash}/poster/360p.jpg", b"x")
    await tie(objects, catalog)
    assert await same(objects, catalog)


@pytest.mark.parametrize("folder", ["sources", "videos", "live"])
async def test_a_catalog_that_names_none_of_the_media_is_refused(
    objects: DiskObjects, catalog: Catalog, folder: str
) -> None:
    await objects.put(f"{folder}/{FOREIGN}/1", b"x")
    with pytest.raises(
        StoreMismatch, match=r"the media in .*/objects do not belong to .* at .*catalog.db:"
    ):
        await tie(objects, catalog)
    assert await catalog.installation.find_key() == ""
    assert await objects.stat("installation") is None


async def test_another_key_is_refused_though_a_video_is_known(
    objects: DiskObjects, catalog: Catalog
) -> None:
    await objects.put(f"sources/{KNOWN}/1", b"x")
    await tie(objects, catalog)
    await objects.put("installation", b"another")
    with pytest.raises(StoreMismatch):
        await tie(objects, catalog)
    assert not await same(objects, catalog)
    assert await objects.get("installation") == b"another"


async def test_a_backup_of_before_there_were_keys_takes_the_stores(
    objects: DiskObjects, catalog: Catalog, tmp_path: Path
) -> None:
    await objects.put(f"sources/{KNOWN}/1", b"x")
    await tie(objects, catalog)
    key = await catalog.installation.find_key()
    run_sql(tmp_path / "catalog.db", "UPDATE installation SET key = ''")
    assert not await same(objects, catalog)
    await tie(objects, catalog)
    assert await catalog.installation.find_key() == key
    assert await same(objects, catalog)


async def test_media_of_before_there_were_keys_take_the_catalogs(
    objects: DiskObjects, catalog: Catalog
) -> None:
    await objects.put(f"sources/{KNOWN}/1", b"x")
    await tie(objects, catalog)
    key = await catalog.installation.find_key()
    await objects.delete("installation")
    await tie(objects, catalog)
    assert (await objects.get("installation")).decode().strip() == key


async def test_an_unfinished_copy_belongs_to_no_catalog(
    objects: DiskObjects, catalog: Catalog
) -> None:
    key = await catalog.installation.add_key("ours")
    await begin_copy(objects, key)
    await objects.put(f"sources/{KNOWN}/1", b"x")
    with pytest.raises(UnfinishedCopy, match=r"the media in .*/objects are an unfinished copy"):
        await tie(objects, catalog)
    assert await objects.stat("installation") is None
    with pytest.raises(UnfinishedCopy):
        await verify_key(catalog, objects)
    await begin_copy(objects, key)
    await end_copy(objects, key)
    await tie(objects, catalog)
    assert await same(objects, catalog)
    assert await objects.stat("installation.copying") is None


async def test_a_copy_that_is_brought_up_to_date_is_unfinished_again(
    objects: DiskObjects, new_catalog: Catalog
) -> None:
    catalog = new_catalog
    await tie(objects, catalog)
    key = await catalog.installation.find_key()
    await begin_copy(objects, key)
    with pytest.raises(UnfinishedCopy):
        await tie(objects, catalog)
    await end_copy(objects, key)
    await tie(objects, catalog)


@pytest.mark.parametrize(
    "address", ["installation", "installation.copying", f"videos/{FOREIGN}/1/index.m3u8"]
)
async def test_no_media_are_copied_to_those_of_another_installation(
    objects: DiskObjects, address: str
) -> None:
    await objects.put(address, b"another")
    with pytest.raises(ForeignMedia, match=r"/objects has media of another installation"):
        await begin_copy(objects, "ours")
    assert await objects.get(address) == b"another"
    copying = await objects.stat("installation.copying")
    assert (copying is None) == (address != "installation.copying")


async def test_no_catalog_is_made_for_media_that_are_being_copied(
    objects: DiskObjects, tmp_path: Path
) -> None:
    await begin_copy(objects, "of a backup")
    with pytest.raises(UnfinishedCopy):
        await refuse_media(ReadOnlyObjects(tmp_path / "objects"), "db")


async def test_only_media_keep_a_catalog_from_being_made(
    objects: DiskObjects, tmp_path: Path
) -> None:
    files = ReadOnlyObjects(tmp_path / "objects")
    await refuse_media(ReadOnlyObjects(tmp_path / "none"), "db")
    await objects.put("videos/lost_found/1", b"x")
    await objects.put("installation", b"x")
    await refuse_media(files, "db")
    await objects.put(f"live/{FOREIGN}/poster/360p.jpg", b"x")
    with pytest.raises(StoreMismatch):
        await refuse_media(files, "db")


class FullDisk(DiskObjects):
    """A disk without room."""

    async def put_if(
        self, address: str, data: bytes, version: str | None, *, vital: bool = False
    ) -> str:
        raise StoreFull(address, f"no room for {len(data)} bytes, {version=}, {vital=}")


async def test_a_full_disk_gets_its_key_later_and_is_not_cleaned_until_then(
    new_catalog: Catalog, tmp_path: Path
) -> None:
    with FullDisk(tmp_path / "full") as full:
        await tie(full, new_catalog)
        assert not await same(full, new_catalog)
    with DiskObjects(tmp_path / "full") as objects:
        await tie(objects, new_catalog)
        assert await same(objects, new_catalog)


async def test_a_full_disk_with_media_gets_the_catalogs_key_later(
    catalog: Catalog, tmp_path: Path
) -> None:
    with FullDisk(tmp_path / "full") as full:
        await full.put(f"sources/{KNOWN}/1", b"x")
        await tie(full, catalog)
        key = await catalog.installation.find_key()
    with DiskObjects(tmp_path / "full") as objects:
        await tie(objects, catalog)
        assert (await objects.get("installation")).decode().strip() == key != ""


async def test_a_store_without_key_and_media_is_not_that_of_a_catalog_with_a_key(
    objects: DiskObjects, new_catalog: Catalog, tmp_path: Path
) -> None:
    catalog = new_catalog
    await tie(objects, catalog)
    with DiskObjects(tmp_path / "mount point") as other:
        await other.put("slates/lost_found/1", b"x")
        for _ in range(2):
            with pytest.raises(EmptyStore, match=r"^/.* has no .* at .*catalog.db .*mounted"):
                await tie(other, catalog)
        with pytest.raises(EmptyStore):
            await verify_key(catalog, other)
        assert await other.stat("installation") is None
        assert not await is_tied(other, catalog, is_new=True)
        await tie(other, catalog, is_new=True)
        assert await is_tied(other, catalog)
        assert await other.get("installation") == await objects.get("installation")


async def test_a_catalog_without_a_key_that_names_files_does_not_take_an_empty_store(
    objects: DiskObjects, catalog: Catalog
) -> None:
    with pytest.raises(EmptyStore):
        await tie(objects, catalog)
    assert await catalog.installation.find_key() == ""
    await tie(objects, catalog, is_new=True)
    assert await same(objects, catalog)


async def test_a_store_that_another_installation_uses_is_never_new(
    objects: DiskObjects, catalog: Catalog
) -> None:
    await catalog.installation.add_key("ours")
    await objects.put(f"sources/{FOREIGN}/1", b"x")
    with pytest.raises(StoreMismatch):
        await tie(objects, catalog, is_new=True)
    await objects.put("installation", b"another")
    with pytest.raises(StoreMismatch):
        await tie(objects, catalog, is_new=True)
    await begin_copy(objects, "another")
    with pytest.raises(UnfinishedCopy):
        await tie(objects, catalog, is_new=True)


async def test_the_key_of_another_installation_comes_with_its_lease(
    objects: DiskObjects, new_catalog: Catalog
) -> None:
    """As when the second of two new installations is given the bucket of the first."""
    await objects.put("installation", b"first")
    await objects.put(LEASE, msgspec.json.encode(MediaLease(turn="first's")))
    await tie(objects, new_catalog)
    assert await new_catalog.installation.find_key() == ""
    await StoreLease(objects, new_catalog).take_over()
    await tie(objects, new_catalog)
    assert await new_catalog.installation.find_key() == "first"


async def test_a_key_that_was_emptied_is_written_again(
    objects: DiskObjects, catalog: Catalog
) -> None:
    await objects.put(f"sources/{KNOWN}/1", b"x")
    await tie(objects, catalog)
    key = await objects.get("installation")
    await objects.put("installation", b"")
    await tie(objects, catalog)
    assert await objects.get("installation") == key


async def test_of_two_first_starts_on_one_store_the_faster_gives_the_key(
    objects: DiskObjects, new_catalog: Catalog
) -> None:
    """Both have checked; then one has written to the store, or to both, before the other does."""
    keys = new_catalog.installation
    assert not await is_tied(objects, new_catalog)
    await objects.put("installation", b"faster")
    await finish(objects, new_catalog)
    assert await keys.find_key() == "faster"
    await finish(objects, new_catalog)
    assert await same(objects, new_catalog)


async def test_of_two_first_starts_on_two_stores_the_slower_is_refused(
    new_catalog: Catalog, tmp_path: Path
) -> None:
    class SlowDisk(DiskObjects):
        """A disk that takes so long that another process gives the catalog its store's key."""

        async def put_if(
            self, address: str, data: bytes, version: str | None, *, vital: bool = False
        ) -> str:
            await new_catalog.installation.add_key("faster")
            return await super().put_if(address, data, version, vital=vital)

    with SlowDisk(tmp_path / "slow") as slow:
        for _ in range(2):
            with pytest.raises(StoreMismatch):
                await tie(slow, new_catalog)
    assert await new_catalog.installation.find_key() == "faster"
