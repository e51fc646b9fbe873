"""Objects without a reference are removed once they are old; referenced ones stay."""

import asyncio
import random
import sqlite3
import time
from pathlib import Path

import pytest

from media.stream_keys import new_hash
from storage.catalog import Catalog, open_catalog
from storage.catalog.records.common import Change
from storage.catalog.records.videos import NewVideo
from storage.cleanup.orphans import (
    AGE_US,
    TooManyUnknown,
    remove_orphans,
)
from storage.objects.base import StoreFailed
from storage.objects.disk import DiskObjects
from storage.objects.trash import find_trash
from tests.support.sql import migrated
from tests.support.storage.new_videos import new_video
from tests.support.storage.undeletable_disk import UndeletableDisk

KEPT, GONE = "AAAAAAAAAAAA", "BBBBBBBBBBBB"
_MADE = ("360p", "audio")
_ROOMS = ("sources", "videos", "live")


def _now_us() -> int:
    return time.time_ns() // 1000


def _arrived(hash_: str) -> NewVideo:
    return new_video(hash_)


async def test_files_of_no_video_go_once_they_are_old(tmp_path: Path) -> None:
    now_us = _now_us()
    with DiskObjects(tmp_path / "objects") as objects:
        async with open_catalog(migrated(tmp_path / "catalog.db"), migrate=True) as catalog:
            project = await catalog.projects.add("films", Change(now_us))
            await catalog.videos.add(project.id, _arrived(KEPT), Change(now_us))
            assert await remove_orphans(objects, catalog.references, now_us) == 0
            for hash_ in (KEPT, GONE):
                await objects.put(f"sources/{hash_}/1", b"x")
                await objects.put(f"videos/{hash_}/own-x/360p.jpg", b"x")
            # New objects may belong to an upload whose row is about to be written.
            assert await remove_orphans(objects, catalog.references, now_us) == 0
            later_us = now_us + AGE_US + 60_000_000
            assert await remove_orphans(objects, catalog.references, later_us) == 2
            assert await objects.addresses("sources") == [f"sources/{KEPT}/1"]
            assert await objects.addresses("videos") == [f"videos/{KEPT}/own-x/360p.jpg"]
            assert await remove_orphans(objects, catalog.references, later_us) == 0


async def test_folders_of_other_names_are_not_ours(tmp_path: Path) -> None:
    with DiskObjects(tmp_path / "objects") as objects:
        async with open_catalog(migrated(tmp_path / "catalog.db"), migrate=True) as catalog:
            for address in ("videos/lost_found/1", "live/README/x", "slates/mine/a.jpg", "other/x"):
                await objects.put(address, b"x")
            assert await remove_orphans(objects, catalog.references, _now_us() + 9 * AGE_US) == 0


async def test_files_that_are_no_objects_stay_and_stop_no_cleanup(tmp_path: Path) -> None:
    with DiskObjects(tmp_path / "objects") as objects:
        async with open_catalog(migrated(tmp_path / "catalog.db"), migrate=True) as catalog:
            now_us = _now_us()
            project = await catalog.projects.add("films", Change(now_us))
            await catalog.videos.add(project.id, _arrived(KEPT), Change(now_us))
            for address in (f"sources/{KEPT}/2", f"sources/{GONE}/1", f"slates/s-{KEPT}/a.jpg"):
                await objects.put(address, b"x")
            foreign = [
                tmp_path / "objects" / folder / ".DS_Store"
                for folder in (f"sources/{KEPT}", f"slates/s-{KEPT}", "videos")
            ]
            for path in foreign:
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(b"x")
            later_us = now_us + 2 * AGE_US
            assert await remove_orphans(objects, catalog.references, later_us) == 3
            assert all(path.exists() for path in foreign)


async def test_objects_of_unclear_use_stay(tmp_path: Path) -> None:
    """Without the video's playlist, any folder may belong to it."""
    with DiskObjects(tmp_path / "objects") as objects:
        async with open_catalog(migrated(tmp_path / "catalog.db"), migrate=True) as catalog:
            random_catalog = await RandomCatalog.begun(
                catalog, objects, tmp_path / "catalog.db", random.Random(1)
            )
            hash_ = await random_catalog.video(state="completed", media="1-2")
            await objects.put(f"videos/{hash_}/1-s1-1-1/360p/0.m4s", b"x")
            await objects.delete(f"videos/{hash_}/1-2/audio/index.m3u8")
            later_us = _now_us() + 2 * AGE_US
            assert await remove_orphans(objects, catalog.references, later_us) == 0
            await objects.put(f"videos/{hash_}/1-2/audio/index.m3u8", b"#EXTM3U\n")
            assert await remove_orphans(objects, catalog.references, later_us) == 1


