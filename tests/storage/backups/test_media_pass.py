"""A pass copies what is new, and of a stream on air what belongs together."""

import os
from collections.abc import Collection
from pathlib import Path

import pytest

from media.no_op import do_nothing
from storage.backups.manifest import read_entries
from storage.backups.media_pass import Former, MediaPass
from storage.backups.repository import BackupRepository
from storage.objects.base import ObjectStat
from storage.objects.disk import DiskObjects

RUN = "live/AAAAAAAAAAAA/1"
LONG_AGO = Former(path=None, begun_us=0)
LATER_US = 1 << 60


class MovingStream(DiskObjects):
    """A store whose stream goes on by a segment each time that it is listed, `times` times."""

    times = 0
    newest = 0

    async def stats(self, prefix: str) -> dict[str, ObjectStat]:
        stats = await super().stats(prefix)
        if self.times:
            self.times -= 1
            await self.go_on()
        return stats

    async def go_on(self) -> None:
        """Add a segment; the one before the last two is deleted."""
        self.newest += 1
        names = [f"{number}.m4s" for number in (self.newest - 1, self.newest)]
        await self.put(f"{RUN}/360p/{names[1]}", names[1].encode())
        await self.put(f"{RUN}/360p/index.m3u8", "\n".join(["#EXTM3U", *names]).encode())
        if self.newest > 1:
            await self.delete(f"{RUN}/360p/{self.newest - 2}.m4s")

    def __enter__(self) -> "MovingStream":
        return self


async def run_pass(
    source: DiskObjects, folder: Path, former: Former, name: str
) -> tuple[MediaPass, list[str]]:
    with DiskObjects(folder / "place") as target:
        repository = BackupRepository(target, folder)
        media = MediaPass(source, repository, former, report=do_nothing)
        await media.run(folder / name)
    return media, [entry.address for entry in read_entries(folder / name)]


async def test_what_did_not_change_is_not_read_again(tmp_path: Path) -> None:
    with DiskObjects(tmp_path / "store") as store:
        await store.put_all(
            {"sources/A/1": b"same", "videos/A/1-1/0.m4s": b"same", "uploads/x": b"x"}
        )
        media, addresses = await run_pass(store, tmp_path, LONG_AGO, "one")
        assert addresses == ["sources/A/1", "videos/A/1-1/0.m4s"]
        assert (media.objects, media.bytes, media.copied) == (2, 8, 1), "the same bytes once"
        former = Former(path=tmp_path / "one", begun_us=LATER_US)
        await store.put("videos/A/1-1/1.m4s", b"new")
        await store.delete("sources/A/1")
        media, addresses = await run_pass(store, tmp_path, former, "two")
        assert addresses == ["videos/A/1-1/0.m4s", "videos/A/1-1/1.m4s"]
        assert (media.copied, media.copied_bytes) == (1, 3)


@pytest.mark.parametrize(("begun_us", "expected"), [(0, b"two"), (LATER_US, b"one")])
async def test_what_may_have_changed_within_the_same_moment_is_read_again(
    tmp_path: Path, begun_us: int, expected: bytes
) -> None:
    """The second case shows that nothing else would notice."""
    with DiskObjects(tmp_path / "store") as store:
        address = "live/A/poster/x.jpg"
        await store.put(address, b"one")
        stat = store.path(address).stat()
        await run_pass(store, tmp_path, LONG_AGO, "one")
        await store.put(address, b"two")
        times = (stat.st_atime_ns, stat.st_mtime_ns)
        os.utime(store.path(address), ns=times)
        former = Former(path=tmp_path / "one", begun_us=begun_us)
        await run_pass(store, tmp_path, former, "two")
        (entry,) = read_entries(tmp_path / "two")
        place = tmp_path / "place" / "data" / entry.digest[:2] / entry.digest
        assert place.read_bytes() == expected


@pytest.mark.parametrize("times", [0, 1, 4])
async def test_playlists_of_a_stream_on_air_list_what_is_in_the_backup(
    tmp_path: Path, times: int
) -> None:
    with MovingStream(tmp_path / "store") as store:
        for _ in range(3):
            await store.go_on()
        store.times = times
        media, addresses = await run_pass(store, tmp_path, LONG_AGO, "one")
        assert media.torn == []
        listed = segments_of_playlist(tmp_path)
        assert {f"{RUN}/360p/{name}" for name in listed} <= set(addresses)


async def test_a_stream_whose_segments_are_lost_is_named(tmp_path: Path) -> None:
    with MovingStream(tmp_path / "store") as store:
        await store.go_on()
        await store.delete(f"{RUN}/360p/1.m4s")
        media, addresses = await run_pass(store, tmp_path, LONG_AGO, "one")
        assert (media.torn, addresses) == (["live/AAAAAAAAAAAA"], [f"{RUN}/360p/index.m3u8"])


def segments_of_playlist(folder: Path) -> Collection[str]:
    (entry,) = [each for each in read_entries(folder / "one") if each.address.endswith(".m3u8")]
    text = (folder / "place" / "data" / entry.digest[:2] / entry.digest).read_text()
    return [line for line in text.splitlines() if not line.startswith("#")]
