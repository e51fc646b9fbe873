"""What every object store promises, on a disk and in a bucket."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from storage.objects.addresses import MEDIA_FOLDERS, BadAddress
from storage.objects.base import ObjectChanged, ObjectMissing, Objects
from storage.objects.store import MediaStore

pytestmark = pytest.mark.anyio


async def test_objects_are_put_replaced_listed_and_deleted(media_store: MediaStore) -> None:
    await media_store.put("live/a/1.m4s", b"one")
    await media_store.put("live/a/b/2.m4s", b"two")
    await media_store.put("live/a/1.m4s", b"other")
    assert await media_store.get("live/a/1.m4s") == b"other"
    stat = await media_store.stat("live/a/1.m4s")
    assert stat is not None
    assert stat.size == 5
    assert await media_store.addresses("live/a") == ["live/a/1.m4s", "live/a/b/2.m4s"]
    assert await media_store.addresses("live") == ["live/a/1.m4s", "live/a/b/2.m4s"]
    await media_store.delete("live/a/1.m4s")
    await media_store.delete("live/a/1.m4s")
    assert await media_store.addresses("live") == ["live/a/b/2.m4s"]
    await media_store.delete_tree("live/a")
    await media_store.delete_tree("live/a")
    assert await media_store.addresses("live") == []
    assert await media_store.addresses("nowhere") == []


async def test_one_version_is_replaced_and_no_other(media_store: MediaStore) -> None:
    address = "live/a/state.json"
    assert await media_store.version(address) is None
    first = await media_store.put_if(address, b"first", None, vital=True)
    assert await media_store.version(address) == first
    with pytest.raises(ObjectChanged):
        await media_store.put_if(address, b"late", None)
    second = await media_store.put_if(address, b"second", first)
    assert second != first
    for version in (None, first):
        with pytest.raises(ObjectChanged):
            await media_store.put_if(address, b"late", version)
    assert await media_store.get(address) == b"second"
    await media_store.put(address, b"another")
    with pytest.raises(ObjectChanged):
        await media_store.put_if(address, b"late", second)
    await media_store.delete(address)
    with pytest.raises(ObjectChanged):
        await media_store.put_if(address, b"late", second)
    assert await media_store.version(address) is None


async def write_if(
    store: MediaStore, address: str, number: int, version: str | None, written: list[int]
) -> None:
    with suppress(ObjectChanged):
        await store.put_if(address, bytes([number]), version)
        written.append(number)


async def test_of_writers_with_the_same_version_one_succeeds(media_store: MediaStore) -> None:
    version = await media_store.put_if("live/a/state.json", b"", None)
    for known in (version, None):
        address = "live/a/state.json" if known else "live/a/1.m4s"
        faster: list[int] = []

        async with asyncio.TaskGroup() as writers:
            for number in range(8):
                writers.create_task(write_if(media_store, address, number, known, faster))
        assert len(faster) == 1
        assert await media_store.get(address) == bytes(faster)


async def test_a_folder_is_not_what_begins_as_it_does(media_store: MediaStore) -> None:
    await media_store.put_all({"videos/a/1": b"1", "videos/ab/2": b"2", "videos/ab/c/3": b"3"})
    assert await media_store.addresses("videos/a") == ["videos/a/1"]
    await media_store.delete_tree("videos/a")
    assert await media_store.addresses("videos") == ["videos/ab/2", "videos/ab/c/3"]
    assert await media_store.folder_names("videos") == {"ab"}
    await media_store.put("videos/x/y/1", b"")
    assert await media_store.folder_names("videos") == {"ab", "x"}
    assert await media_store.folder_names("nowhere") == set()
    await media_store.delete_tree("videos/x")
    newest = await media_store.stat("videos/ab/c/3")
    assert newest is not None
    assert await media_store.has_changed("videos/ab", newest.modified_us - 2_000_000)
    assert not await media_store.has_changed("videos/ab", newest.modified_us + 2_000_000)
    assert not await media_store.has_changed("nowhere", 0)


async def test_many_objects_go_at_once(media_store: MediaStore) -> None:
    objects = {f"live/a/{number}.m4s": b"%d" % number for number in range(1010)}  # a page has 1000
    await media_store.put_all(objects)
    assert await media_store.addresses("live/a") == sorted(objects)
    addresses = ["live/a/7.m4s", "live/a/none.m4s", "live/a/1009.m4s"]
    assert await media_store.get_all(addresses) == [b"7", None, b"1009"]
    assert set(await media_store.sizes("live")) == set(objects)
    await media_store.delete_all([*list(objects)[:5], "live/a/none.m4s"])
    await media_store.move("live/a", "trash/now/live/a")
    assert await media_store.addresses("live") == []
    assert len(await media_store.addresses("trash")) == 1005
    await media_store.delete_tree("trash")
    assert await media_store.addresses("trash") == []


async def test_what_is_not_there_is_missing(media_store: MediaStore) -> None:
    await media_store.put("a/b", b"")
    assert await media_store.get("a/b") == b""
    for address in ("a/c", "a", "a/b/c"):
        with pytest.raises(ObjectMissing):
            await media_store.get(address)
    assert await media_store.stat("a/c") is None
    with pytest.raises(ObjectMissing):
        await media_store.link("a/c", "a/d")
    with pytest.raises(ObjectMissing):
        await media_store.make_durable("a/c")


async def test_a_second_address_lives_on(media_store: MediaStore) -> None:
    await media_store.put("live/a/1.m4s", b"one")
    await media_store.put("videos/b/1.m4s", b"older")
    for _ in range(2):
        await media_store.link("live/a/1.m4s", "videos/b/1.m4s")
    await media_store.put("live/a/1.m4s", b"another")
    assert await media_store.get("videos/b/1.m4s") == b"one"
    await media_store.delete("live/a/1.m4s")
    assert await media_store.get("videos/b/1.m4s") == b"one"


async def test_an_object_or_a_folder_moves(media_store: MediaStore) -> None:
    await media_store.put_all({"videos/a/1": b"1", "videos/a/b/2": b"2", "sources/c/1": b"3"})
    await media_store.move("videos/a", "trash/now/videos/a")
    await media_store.move("sources/c/1", "trash/now/sources/c/1")
    await media_store.move("videos/none", "trash/now/videos/none")
    assert await media_store.addresses("videos") == []
    assert await media_store.addresses("sources") == []
    moved = ["trash/now/sources/c/1", "trash/now/videos/a/1", "trash/now/videos/a/b/2"]
    assert await media_store.addresses("trash") == moved
    assert await media_store.get_all(moved) == [b"3", b"1", b"2"]


async def test_what_exists_is_durable(media_store: MediaStore) -> None:
    await media_store.put("videos/a/b/2", b"2")
    await media_store.make_durable("videos/a/b/2")
    await media_store.make_durable("videos/a")


async def test_the_check_leaves_nothing_behind(media_store: MediaStore) -> None:
    await media_store.put("installation", b"key")
    for thorough in (False, True):
        await media_store.check(min_free_bytes=1, thorough=thorough)
    for folder in (*MEDIA_FOLDERS, "uploads", "pieces", "checks"):
        assert await media_store.addresses(folder) == []


@pytest.mark.parametrize("address", ["../x", "/etc/x", ".temporary/x", "a/../../x", "", "a//b"])
async def test_no_call_leaves_the_store(media_store: MediaStore, address: str) -> None:
    calls: list[Callable[[Objects], Awaitable[object]]] = [
        lambda objects: objects.put(address, b"x"),
        lambda objects: objects.get(address),
        lambda objects: objects.stat(address),
        lambda objects: objects.delete(address),
        lambda objects: objects.addresses(address),
        lambda objects: objects.has_changed(address, 0),
        lambda objects: objects.delete_tree(address),
        lambda objects: objects.link("a/b", address),
        lambda objects: objects.move("a/b", address),
    ]
    await media_store.put("a/b", b"")
    for call in calls:
        with pytest.raises(BadAddress):
            await call(media_store)
    assert await media_store.addresses("a") == ["a/b"]


async def test_a_reader_gets_the_old_bytes_or_the_new_ones(media_store: MediaStore) -> None:
    contents: set[bytes] = set()
    await media_store.put("a/x", bytes(100_000))

    async def read() -> None:
        while len(contents) < 3:
            contents.add(await media_store.get("a/x"))

    async with asyncio.TaskGroup() as group:
        reading = group.create_task(read())
        number = 0
        while not reading.done():
            number = number % 100 + 1
            await media_store.put("a/x", bytes([number]) * (100_000 + number))
    assert {(len(data), len(set(data))) for data in contents} <= {
        (100_000 + n, 1) for n in range(101)
    }