async def test_what_cannot_be_removed_keeps_nothing_else(tmp_path: Path) -> None:
    with UndeletableDisk(tmp_path / "objects", KEPT) as objects:
        async with open_catalog(migrated(tmp_path / "catalog.db"), migrate=True) as catalog:
            for room in ("sources", "videos", "live"):
                for hash_ in (KEPT, GONE):
                    await objects.put(f"{room}/{hash_}/x", b"x")
            with pytest.raises(StoreFailed):
                await remove_orphans(objects, catalog.references, _now_us() + 2 * AGE_US)
            assert await _all(objects) == {f"{room}/{KEPT}/x" for room in _ROOMS}


async def test_what_failed_imports_brought_goes(tmp_path: Path) -> None:
    """During an import, the row that names its file may be about to be written."""
    file = tmp_path / "catalog.db"
    with DiskObjects(tmp_path / "objects") as objects:
        async with open_catalog(migrated(file), migrate=True) as catalog:
            random_catalog = await RandomCatalog.begun(catalog, objects, file, random.Random(1))
            for state, open_ in (("uploading", True), ("uploading", False), ("failed", True)):
                hash_ = await random_catalog.video(state=state, media=None, open_=open_)
                random_catalog.change("UPDATE videos SET source = NULL WHERE hash = ?", hash_)
            hash_ = await random_catalog.video(state="failed", media=None)
            random_catalog.change("UPDATE videos SET source = NULL WHERE hash = ?", hash_)
            assert await remove_orphans(objects, catalog.references, _now_us()) == 0
            assert await remove_orphans(objects, catalog.references, _now_us() + 2 * AGE_US) == 1
            assert await objects.addresses(f"sources/{hash_}") == []


@pytest.mark.parametrize("open_", [False, True])
async def test_the_file_of_a_killed_replacement_of_a_recording_goes(
    tmp_path: Path, *, open_: bool
) -> None:
    """A recording has no file of its own; while its previews are made, nothing is judged."""
    file = tmp_path / "catalog.db"
    with DiskObjects(tmp_path / "objects") as objects:
        async with open_catalog(migrated(file), migrate=True) as catalog:
            random_catalog = await RandomCatalog.begun(catalog, objects, file, random.Random(1))
            hash_ = await random_catalog.video(state="completed", media="1-2", open_=open_)
            random_catalog.change("UPDATE videos SET source = NULL WHERE hash = ?", hash_)
            await objects.delete_tree(f"sources/{hash_}")
            await objects.put(f"sources/{hash_}/r-killed", b"x")
            assert await remove_orphans(objects, catalog.references, _now_us()) == 0
            removed = await remove_orphans(objects, catalog.references, _now_us() + 2 * AGE_US)
            assert removed == (0 if open_ else 1)


