"""All objects of a folder in a bucket, and back: what is copied, left out and compared."""

import os
import random
from collections.abc import Generator, Mapping
from pathlib import Path

import pytest

from storage.objects.base import StoreFailed, StoreFull
from storage.objects.copying import CopyProgress, ToBucket, ToFolder, copy_objects
from storage.objects.disk import DiskObjects
from storage.objects.s3 import S3Objects

pytestmark = pytest.mark.anyio

VIDEO, OTHER, RUN = "AAAAAAAAAAAA", "BBBBBBBBBBBB", "20260131T120000123"
SOURCE = f"sources/{VIDEO}/1"
PLAYLIST, SEGMENT = f"videos/{VIDEO}/1/720p/index.m3u8", f"videos/{VIDEO}/1/720p/0.m4s"
OBJECTS = {
    SOURCE: b"a film",
    f"sources/{OTHER}/r-new": b"replaced",
    PLAYLIST: b"#EXTM3U\n",
    SEGMENT: b"media",
    f"videos/{OTHER}/1/0.vtt": b"",
    f"live/{VIDEO}/{RUN}/state.json": b"{}",
    f"live/{VIDEO}/poster/720p.jpg": b"picture",
    f"slates/s-{VIDEO}/one.jpg": b"slate",
    f"trash/20261122T161357Z/videos/{OTHER}/1/index.m3u8": b"thrown away",
}
ARRIVING = (f"sources/{VIDEO}/import", f"sources/{OTHER}/import-2", "uploads/one")


@pytest.fixture
def disk(tmp_path: Path) -> Generator[DiskObjects]:
    with DiskObjects(tmp_path / "folder") as opened:
        yield opened


@pytest.fixture
async def filled(disk: DiskObjects) -> DiskObjects:
    """A folder with objects of every kind, and with files that are none."""
    await disk.put_all(OBJECTS)
    for address in (*ARRIVING, "installation"):
        await disk.put(address, b"not copied")
    (disk.root / f"videos/{VIDEO}/.hidden").write_bytes(b"of a file manager")
    return disk


def stored_files(disk: DiskObjects) -> dict[str, bytes]:
    # A temporary file may be deleted while this looks.
    files = {
        name: each
        for each in disk.root.rglob("[!.]*")
        if not (name := each.relative_to(disk.root).as_posix()).startswith(".temporary/")
    }
    return {name: each.read_bytes() for name, each in files.items() if each.is_file()}


async def test_there_and_back_every_object_is_the_same(
    filled: DiskObjects, bucket_store: S3Objects, tmp_path: Path
) -> None:
    # Larger than what goes in one request.
    objects = OBJECTS | {SOURCE: random.Random(1).randbytes(40_000_001)}
    total = sum(map(len, objects.values()))
    await filled.put(SOURCE, objects[SOURCE])
    progress: list[CopyProgress] = []
    copied = await copy_objects(ToBucket(filled, bucket_store), progress.append)
    assert (copied.objects, copied.bytes, copied.more) == (len(objects), total, 0)
    assert (copied.copied, copied.copied_bytes) == (copied.objects, copied.bytes)
    assert max(each.bytes for each in progress) == total
    assert {each.of_folders for each in progress} == {7}
    rooms = ("slates", "sources", "videos", "live", "trash", "uploads")
    addresses = [address for room in rooms for address in await bucket_store.addresses(room)]
    assert sorted(addresses) == sorted(objects)
    assert await bucket_store.stat("installation") is None
    with DiskObjects(tmp_path / "back") as back:
        again = await copy_objects(ToFolder(bucket_store, back))
        assert again == copied
        assert stored_files(back) == objects
        stat = await bucket_store.stat(SEGMENT)
        assert await back.stat(SEGMENT) == stat, "it keeps its age"
    assert stored_files(filled).keys() == {*objects, *ARRIVING, "installation"}, (
        "nothing is removed"
    )


@pytest.mark.parametrize(
    ("changed", "copied", "more"),
    [
        pytest.param({}, 0, 0, id="nothing"),
        pytest.param({PLAYLIST: b"#EXTM3V\n"}, 1, 0, id="a playlist of the same size"),
        pytest.param({f"videos/{VIDEO}/1/720p/1.m4s": b"more"}, 1, 0, id="another segment"),
        pytest.param({SEGMENT: None}, 0, 1, id="a segment is gone"),
    ],
)
@pytest.mark.parametrize("way", ["up", "down"])
async def test_a_repetition_copies_what_has_changed(  # fixtures
    filled: DiskObjects, bucket_store: S3Objects, tmp_path: Path, way: str,
    changed: Mapping[str, bytes | None], copied: int, more: int,
) -> None:  # fmt: skip
    up = ToBucket(filled, bucket_store)
    await copy_objects(up)
    with DiskObjects(tmp_path / "back") as back:
        down = ToFolder(bucket_store, back)
        await copy_objects(down)
        source, target = (filled, bucket_store) if way == "up" else (bucket_store, back)
        for address, data in changed.items():
            await (source.delete(address) if data is None else source.put(address, data))
        progress = await copy_objects(up if way == "up" else down)
        assert (progress.copied, progress.more) == (copied, more)
        for address, data in changed.items():
            assert await target.get(address) == (OBJECTS[address] if data is None else data)


async def test_what_is_added_and_deleted_meanwhile_is_seen(
    filled: DiskObjects, bucket_store: S3Objects
) -> None:
    late = f"slates/s-{VIDEO}/two.jpg"  # in the folder that is listed first

    def report(progress: CopyProgress) -> None:
        if progress.objects == 1 and not (filled.root / late).exists():
            (filled.root / late).write_bytes(b"late")
            (filled.root / SEGMENT).unlink()

    progress = await copy_objects(ToBucket(filled, bucket_store), report)
    assert await bucket_store.get(late) == b"late"
    assert progress.objects == len(OBJECTS)
    assert progress.more == (await bucket_store.stat(SEGMENT) is not None)  # copied just before


async def test_a_copy_that_cannot_catch_up_ends(
    filled: DiskObjects, bucket_store: S3Objects
) -> None:
    def report(progress: CopyProgress) -> None:
        (filled.root / SEGMENT).with_name(f"{os.urandom(4).hex()}.m4s").write_bytes(b"x")
        assert progress.objects < 1000

    with pytest.raises(StoreFailed, match="change faster than they can be copied"):
        await copy_objects(ToBucket(filled, bucket_store), report)


async def test_the_room_that_must_stay_free_stays(
    filled: DiskObjects, bucket_store: S3Objects, tmp_path: Path
) -> None:
    await copy_objects(ToBucket(filled, bucket_store))
    with DiskObjects(tmp_path / "back") as back:
        with pytest.raises(StoreFull, match="No space left"):
            await copy_objects(ToFolder(bucket_store, back, min_free_bytes=1 << 60))
        assert stored_files(back) == {}
