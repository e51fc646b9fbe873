"""Where posters of live streams are stored, on a real disk; e2e tests cover the catalog."""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from storage.errors import CatalogBusy
from storage.objects.disk import DiskObjects
from tests.support.storage.full_disk import MIB, small_disk
from transcode.live.posters import LivePosters
from transcode.protocol.messages import Poster, Posters

STREAM = "Ab3dEf6hIj9l"
OTHER = "Zz3dEf6hIj9l"


class RecordedPosters:
    """Records the posters of each stream; `gone` streams are deleted, `silent` means no answer."""

    def __init__(self) -> None:
        self.recorded: list[tuple[str, tuple[str, ...], tuple[int, int]]] = []
        self.gone: set[str] = set()
        self.silent = False

    async def note(self, stream: str, labels: Sequence[str], size: tuple[int, int]) -> bool:
        if self.silent:
            raise CatalogBusy
        self.recorded.append((stream, tuple(labels), size))
        return stream not in self.gone


def picture(text: str, *labels: str, poor: bool = False) -> Posters:
    sizes = {"720p": (1280, 720), "360p": (640, 360), "240p": (426, 240)}
    return Posters(
        posters=tuple(
            Poster(label=label, width=sizes[label][0], height=sizes[label][1], data=text.encode())
            for label in labels or ("720p", "360p")
        ),
        poor=poor,
    )


def stored_posters(root: Path, stream: str = STREAM) -> dict[str, str]:
    """Return what is stored at a stream's addresses, by label."""
    folder = root / "live" / stream / "poster"
    return {path.stem: path.read_text() for path in folder.glob("*")} if folder.exists() else {}


async def test_a_poster_is_stored_at_its_addresses_and_announced(tmp_path: Path) -> None:
    notes = RecordedPosters()
    with DiskObjects(tmp_path) as objects:
        await LivePosters(objects, notes.note).store(STREAM, picture("one"))
    assert stored_posters(tmp_path) == {"720p": "one", "360p": "one"}
    assert notes.recorded == [(STREAM, ("360p", "720p"), (1280, 720))]


async def test_the_next_one_replaces_it_and_what_has_no_place_any_more_goes(tmp_path: Path) -> None:
    notes = RecordedPosters()
    with DiskObjects(tmp_path) as objects:
        posters = LivePosters(objects, notes.note)
        await posters.store(STREAM, picture("one"))
        await posters.store(STREAM, picture("two", "360p", "240p"))
    assert stored_posters(tmp_path) == {"360p": "two", "240p": "two"}
    assert notes.recorded[-1] == (STREAM, ("240p", "360p"), (640, 360))


async def test_black_is_shown_only_where_there_was_nothing_better(tmp_path: Path) -> None:
    notes = RecordedPosters()
    with DiskObjects(tmp_path) as objects:
        first = LivePosters(objects, notes.note)
        await first.store(STREAM, picture("black", poor=True))
        assert stored_posters(tmp_path)["720p"] == "black"
        await first.store(STREAM, picture("a title", poor=True))
        assert stored_posters(tmp_path)["720p"] == "a title"
        await first.store(STREAM, picture("good"))
        await first.store(STREAM, picture("black", poor=True))
        assert stored_posters(tmp_path)["720p"] == "good"
        # The same holds after a restart, for a run that begins in black.
        await LivePosters(objects, notes.note).store(STREAM, picture("black", poor=True))
    assert stored_posters(tmp_path)["720p"] == "good"
    assert len(notes.recorded) == 3


async def test_of_a_stream_that_was_deleted_nothing_stays(tmp_path: Path) -> None:
    notes = RecordedPosters()
    notes.gone.add(STREAM)
    with DiskObjects(tmp_path) as objects:
        await LivePosters(objects, notes.note).store(STREAM, picture("one"))
    assert stored_posters(tmp_path) == {}


async def test_a_silent_catalog_is_logged_once_and_asked_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    notes = RecordedPosters()
    notes.silent = True
    with DiskObjects(tmp_path) as objects, caplog.at_level(logging.WARNING):
        posters = LivePosters(objects, notes.note)
        for text in ("one", "two"):
            await posters.store(STREAM, picture(text))
        assert [record.message for record in caplog.records] == ["poster not stored"]
        notes.silent = False
        await posters.store(STREAM, picture("three"))
        assert notes.recorded == [(STREAM, ("360p", "720p"), (1280, 720))]
        notes.silent = True
        await posters.store(STREAM, picture("four"))
    assert len(caplog.records) == 2


async def test_a_full_disk_keeps_the_poster_that_there_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    notes = RecordedPosters()
    with small_disk(tmp_path / "disk", 4 * MIB) as disk, DiskObjects(disk.folder) as objects:
        posters = LivePosters(objects, notes.note)
        await posters.store(STREAM, picture("one"))
        disk.fill()
        for _ in range(2):
            await posters.store(STREAM, picture("two" * 100_000))
        assert stored_posters(disk.folder) == {"720p": "one", "360p": "one"}
        assert [record.message for record in caplog.records] == ["poster not stored"]
        disk.empty()
        await posters.store(STREAM, picture("three"))
        assert stored_posters(disk.folder) == {"720p": "three", "360p": "three"}
    assert len(notes.recorded) == 2


async def test_what_is_offered_is_kept_the_newest_of_each_stream(tmp_path: Path) -> None:
    notes = RecordedPosters()
    with DiskObjects(tmp_path) as objects:
        posters = LivePosters(objects, notes.note)
        posters.offer(STREAM, picture("one"))
        posters.offer(STREAM, picture("two"))
        posters.offer(OTHER, picture("three"))
        posters.offer(OTHER, Posters(posters=()))
        async with asyncio.TaskGroup() as tasks:
            keeping = tasks.create_task(posters.run())
            async with asyncio.timeout(10):
                while len(notes.recorded) < 2:  # noqa: ASYNC110 # the disk raises no event
                    await asyncio.sleep(0.01)
            keeping.cancel()
    assert stored_posters(tmp_path)["720p"] == "two"
    assert stored_posters(tmp_path, OTHER)["720p"] == "three"