class RandomCatalog:
    """A catalog and objects, with the addresses that are to stay (`kept`) and to go (`gone`)."""

    def __init__(
        self, catalog: Catalog, objects: DiskObjects, file: Path, chance: random.Random
    ) -> None:
        self.kept: set[str] = set()
        self.gone: set[str] = set()
        self.project = 0
        self._catalog = catalog
        self._objects = objects
        self._file = file
        self._chance = chance

    @classmethod
    async def begun(
        cls, catalog: Catalog, objects: DiskObjects, file: Path, chance: random.Random
    ) -> "RandomCatalog":
        instance = cls(catalog, objects, file, chance)
        instance.project = (await catalog.projects.add("films", Change(_now_us()))).id
        return instance

    async def put(self, address: str, *, stays: bool, data: bytes = b"x") -> None:
        await self._objects.put(address, data)
        (self.kept if stays else self.gone).add(address)

    def change(self, statement: str, *values: object) -> None:
        with sqlite3.connect(self._file) as connection:
            connection.execute(statement, values)
        connection.close()

    async def video(
        self, *, state: str, media: str | None, spans: tuple[str, ...] = (), open_: bool = False
    ) -> str:
        """Add a video with its file and its renditions, in spans where it has some."""
        hash_ = new_hash()
        video = await self._catalog.videos.add(self.project, _arrived(hash_), Change(_now_us()))
        self.change(
            "UPDATE videos SET state = ?, media = ? WHERE id = ?", state, media, video.video.id
        )
        if open_:
            job = self._chance.choice(("queued", "running", "waiting"))
            self.change("UPDATE jobs SET state = ? WHERE video_id = ?", job, video.video.id)
        else:  # a job that is over has no row
            self.change("DELETE FROM jobs WHERE video_id = ?", video.video.id)
        await self.put(f"sources/{hash_}/1", stays=True)
        if media is not None:
            await self._playing(hash_, media, spans)
        return hash_

    async def _playing(self, hash_: str, media: str, spans: tuple[str, ...]) -> None:
        folder = f"videos/{hash_}"
        await self.put(f"{folder}/{media}/index.m3u8", stays=True)
        for name in _MADE:
            lines = [f"../../{span}/{name}/{at}.m4s" for at, span in enumerate(spans, 1)]
            text = "\n".join(["#EXTM3U", "#EXTINF:2,", "0.m4s", *lines]).encode()
            await self.put(f"{folder}/{media}/{name}/index.m3u8", stays=True, data=text)
            await self.put(f"{folder}/{media}/{name}/0.m4s", stays=True)
            for at, span in enumerate(spans, 1):
                await self.put(f"{folder}/{span}/{name}/{at}.m4s", stays=True)

    async def any_video(self) -> None:
        """Add a video in some state, with leftovers of attempts where no worker has it."""
        chance = self._chance
        open_ = chance.random() < 0.4
        media = chance.choice((None, "1-3", "1-1"))
        spans = tuple(f"1-s7-{n}-2" for n in range(1, chance.randint(1, 4))) if media else ()
        state = "transcoding" if open_ else "completed" if media else "failed"
        hash_ = await self.video(state=state, media=media, spans=spans, open_=open_)
        for name in (
            "1-2",
            "poster-1-2",
            "previews-1-2",
            "1-s7-1-1",
            "1-s3-9-1",
            f"own-{new_hash()}",
        ):
            if chance.random() < 0.5:
                await self.put(f"videos/{hash_}/{name}/360p/5.m4s", stays=open_)
        for name, column in (("poster-1-9", "posters"), ("previews-1-1", "previews")):
            if chance.random() < 0.5:
                await self.put(f"videos/{hash_}/{name}/360p.jpg", stays=True)
                self.change(f"UPDATE videos SET {column} = ? WHERE hash = ?", name, hash_)
        if media and chance.random() < 0.5:
            await self.put(f"videos/{hash_}/{media}/record/0.json", stays=True)

    async def any_stream(self) -> None:
        """Add a stream with a run, perhaps a picture, perhaps a recording; perhaps delete it."""
        chance = self._chance
        stream = await self._catalog.streams.add(self.project, "Morning", Change(_now_us()))
        hash_, deleted = stream.key.hash, chance.random() < 0.4
        recorded = chance.random() < 0.5
        await self.put(f"live/{hash_}/run/360p/0.m4s", stays=recorded or not deleted)
        await self.put(f"slates/s-{hash_}/{new_hash()}.jpg", stays=False)
        if chance.random() < 0.5:
            name = new_hash()
            await self._catalog.stream_settings.set_slate(stream.id, name, Change(_now_us()))
            await self.put(f"slates/s-{hash_}/{name}.jpg", stays=not deleted)
        if recorded:
            row = await self._catalog.recordings.begin(hash_, "run", 1, _now_us())
            assert row is not None
            await self.put(f"videos/{row.hash}/1-1/record/0.json", stays=True)
            await self.put(f"videos/{row.hash}/1-1/360p/0.m4s", stays=True)
        if deleted:
            self.change("DELETE FROM streams WHERE id = ?", stream.id)

    async def strangers(self) -> None:
        """Put objects that no row names, and objects that the cleanup must ignore."""
        for room in (
            "sources/{}/1",
            "sources/{}/1-2",
            "videos/{}/1-1/index.m3u8",
            "live/{}/p/1.jpg",
        ):
            await self.put(room.format(new_hash()), stays=False)
        await self.put(f"slates/p-{new_hash()}/{new_hash()}.jpg", stays=False)
        await self.put(
            "uploads/someones", stays=True
        )  # `storage.cleanup.expired_uploads` knows of these
        projects = await self._catalog.projects.find_page()
        for project in projects.items:
            name = new_hash()
            await self._catalog.project_settings.set_slate(project.id, name, Change(_now_us()))
            await self.put(f"slates/p-{project.key}/{name}.jpg", stays=True)


