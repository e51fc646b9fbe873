"""A recorded run: a real disk, a real catalog, and a running recorder."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Never

import msgspec

from delivery.recording.pages import TimeRange
from delivery.recording.recorder import Recorder
from delivery.recording.recording_store import RecordingStore
from delivery.run.publication import Publication
from media.hls.m3u8 import parse
from media.hls.playlist import MediaPlaylist, MultivariantPlaylist
from media.run_policy import DEFAULTS, RunRecording
from media.stream_events import StreamEvent
from storage.catalog import Catalog, open_catalog
from storage.catalog.records.common import Change
from storage.catalog.records.videos import VideoQuery, VideoRecord, WholeVideo
from storage.catalog.videos.recordings import MadeRecording, RecordingRow, Recordings
from storage.objects.disk import DiskObjects
from tests.support.manual_clock import ManualClock
from tests.support.sql import migrated, run_sql
from tests.support.storage.engine_reports import (
    HASH,
    NOON_US,
    TOP,
    CheckedEdge,
    FailingObjects,
    ReportMaker,
    append_all,
    begin_epoch,
    open_run,
)
from tests.support.waiting import until

DAY_US = 86_400_000_000


class FailingRecordings(Recordings):
    """Those of a catalog, which fail together with the disk."""

    def __init__(self, catalog: Catalog, objects: FailingObjects) -> None:
        vars(self).update(vars(catalog.recordings))
        self._objects = objects

    async def begin(
        self, stream: str, run: str, keep_days: int, now_us: int
    ) -> RecordingRow | None:
        self._objects.count()
        return await super().begin(stream, run, keep_days, now_us)

    async def finish(
        self,
        recording: RecordingRow,
        made: MadeRecording,
        now_us: int,
        name_of: Callable[[str], str],
    ) -> int | None:
        self._objects.count()
        return await super().finish(recording, made, now_us, name_of)

    async def remove(self, recording: int) -> bool:
        self._objects.count()
        return await super().remove(recording)


class RecorderFixture(msgspec.Struct):
    """A recorder and its stores; `free` is the free space that the recorder sees."""

    objects: FailingObjects
    catalog: Catalog
    edge: CheckedEdge
    clock: ManualClock
    recorder: Recorder
    events: list[StreamEvent]
    free: int = 1 << 40
    publications: list[Publication] = []

    @property
    def disk(self) -> DiskObjects:
        return self.objects.disk

    async def open(self, *, now_us: int = NOON_US, keep_days: int | None = 7) -> Publication:
        publication = await open_run(self.objects, self.edge, self.clock, now_us=now_us)
        return self.follow(publication, keep_days=keep_days)

    async def on_air(
        self,
        steps: int,
        *,
        maker: ReportMaker | None = None,
        now_us: int = NOON_US,
        keep_days: int | None = 7,
    ) -> tuple[Publication, ReportMaker]:
        """Open a recorded run, and show so many steps of 2 s of it."""
        publication = await self.open(now_us=now_us, keep_days=keep_days)
        maker = maker or ReportMaker(TOP)
        await begin_epoch(publication, maker)
        await self.show(publication, maker, steps)
        return publication, maker

    async def show(self, publication: Publication, maker: ReportMaker, steps: int) -> None:
        """Show so many steps more."""
        for _ in range(steps):
            await append_all(publication, maker.step())
            self.clock.now += 2.0

    def follow(self, publication: Publication, *, keep_days: int | None = None) -> Publication:
        """Record a run; without `keep_days` only if its recording has begun."""
        recording = RunRecording[Never](enabled=keep_days is not None, keep_days=keep_days or 1)
        policy = msgspec.structs.replace(DEFAULTS, recording=recording)
        publication.add_observer(self.recorder.observe, policy)
        self.publications.append(publication)
        return publication

    async def release(self) -> None:
        """Wait until what is listed of all runs is linked, as their process does when it ends."""
        for publication in self.publications:
            await publication.release_observers()

    async def caught_up(self, publication: Publication) -> None:
        """Wait until the newest listed step is linked."""
        newest = publication.next_sequence - 1

        async def linked() -> bool:
            rows = await self.catalog.recordings.find_all()
            return any(
                self.disk.path(f"videos/{row.hash}/1-1/audio/{newest}.m4s").is_file()
                for row in rows
            )

        await until(linked)

    async def all_over(self) -> list[VideoRecord]:
        """Wait until nothing is being recorded, and return the videos, oldest first."""

        async def over() -> bool:
            return await self.catalog.recordings.find_all() == ()

        await until(over)
        return await self.videos()

    async def is_bare(self) -> bool:
        """Return whether nothing is stored of any recording."""
        return await self.disk.addresses("videos") == []

    async def videos(self) -> list[VideoRecord]:
        project = await self.catalog.projects.find("1")
        assert project is not None
        page = await self.catalog.videos.find_page(project, VideoQuery(), 1)
        return list(reversed(page.items))

    async def whole(self, video: VideoRecord) -> WholeVideo:
        record = await self.catalog.videos.find(video.id)
        assert record is not None
        return record

    def folder(self, video: VideoRecord) -> Path:
        return self.disk.path(f"videos/{video.hash}/{video.media}")

    def variants(self, video: VideoRecord) -> MultivariantPlaylist:
        playlist = parse((self.folder(video) / "index.m3u8").read_text())
        assert isinstance(playlist, MultivariantPlaylist)
        return playlist

    def playlist(self, video: VideoRecord, name: str) -> MediaPlaylist:
        parsed = parse((self.folder(video) / name / "index.m3u8").read_text())
        assert isinstance(parsed, MediaPlaylist)
        assert parsed.ended
        assert parsed.whole
        return parsed

    async def check(self, video: VideoRecord, *, exact: bool = True) -> None:
        """Check that all listed objects exist, and that the sizes in the catalog are right.

        With `exact`, nothing else may exist.
        """
        folder = self.folder(video)
        variants = self.variants(video)
        uris = [*(one.uri for one in variants.sounds), *(one.uri for one in variants.variants)]
        shapes: set[tuple[object, ...]] = set()
        named = {folder / "index.m3u8"}
        bytes_of: dict[str, int] = {}
        # A rung that is too incomplete for a variant has its media and its playlist, for clips.
        names = {path.parent.name for path in folder.glob("*/index.m3u8")}
        assert {f"1-1/{name}/index.m3u8" for name in names} >= set(uris)
        for name in names:
            playlist = self.playlist(video, name)
            there = [one for one in playlist.segments if not one.gap]
            media = {folder / name / uri for one in there for uri in (one.uri, str(one.map_uri))}
            bytes_of[name] = sum(path.stat().st_size for path in media)
            named |= {folder / name / "index.m3u8", *media}
            shapes.add(tuple((one.uri, one.discontinuity) for one in playlist.segments))
        assert len(shapes) == 1
        whole = await self.whole(video)
        sizes = {rung.height: rung.size for rung in whole.rungs}
        for variant in variants.variants:
            if variant.height:
                assert sizes[variant.height] == bytes_of[variant.uri.split("/")[1]]
        assert video.storage_size == video.size == sum(path.stat().st_size for path in named)
        there = await self.disk.addresses(f"videos/{video.hash}/{video.media}")
        pages = {each for each in there if each.split("/")[3] == "record"}
        files = {self.disk.path(address) for address in there}
        assert named <= files
        assert named | {self.disk.path(address) for address in pages} == files or not exact
        # The pages have each step of the playlists, as clips need them.
        store = await RecordingStore.load(self.disk, video.hash)
        steps = await store.pages.find(TimeRange(0, NOON_US + DAY_US))
        assert {(f"{step.sequence}.m4s", step.discontinuity) for step in steps} == set(*shapes)
        assert pages or not shapes

    def events_of(self, kind: str) -> list[dict[str, object]]:
        """Return the facts of the events of a kind."""
        return [each.facts for each in self.events if each.kind == kind]


@asynccontextmanager
async def run_recorder(
    folder: Path,
    *,
    writes: int | None = None,
    min_free_bytes: int = 1 << 20,
    objects: Path | None = None,
    now_us: int = NOON_US,
) -> AsyncGenerator[RecorderFixture]:
    """Record for the length of the block; the disk and the catalog fail after `writes`.

    `objects` is the folder of the media, by default next to the catalog; `now_us` is the
    recorder's clock.
    """
    location = folder / "catalog.db"
    async with open_catalog(migrated(location), migrate=True) as catalog:
        if await catalog.projects.find("1") is None:
            project = await catalog.projects.add("programmes", Change(NOON_US))
            await catalog.streams.add(project.id, "Morning", Change(NOON_US))
            await asyncio.to_thread(run_sql, location, f"UPDATE streams SET hash = '{HASH}'")
        with DiskObjects(objects or folder / "objects") as disk:
            frail = FailingObjects(disk, writes=writes)
            recorded: list[StreamEvent] = []

            async def record_event(_stream: str, event: StreamEvent) -> None:
                recorded.append(event)

            def find_lack() -> str | None:
                lacks = fixture.free < min_free_bytes
                return f"free space is {fixture.free} bytes" if lacks else None

            recorder = Recorder(
                objects=frail,
                catalog=FailingRecordings(catalog, frail),
                find_lack=find_lack,
                now_us=lambda: now_us,
                name_of=lambda title: title.lower().replace(" ", "-"),
                write_event=record_event,
            )
            fixture = RecorderFixture(
                objects=frail,
                catalog=catalog,
                edge=CheckedEdge(disk),
                clock=ManualClock(),
                recorder=recorder,
                events=recorded,
            )
            async with asyncio.TaskGroup() as tasks:
                running = tasks.create_task(recorder.run())
                try:
                    yield fixture
                finally:
                    running.cancel()
