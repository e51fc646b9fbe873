"""The object store on a real disk."""

import asyncio
import errno
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from storage.objects.addresses import BadAddress
from storage.objects.base import ObjectError, ObjectMissing, StoreFailed, StoreFull
from storage.objects.disk import DiskObjects
from storage.objects.disk_threads import DiskThreads

TEMPORARIES = ".temporary"


async def test_an_object_is_as_old_as_its_file(tmp_path: Path) -> None:
    with DiskObjects(tmp_path) as objects:
        await objects.put("live/a/1.m4s", b"one")
        stat = await objects.stat("live/a/1.m4s")
        assert stat is not None
        assert stat.modified_us == objects.path("live/a/1.m4s").stat().st_mtime_ns // 1000


async def test_a_linked_object_takes_no_room_and_lives_on(tmp_path: Path) -> None:
    with DiskObjects(tmp_path) as objects:
        await objects.put("live/a/1.m4s", b"one")
        await objects.put("videos/b/1.m4s", b"older")
        for _ in range(2):  # as often as one likes
            await objects.link("live/a/1.m4s", "videos/b/1.m4s")
            await objects.link("live/a/1.m4s", "videos/new/folder/1.m4s")
        assert objects.path("live/a/1.m4s").stat().st_nlink == 3
        await objects.put("live/a/1.m4s", b"another")
        assert await objects.get("videos/b/1.m4s") == b"one"
        await objects.delete("videos/b/1.m4s")
        assert await objects.get("videos/new/folder/1.m4s") == b"one"
        with pytest.raises(ObjectMissing):
            await objects.link("live/a/2.m4s", "videos/b/2.m4s")
        with pytest.raises(BadAddress):
            await objects.link("live/a/1.m4s", "../1.m4s")
        assert await objects.addresses("videos/b") == []
        assert list(next((tmp_path / TEMPORARIES).iterdir()).iterdir()) == [
            objects.temporary().parent / "reserve"
        ]


@pytest.mark.parametrize("code", [errno.EPERM, errno.EMLINK, errno.EXDEV, errno.ENOTSUP])
async def test_where_no_link_can_be_there_is_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    with DiskObjects(tmp_path) as objects:
        await objects.put("a/1", b"one")
        monkeypatch.setattr(os, "link", refuse)
        await objects.link("a/1", "b/1")
        assert await objects.get("b/1") == b"one"
        assert not objects.path("a/1").samefile(objects.path("b/1"))


async def test_a_disk_without_links_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    with DiskObjects(tmp_path) as objects:
        await objects.put("a/1", b"one")
        monkeypatch.setattr(os, "link", refuse)
        with pytest.raises(StoreFull):
            await objects.link("a/1", "b/1")
        assert await objects.stat("b/1") is None


async def test_what_is_not_there_is_missing(tmp_path: Path) -> None:
    with DiskObjects(tmp_path) as objects:
        await objects.put("a/b", b"")
        for address in ("a/c", "a", "a/b/c"):
            with pytest.raises(ObjectMissing):
                await objects.get(address)
        assert await objects.stat("a/c") is None


@pytest.mark.parametrize("address", ["../x", "/etc/x", ".temporary/x", "a/../../x"])
def test_no_call_leaves_the_root(tmp_path: Path, address: str) -> None:
    async def go() -> None:
        with DiskObjects(tmp_path / "root") as objects:
            calls = (
                objects.put(address, b"x"), objects.get(address), objects.stat(address),
                objects.delete(address), objects.addresses(address), objects.delete_tree(address),
            )  # fmt: skip
            for call in calls:
                with pytest.raises(BadAddress):
                    await call

    asyncio.run(go())
    assert [path.name for path in tmp_path.iterdir()] == ["root"]


def test_a_reader_gets_the_old_bytes_or_the_new_ones(tmp_path: Path) -> None:
    """A thread reads all the time while one object is replaced by others of other sizes."""
    contents: set[bytes] = set()
    stop = threading.Event()
    path = tmp_path / "a" / "x"

    def read() -> None:
        while not stop.is_set():
            contents.add(path.read_bytes())

    async def go() -> None:
        with DiskObjects(tmp_path) as objects:
            await objects.put("a/x", bytes(100_000))
            reader = threading.Thread(target=read)
            reader.start()
            for number in range(1, 200):
                await objects.put("a/x", bytes([number]) * (100_000 + number))
            stop.set()
            reader.join()

    asyncio.run(go())
    assert len(contents) > 1
    assert {(len(data), len(set(data))) for data in contents} <= {
        (100_000 + n, 1) for n in range(200)
    }


