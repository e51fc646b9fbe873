"""A bucket beside its scratch: files that arrive are on the disk, copies of what is read too."""

import asyncio
from pathlib import Path

import pytest

from storage.objects import addresses
from storage.objects.base import StoreFull
from storage.objects.disk import DiskObjects
from storage.objects.disk_threads import VIEWERS
from storage.objects.s3 import S3Objects
from storage.objects.s3_bucket import PIECE_BYTES
from storage.objects.trash import discard, empty_trash, find_trash
from tests.support.storage.s3_server import S3Server
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

HASH = "AAAAAAAAAAAA"
NOW_US = 1_790_000_000_000_000
ARRIVING = [
    addresses.upload("one"),
    addresses.partial_import(HASH),
    addresses.partial_import(HASH, 3),
]


async def has(store: S3Objects, address: str) -> bool:
    """Return whether a viewer gets an object; its copy is read as soon as it exists."""
    async with store.holding(address) as is_there:
        return is_there and (store.files / address).exists()


def arrive(store: S3Objects) -> None:
    for address in ARRIVING:
        path = store.scratch.path(address)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"half a film")


async def test_files_that_arrive_are_listed_with_the_objects(bucket_store: S3Objects) -> None:
    await bucket_store.put(addresses.video_source(HASH, 1), b"a film")
    arrive(bucket_store)
    assert await bucket_store.addresses("uploads") == ARRIVING[:1]
    sources = [addresses.video_source(HASH, 1), *ARRIVING[1:]]
    assert await bucket_store.addresses("sources") == sorted(sources)
    assert await bucket_store.folder_names("sources") == {HASH}
    for address in ARRIVING:
        stat = await bucket_store.stat(address)
        assert stat is not None
        assert stat.size == len(b"half a film")


async def test_files_that_arrive_are_deleted_by_their_addresses(bucket_store: S3Objects) -> None:
    await bucket_store.put(addresses.video_source(HASH, 1), b"a film")
    arrive(bucket_store)
    await bucket_store.delete_all(ARRIVING[:2])
    remaining = [addresses.video_source(HASH, 1), ARRIVING[2]]
    assert await bucket_store.addresses("sources") == sorted(remaining)
    await bucket_store.delete_tree(addresses.video_sources(HASH))
    assert await bucket_store.addresses("sources") == []
    assert not bucket_store.scratch.path(ARRIVING[2]).exists()


async def test_the_trash_takes_objects_and_not_what_was_arriving(bucket_store: S3Objects) -> None:
    await bucket_store.put(addresses.video_source(HASH, 1), b"a film")
    arrive(bucket_store)
    await bucket_store.move(addresses.video_sources(HASH), f"trash/now/sources/{HASH}")
    assert await bucket_store.addresses("sources") == []
    assert await bucket_store.addresses("trash") == [f"trash/now/sources/{HASH}/1"]
    remaining = {each.name for each in bucket_store.scratch.root.rglob("*") if each.is_file()}
    assert remaining - {"reserve"} == {"one"}  # of an upload


async def test_one_copy_serves_all_callers(bucket_store: S3Objects) -> None:
    await bucket_store.put("videos/a/1.m4s", b"one")
    async with asyncio.TaskGroup() as group:
        asking = [group.create_task(has(bucket_store, "videos/a/1.m4s")) for _ in range(50)]
    assert all(task.result() for task in asking)
    copies = [each for each in bucket_store.files.rglob("*") if each.is_file()]
    assert copies == [bucket_store.files / "videos/a/1.m4s"]


async def test_the_trash_has_what_was_received_of_an_upload(bucket_store: S3Objects) -> None:
    arrive(bucket_store)
    await discard(bucket_store, ARRIVING[0], NOW_US)
    assert await bucket_store.addresses("uploads") == []
    [folder] = await find_trash(bucket_store)
    path = bucket_store.scratch.path(f"{folder}/{ARRIVING[0]}")
    assert path.read_bytes() == b"half a film"
    assert await empty_trash(bucket_store, NOW_US) == 1
    assert not path.exists()


