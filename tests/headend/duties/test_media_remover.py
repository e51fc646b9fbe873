"""What an owner deletes is gone at once, from the store and from the edge."""

from pathlib import Path

from delivery.edge.memory import MemoryEdge
from headend.duties.media_remover import StoredMedia
from media.no_op import do_nothing_async
from storage.objects import addresses
from storage.objects.disk import DiskObjects
from tests.support.storage.undeletable_disk import UndeletableDisk

HASH, OTHER = "AAAAAAAAAAAA", "BBBBBBBBBBBB"
FOLDERS = ("live/{}/poster", "slates/s-{}", "videos/{}/1-1", "sources/{}")


async def test_all_media_of_a_deleted_record_go_and_not_to_the_trash(tmp_path: Path) -> None:
    with DiskObjects(tmp_path) as objects:
        for hash_ in (HASH, OTHER):
            for folder in FOLDERS:
                await objects.put(f"{folder.format(hash_)}/x", b"x")
        edge = MemoryEdge()
        await StoredMedia(objects, edge.drop_folder).remove([HASH])
        for folder in FOLDERS:
            top = folder.split("/")[0]
            assert await objects.addresses(top) == [f"{folder.format(OTHER)}/x"]
        assert await objects.addresses("trash") == []


async def test_what_cannot_be_deleted_keeps_nothing_else(tmp_path: Path) -> None:
    with UndeletableDisk(tmp_path, addresses.upload("stuck")) as objects:
        for name in ("stuck", "other"):
            await objects.put(addresses.upload(name), b"x")
        await StoredMedia(objects, do_nothing_async).remove_uploads(["stuck", "other"])
        assert await objects.addresses(addresses.UPLOADS) == [addresses.upload("stuck")]


async def test_the_media_of_a_record_in_the_trash_stay_but_for_copies_for_a_cdn(
    tmp_path: Path,
) -> None:
    dropped: list[str] = []

    async def drop_folder(folder: str) -> None:
        dropped.append(folder)

    with DiskObjects(tmp_path) as objects:
        for folder in FOLDERS:
            await objects.put(f"{folder.format(HASH)}/x", b"x")
        for hash_ in (HASH, OTHER):
            await objects.put(f"cdn/{hash_}/token/1-1/x", b"x")
        await StoredMedia(objects, drop_folder).withdraw([HASH])
        for folder in FOLDERS:
            top = folder.split("/")[0]
            assert await objects.addresses(top) == [f"{folder.format(HASH)}/x"]
        assert await objects.addresses("cdn") == [f"cdn/{OTHER}/token/1-1/x"]
    assert f"live/{HASH}" in dropped
    assert len(dropped) == len(FOLDERS)