def test_a_full_disk_is_reported_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """A file size limit simulates the full disk: both fail in the middle of a write."""
    program = """
import asyncio, errno, resource, signal, sys
from pathlib import Path
from storage.objects.base import ObjectError
from storage.objects.disk import DiskObjects
from storage.objects.disk_threads import DiskThreads

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

async def go():
    with DiskObjects(Path(sys.argv[1])) as objects:
        await objects.put("a/x", b"old")
        try:
            await objects.put("a/x", bytes(5000))
        except ObjectError as error:
            print(type(error).__name__, error.reason)
        print(await objects.get("a/x"))
        print(sum(path.is_file() for path in Path(sys.argv[1]).rglob("*")))

asyncio.run(go())
"""
    completed = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert completed.stdout.splitlines() == ["StoreFailed File too large", "b'old'", "1"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a Linux device")
async def test_no_room_is_its_own_error(tmp_path: Path) -> None:
    """The temporaries' folder leads to a device that is always full."""

    with DiskObjects(tmp_path) as objects:
        (own,) = (tmp_path / TEMPORARIES).iterdir()
        for number in range(3):
            (own / str(number)).symlink_to("/dev/full")
        with pytest.raises(StoreFull, match=os.strerror(errno.ENOSPC)) as caught:
            await objects.put("a/x", b"x")
        assert str(tmp_path) not in str(caught.value)
        assert caught.value.address == "a/x"


async def test_an_unusable_folder_is_the_disks_failure(tmp_path: Path) -> None:
    with DiskObjects(tmp_path) as objects:
        await objects.put("a", b"a file")
        with pytest.raises((StoreFailed, ObjectMissing)):
            await objects.put("a/x", b"below a file")
        assert await objects.get("a") == b"a file"


KILLED = """
import os, sys, time
from pathlib import Path
from storage.objects.disk import DiskObjects
from storage.objects.disk_threads import DiskThreads

objects = DiskObjects(Path(sys.argv[1]))
(own,) = [path for path in (Path(sys.argv[1]) / ".temporary").iterdir()]
(own / "0").write_bytes(b"half")
print("ready", flush=True)
time.sleep(60)
"""


def test_leftovers_of_the_killed_are_removed_and_those_of_the_living_are_not(
    tmp_path: Path,
) -> None:
    with (
        subprocess.Popen(
            [sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True
        ) as other,
    ):
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == "ready\n"
            with DiskObjects(tmp_path):
                assert len(list((tmp_path / TEMPORARIES).iterdir())) == 2
            assert [path.name for path in (tmp_path / TEMPORARIES).rglob("*/0")] == ["0"]
        finally:
            other.send_signal(signal.SIGKILL)
    with DiskObjects(tmp_path):
        assert len(list((tmp_path / TEMPORARIES).iterdir())) == 1
        assert list((tmp_path / TEMPORARIES).rglob("*/0")) == []
    assert list((tmp_path / TEMPORARIES).iterdir()) == []


def test_a_write_that_was_cancelled_does_not_come_later(tmp_path: Path) -> None:
    """The write blocks on a pipe without a reader until the caller has given up."""

    async def go() -> None:
        with DiskObjects(tmp_path) as objects:
            (own,) = (tmp_path / TEMPORARIES).iterdir()
            pipe = own / "0"
            os.mkfifo(pipe)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await objects.put("a/x", b"old")
            await objects.put("a/x", b"new")
            reader = await asyncio.to_thread(os.open, pipe, os.O_RDONLY)
            assert await asyncio.to_thread(os.read, reader, 10) == b"old"
            # The end of the pipe comes when the thread has written and closed.
            assert await asyncio.to_thread(os.read, reader, 10) == b""
            os.close(reader)

    asyncio.run(go())
    # The loop has joined its threads, so their work is done.
    assert (tmp_path / "a" / "x").is_file()
    assert (tmp_path / "a" / "x").read_bytes() == b"new"


@pytest.mark.parametrize("kind", ["send", "link"])
async def test_a_link_that_was_cancelled_does_not_come_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The disk makes the link only when the caller has given up and written something else."""
    may_link = threading.Event()
    make_link = os.link

    def link(source: Path, target: Path) -> None:
        may_link.wait()
        make_link(source, target)

    with DiskObjects(tmp_path) as objects:
        await objects.put("a/source", b"old")
        slow = objects.using(DiskThreads("slow", 1))
        monkeypatch.setattr(os, "link", link)
        linking = (
            slow.link("a/source", "a/x")
            if kind == "link"
            else slow.send(objects.path("a/source"), "a/x")
        )
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await linking
        await objects.put("a/x", b"new")
        may_link.set()
        await slow.threads.run(lambda: None)  # after the link, in the only thread
        assert await objects.get("a/x") == b"new"


async def test_many_objects_are_written_read_and_deleted_in_one_go(tmp_path: Path) -> None:
    with DiskObjects(tmp_path) as objects:
        await objects.put_all({"a/1": b"one", "b/2": b"two"})
        assert await objects.get_all(("b/2", "a/3", "a/1", "a", "a/1/x")) == [
            b"two", None, b"one", None, None,
        ]  # fmt: skip
        await objects.delete_all(("a/1", "a/3", "b/2"))
        assert await objects.get_all(("a/1", "b/2")) == [None, None]
        await objects.put_all({})
        await objects.delete_all(())
        assert await objects.get_all(()) == []


async def test_one_of_many_that_fails_does_not_keep_the_others_back(tmp_path: Path) -> None:
    with DiskObjects(tmp_path) as objects:
        await objects.put("file", b"")
        with pytest.raises(ObjectError, match="file/x"):
            await objects.put_all({"first": b"1", "file/x": b"2", "last": b"3"})
        assert await objects.get_all(("first", "last")) == [b"1", b"3"]
        with pytest.raises(ObjectError, match="file/x"):
            await objects.delete_all(("first", "file/x", "last"))
        assert await objects.get_all(("first", "last")) == [None, None]
        with pytest.raises(BadAddress):
            await objects.put_all({"first": b"1", "../x": b"2"})