async def test_a_copy_is_as_old_as_its_object(
    bucket_store: S3Objects, s3_server: S3Server, tmp_path: Path
) -> None:
    """Then all hosts send viewers the same entity tag."""
    bucket = s3_server.new_bucket()
    mtimes_ns: list[int] = []
    for name in ("one", "two"):
        with DiskObjects(tmp_path / name) as scratch:
            host = S3Objects(bucket, scratch, cache_bytes=1 << 20)
            if not mtimes_ns:
                await host.put("videos/a/1.m4s", b"one")
            assert await has(host, "videos/a/1.m4s")
            mtimes_ns.append((host.files / "videos/a/1.m4s").stat().st_mtime_ns)
        await asyncio.sleep(0.01)
    assert mtimes_ns[0] == mtimes_ns[1]


async def test_a_replaced_object_is_not_read_from_its_old_copy(bucket_store: S3Objects) -> None:
    await bucket_store.put("videos/a/1.m4s", b"one")
    async with bucket_store.lend("videos/a/1.m4s"):
        pass
    await bucket_store.put("videos/a/1.m4s", b"other")
    async with bucket_store.lend("videos/a/1.m4s") as path:
        assert path.read_bytes() == b"other"
    await bucket_store.put("videos/a/2.m4s", b"two")
    await bucket_store.link("videos/a/2.m4s", "videos/a/1.m4s")
    async with bucket_store.lend("videos/a/1.m4s") as path:
        assert path.read_bytes() == b"two"


async def test_the_copies_are_bounded(bucket_store: S3Objects) -> None:
    for number in range(5):  # the bound is 1 MB
        await bucket_store.put(f"videos/a/{number}.m4s", bytes(300_000))
        assert await has(bucket_store, f"videos/a/{number}.m4s")
    remaining = sorted(each.name for each in bucket_store.files.rglob("*") if each.is_file())
    assert remaining == ["2.m4s", "3.m4s", "4.m4s"]


async def test_a_large_object_is_not_copied_to_a_disk_that_is_nearly_full(
    s3_server: S3Server, bucket_store: S3Objects, tmp_path: Path
) -> None:
    bucket = s3_server.new_bucket()
    with DiskObjects(tmp_path / "small") as scratch:
        host = S3Objects(bucket, scratch, cache_bytes=1 << 30, min_free_bytes=1 << 60)
        await host.put_all({"videos/a/1.m4s": b"one", "sources/a/1": bytes(PIECE_BYTES + 1)})
        assert await has(host, "videos/a/1.m4s")
        with pytest.raises(StoreFull):
            async with host.lend("sources/a/1"):
                pass
        assert [each.name for each in host.files.rglob("*") if each.is_file()] == ["1.m4s"]


async def test_the_store_is_the_same_through_other_threads(bucket_store: S3Objects) -> None:
    await bucket_store.using(VIEWERS).put("videos/a/1.m4s", b"one")
    assert await bucket_store.get("videos/a/1.m4s") == b"one"
    assert bucket_store.using(VIEWERS).files == bucket_store.files


async def test_a_poster_that_is_missing_is_asked_for_once_in_a_while(
    s3_server: S3Server, bucket_store: S3Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = s3_server.new_bucket()
    poster, picture = (addresses.live_poster(HASH, label) for label in ("720p", "480p"))
    segment = addresses.live_segment(HASH, "run", "720p", 1)
    with DiskObjects(tmp_path / "one") as one, DiskObjects(tmp_path / "two") as two:
        host, other = (S3Objects(bucket, each, cache_bytes=1 << 20) for each in (one, two))
        monkeypatch.setattr("storage.objects.s3._ABSENT_SECONDS", 600.0)
        for address in (poster, segment):
            assert not await has(host, address)
            await other.put(address, b"another host's")
        assert not await has(host, poster)
        # A segment is requested each time, as it may be stored at any moment.
        assert await has(host, segment)
        # This process sees its own writes at once.
        await host.put(poster, b"its own")
        assert await has(host, poster)

        async def is_there() -> bool:
            return await has(host, picture)

        monkeypatch.setattr("storage.objects.s3._ABSENT_SECONDS", 0.05)
        assert not await is_there()
        await other.put(picture, b"another host's")
        await until(is_there)
