"""What every store of media promises about the files of its machine, on a disk and in a bucket."""

from pathlib import Path

import pytest

from storage.objects.base import ObjectMissing, ObjectStat
from storage.objects.incoming_file import open_incoming_file
from storage.objects.resumable_file import open_resumable_file
from storage.objects.store import MediaStore

pytestmark = pytest.mark.anyio

SOURCE = "sources/AAAAAAAAAAAA/1"


def files_below(folder: Path) -> list[Path]:
    return [each for each in folder.rglob("*") if each.is_file() and each.name != "reserve"]


async def test_a_file_that_arrived_in_one_go_becomes_an_object(media_store: MediaStore) -> None:
    async with open_incoming_file(media_store, max_bytes=100) as file:
        await file.write(b"a film")
        await file.keep(SOURCE)
    assert await media_store.get(SOURCE) == b"a film"
    async with media_store.lend(SOURCE) as path:
        assert path.read_bytes() == b"a film"


async def test_a_file_that_is_not_kept_leaves_nothing(media_store: MediaStore) -> None:
    async with open_incoming_file(media_store, max_bytes=100) as file:
        await file.write(b"a film")
        await file.flush()
    assert files_below(media_store.scratch.root) == []
    assert await media_store.addresses("sources") == []


async def test_a_file_that_arrived_in_pieces_becomes_an_object(media_store: MediaStore) -> None:
    for part in (b"a ", b"film"):
        async with open_resumable_file(media_store, "uploads/one", SOURCE, wait_seconds=1) as file:
            await file.truncate(file.size())
            await file.write(part)
            await file.flush()
        assert await media_store.addresses("uploads") == ["uploads/one"]
        assert await media_store.addresses("sources") == []
    async with open_resumable_file(media_store, "uploads/one", SOURCE, wait_seconds=1) as file:
        await file.keep(SOURCE)
        assert await media_store.get(SOURCE) == b"a film"
        await file.remove_remains()
    assert await media_store.addresses("uploads") == []
    assert await media_store.addresses("sources") == [SOURCE]


async def test_a_kept_file_may_be_kept_again_where_no_row_came_to_name_it(
    media_store: MediaStore,
) -> None:
    async with open_resumable_file(media_store, "uploads/one", SOURCE, wait_seconds=1) as file:
        await file.write(b"a film")
        await file.flush()
        await file.keep(SOURCE)
    async with open_resumable_file(media_store, "uploads/one", SOURCE, wait_seconds=1) as file:
        assert await file.truncate(6) == 6
        await file.keep(SOURCE)
        await file.remove_remains()
    assert await media_store.get(SOURCE) == b"a film"
    assert await media_store.addresses("uploads") == []


async def test_a_lent_file_has_the_bytes_of_its_object(media_store: MediaStore) -> None:
    await media_store.put("videos/a/1.m4s", b"one")
    async with media_store.lend("videos/a/1.m4s") as path:
        assert path.read_bytes() == b"one"
    with pytest.raises((ObjectMissing, FileNotFoundError)):
        async with media_store.lend("videos/a/2.m4s") as path:
            path.read_bytes()


async def test_viewers_find_an_object_below_the_files(media_store: MediaStore) -> None:
    await media_store.put("videos/a/1.m4s", b"one")
    place = media_store.files / "videos/a/1.m4s"
    async with media_store.holding("videos/a/1.m4s") as is_copied:
        assert is_copied == (media_store.scratch is not media_store)
        assert place.read_bytes() == b"one"
    async with media_store.holding("videos/a/2.m4s") as is_copied:
        assert not is_copied
    await media_store.delete_tree("videos/a")
    assert not place.exists()
    async with media_store.holding("videos/a/1.m4s") as is_copied:
        assert not is_copied


async def test_a_file_is_sent_and_stays(media_store: MediaStore, tmp_path: Path) -> None:
    (tmp_path / "film").write_bytes(b"a film")
    await media_store.send(tmp_path / "film", SOURCE)
    assert await media_store.get(SOURCE) == b"a film"
    assert (tmp_path / "film").read_bytes() == b"a film"
    await media_store.delete(SOURCE)
    assert (tmp_path / "film").exists()


async def test_an_object_that_was_not_written_to_is_unchanged(media_store: MediaStore) -> None:
    await media_store.put("videos/a/index.m3u8", b"one")
    stat = await media_store.stat("videos/a/index.m3u8")
    assert isinstance(stat, ObjectStat)
    assert media_store.is_unchanged("videos/a/index.m3u8", stat)


async def test_the_sizes_of_a_folder_are_those_of_its_objects(media_store: MediaStore) -> None:
    await media_store.put_all({"videos/a/1/0.m4s": b"media", "videos/a/2": b"", "videos/b/1": b"x"})
    assert await media_store.sizes("videos/a") == {"videos/a/1/0.m4s": 5, "videos/a/2": 0}
    assert await media_store.sizes("videos/c") == {}