@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.prove) for seed in range(3, 12))]
)
async def test_what_is_named_stays_and_the_rest_goes(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    file = tmp_path / "catalog.db"
    with DiskObjects(tmp_path / "objects") as objects:
        async with open_catalog(migrated(file), migrate=True) as catalog:
            random_catalog = await RandomCatalog.begun(catalog, objects, file, chance)
            for _ in range(chance.randint(1, 8)):
                await chance.choice((random_catalog.any_video, random_catalog.any_stream))()
            await random_catalog.strangers()
            before = await _all(objects)
            assert before == random_catalog.kept | random_catalog.gone
            assert await remove_orphans(objects, catalog.references, _now_us()) == 0
            assert await _all(objects) == before
            later_us = _now_us() + AGE_US + 60_000_000
            assert await remove_orphans(objects, catalog.references, later_us) > 0
            assert await _all(objects) == random_catalog.kept
            assert await remove_orphans(objects, catalog.references, later_us) == 0


async def _all(objects: DiskObjects) -> set[str]:
    rooms = (*_ROOMS, "slates", "uploads")
    return {address for room in rooms for address in await objects.addresses(room)}


async def test_what_is_removed_can_be_put_back_for_some_days(tmp_path: Path) -> None:
    with DiskObjects(tmp_path / "objects") as objects:
        async with open_catalog(migrated(tmp_path / "catalog.db"), migrate=True) as catalog:
            await objects.put(f"sources/{GONE}/1", b"newer than the backup")
            await objects.put(f"live/{GONE}/poster/360p.jpg", b"picture")
            later_us = _now_us() + 2 * AGE_US
            assert await remove_orphans(objects, catalog.references, later_us) == 2
            assert await _all(objects) == set()
            [folder] = await find_trash(objects)
            assert await objects.get(f"{folder}/sources/{GONE}/1") == b"newer than the backup"
            assert await objects.addresses(folder) == [
                f"{folder}/live/{GONE}/poster/360p.jpg",
                f"{folder}/sources/{GONE}/1",
            ]


@pytest.mark.parametrize(
    ("known", "unknown", "stops"),
    [
        (0, 10, False),
        (0, 11, True),
        (99, 11, False),
        (98, 11, True),
        pytest.param(200, 23, True, marks=pytest.mark.prove),
    ],
)
async def test_a_catalog_that_names_too_few_of_the_media_stops_the_cleanup(
    tmp_path: Path, known: int, unknown: int, stops: bool
) -> None:
    with DiskObjects(tmp_path / "objects") as objects:
        async with open_catalog(migrated(tmp_path / "catalog.db"), migrate=True) as catalog:
            project = await catalog.projects.add("films", Change(1))
            for number in range(known):
                await catalog.videos.add(project.id, _arrived(f"K{number:011}"), Change(1))
            names = [f"K{n:011}" for n in range(known)] + [f"U{n:011}" for n in range(unknown)]
            for name in names:
                for folder in ("sources", "videos"):  # one video, though in two folders
                    await asyncio.to_thread(objects.path(f"{folder}/{name}").mkdir, parents=True)
            later_us = _now_us() + 2 * AGE_US
            if stops:
                with pytest.raises(TooManyUnknown, match=f"{unknown} of the {known + unknown} "):
                    await remove_orphans(objects, catalog.references, later_us)
                assert len(await objects.folder_names("videos")) == known + unknown
            confirmed = await remove_orphans(objects, catalog.references, later_us, confirmed=stops)
            assert confirmed == 2 * unknown
            assert len(await objects.folder_names("videos")) == known


async def test_ages_are_judged_by_the_stores_clock(tmp_path: Path) -> None:
    with DiskObjects(tmp_path / "objects") as objects:
        async with open_catalog(migrated(tmp_path / "catalog.db"), migrate=True) as catalog:
            await objects.put(f"sources/{GONE}/1", b"x")
            await catalog.videos.add(
                (await catalog.projects.add("films", Change(1))).id, _arrived(KEPT), Change(1)
            )
            await objects.put(f"sources/{KEPT}/2", b"x")
            ahead_us = _now_us() + 9 * AGE_US
            removed = await remove_orphans(
                objects, catalog.references, ahead_us, store_us=_now_us()
            )
            assert removed == 0
            assert await remove_orphans(objects, catalog.references, ahead_us) == 2
