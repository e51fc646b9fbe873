"""Reports of an engine without an engine, and object stores that check or fail."""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path

import msgspec

from delivery.edge.memory import MemoryEdge
from delivery.playlists.hls import TimelineTexts
from delivery.run.publication import Publication
from delivery.run.run_objects import SOLE_OWNER, RunOwner
from delivery.run.run_state import LiveWindow
from media.hls.m3u8 import parse
from media.hls.playlist import MediaPlaylist, MultivariantPlaylist
from media.hls.segment import GapStart, InitSection, Part, Segment, SegmentStart
from media.hls.timeline import Timeline
from media.ladder import AUDIO_RENDITION, Rendition
from media.run_policy import ResolvedPolicy
from storage.objects.base import ObjectError, Objects, ObjectStat, StoreFull
from storage.objects.disk import DiskObjects
from storage.objects.reserve import RESERVE_BYTES
from tests.support.manual_clock import ManualClock

HASH = "abcdefABCDEF"
NOON_US = 1_769_860_800_123_000  # 2026-01-31T12:00:00.123Z
RUN = "20260131T120000123"
ORIGIN = 900_000
TWO = 180_000
WINDOW = LiveWindow(listed_seconds=12.0, kept_seconds=16.0)

TOP = Rendition(name="720p", width=1280, height=720, rate=2_800_000, source_size=True)
LOW = Rendition(name="360p", width=640, height=360, rate=800_000)
CODECS = {"720p": "avc1.64001F", "360p": "avc1.64001E", AUDIO_RENDITION: "mp4a.40.2"}

Report = InitSection | SegmentStart | GapStart | Part | Segment


class ReportMaker:
    """Creates the reports of one run in order; `salt` distinguishes the bytes of two engines."""

    def __init__(self, *renditions: Rendition, salt: str = "") -> None:
        self.renditions = renditions
        self.names = (*(rung.name for rung in renditions), AUDIO_RENDITION)
        self.salt = salt
        self.inits = dict.fromkeys(self.names, 0)
        self.sequence = 0
        self.start = ORIGIN
        self.epoch = 0

    @classmethod
    def continuing(cls, publication: Publication, *, salt: str) -> "ReportMaker":
        """Continue a run as a new engine would."""
        maker = cls(*publication.renditions, salt=salt)
        maker.inits = {name: publication.next_inits.get(name, 0) for name in maker.names}
        maker.sequence = publication.next_sequence
        maker.start = max(ORIGIN, publication.end)
        maker.epoch = publication.epochs
        return maker

    def begin(self, *names: str) -> Iterator[InitSection]:
        """Yield the next init section of every rendition, or of the given ones."""
        for name in names or self.names:
            number = self.inits[name]
            self.inits[name] += 1
            data = f"init {name} {number} {self.salt}".encode()
            yield InitSection(rendition=name, number=number, codecs=CODECS[name], data=data)

    def step(
        self,
        duration: int = TWO,
        *,
        size: int | Mapping[str, int] = 1000,
        frames: int = 60,
        discontinuity: bool = False,
        gaps: Collection[str] = (),
        shed: Collection[str] = (),
        part: int | None = None,
    ) -> list[Report]:
        """Return the reports of the next step, rendition by rendition.

        All parts but the last are `part` ticks long; if that is None there are two. `shed` are gaps
        that the engine announces.
        """
        reports: list[Report] = []
        lengths = _lengths(duration, part)
        for name in self.names:
            gap = name in gaps or name in shed
            if name in shed:
                reports.append(GapStart(rendition=name, sequence=self.sequence))
            share = (size if isinstance(size, int) else size[name]) // len(lengths)
            parts = [
                Part(
                    rendition=name,
                    sequence=self.sequence,
                    index=index,
                    duration=length,
                    independent=index == 0,
                    data=f"{name} {self.sequence}.{index} {self.salt}".encode().ljust(share),
                )
                for index, length in enumerate(() if gap else lengths)
            ]
            if not gap:
                reports.append(
                    SegmentStart(
                        rendition=name,
                        sequence=self.sequence,
                        epoch=self.epoch,
                        start=self.start,
                        init=max(0, self.inits[name] - 1),
                        discontinuity=discontinuity,
                    )
                )
            reports += parts
            reports.append(
                Segment(
                    rendition=name,
                    sequence=self.sequence,
                    epoch=self.epoch,
                    start=self.start,
                    duration=duration,
                    size=sum(len(part.data) for part in parts),
                    frames=0 if gap else frames,
                    parts=len(parts),
                    init=max(0, self.inits[name] - 1),
                    discontinuity=discontinuity,
                    gap=gap,
                )
            )
        self.sequence += 1
        self.start += duration
        return reports


def _lengths(duration: int, part: int | None) -> list[int]:
    if part is None:
        return [duration // 2] * 2
    whole, rest = divmod(duration, part)
    return [part] * whole + [rest] * bool(rest)


async def append_all(publication: Publication, reports: Iterable[Report]) -> None:
    """Append reports, and store each of them."""
    assert await append_until_full(publication, reports) == 0


async def append_until_full(publication: Publication, reports: Iterable[Report]) -> int:
    """Append reports and store each, like a run; return how often storing failed."""
    failures = 0
    for report in reports:
        await publication.append(report)
        failures += await publication.store_pending()
    return failures


async def begin_epoch(
    publication: Publication,
    maker: ReportMaker,
    wall_us: int = NOON_US,
    *,
    reused: str | None = None,
) -> None:
    await publication.prepare(maker.epoch, maker.renditions, wall_us, reused=reused)
    await append_all(publication, maker.begin())


class Killed(Exception):
    """Simulates the end of the process; no code under test catches it."""


class FailingObjects:
    """A real disk that fails for good after `writes` writes, or refuses some addresses."""

    def __init__(self, disk: DiskObjects, *, writes: int | None = None) -> None:
        self.disk = disk
        self.writes_left = writes
        self.writes = 0
        self.full: set[str] = set()
        self.location = disk.location

    def count(self) -> None:
        """Count a write, and raise `Killed` after the last allowed one."""
        self.writes += 1
        if self.writes_left is not None:
            if self.writes_left == 0:
                raise Killed
            self.writes_left -= 1

    async def put(self, address: str, data: bytes, *, vital: bool = False) -> None:
        self.count()
        if address.endswith(".m3u8"):
            check_named_addresses(self.disk, address, data.decode())
        if any(address.endswith(end) for end in self.full):
            raise StoreFull(address, "No space left on device")
        await self.disk.put(address, data, vital=vital)

    async def put_all(self, objects: Mapping[str, bytes], *, vital: bool = False) -> None:
        """Put objects one by one, since the process may be killed in between."""
        failure: ObjectError | None = None
        for address, data in objects.items():
            try:
                await self.put(address, data, vital=vital)
            except ObjectError as error:
                failure = error
        if failure is not None:
            raise failure

    async def version(self, address: str) -> str | None:
        return await self.disk.version(address)

    async def put_if(
        self, address: str, data: bytes, version: str | None, *, vital: bool = False
    ) -> str:
        self.count()
        if any(address.endswith(end) for end in self.full):
            raise StoreFull(address, "No space left on device")
        return await self.disk.put_if(address, data, version, vital=vital)

    async def link(self, source: str, target: str) -> None:
        self.count()
        if any(target.endswith(end) for end in self.full):
            raise StoreFull(target, "No space left on device")
        await self.disk.link(source, target)

    async def delete(self, address: str) -> None:
        self.count()
        await self.disk.delete(address)

    async def delete_all(self, addresses: Collection[str]) -> None:
        for address in addresses:
            await self.delete(address)

    async def delete_tree(self, prefix: str) -> None:
        self.count()
        await self.disk.delete_tree(prefix)

    async def move(self, source: str, target: str) -> None:
        self.count()
        await self.disk.move(source, target)

    async def make_durable(self, address: str) -> None:
        await self.disk.make_durable(address)

    async def get(self, address: str) -> bytes:
        return await self.disk.get(address)

    async def get_all(self, addresses: Collection[str]) -> list[bytes | None]:
        return await self.disk.get_all(addresses)

    async def stat(self, address: str) -> ObjectStat | None:
        return await self.disk.stat(address)

    async def folder_names(self, prefix: str) -> set[str]:
        return await self.disk.folder_names(prefix)

    async def addresses(self, prefix: str) -> list[str]:
        return await self.disk.addresses(prefix)

    async def sizes(self, prefix: str) -> dict[str, int]:
        return await self.disk.sizes(prefix)

    async def has_changed(self, prefix: str, since_us: int) -> bool:
        return await self.disk.has_changed(prefix, since_us)


class CheckedEdge(MemoryEdge):
    """An edge that records its calls, and checks that all objects in its playlists exist."""

    def __init__(self, disk: DiskObjects) -> None:
        super().__init__()
        self._disk = disk
        self.published: list[dict[str, str]] = []
        self._addresses: set[str] = set()  # of all that was published
        self._low_latency: set[str] = set()  # of playlists that list parts

    async def put_playlists(self, playlists: Mapping[str, str]) -> None:
        self._check(playlists)
        await super().put_playlists(playlists)

    async def put_timelines(
        self,
        folder: str,
        timelines: Mapping[str, Timeline],
        *,
        low_latency: bool,
        generation: int = 0,
    ) -> None:
        await super().put_timelines(
            folder, timelines, low_latency=low_latency, generation=generation
        )
        texts: dict[str, str] = {}
        for name, timeline in timelines.items():
            address = f"{folder}/{name}/index.m3u8"
            if low_latency and timeline.parts:
                self._low_latency.add(address)
            if timeline.count:
                texts[address] = TimelineTexts().render(timeline, low_latency=False)
            for part in timeline.parts:
                assert self.local_part(f"{folder}/{name}/{part.uri}") is not None
        self._check(texts)

    def _check(self, texts: Mapping[str, str]) -> None:
        self._addresses.update(texts)
        available = set(self._addresses)
        for address, text in texts.items():
            available |= {each for each in named_addresses(address, text) if self.local_part(each)}
        for address, text in texts.items():
            low = set[str]() if "?" in address else self._low_latency
            check_named_addresses(self._disk, address, text, available | low)
        self.published.append(dict(texts))


@lru_cache(maxsize=64)
def named_addresses(address: str, text: str) -> tuple[str, ...]:
    """Return the addresses in a playlist at `address`.

    Cached, as each new part checks all playlists, most of which did not change.
    """
    return tuple(_named_addresses(address, text))


def _named_addresses(address: str, text: str) -> Iterator[str]:
    folder = address.rpartition("/")[0]
    playlist = parse(text)
    if isinstance(playlist, MultivariantPlaylist):
        if address.startswith("videos/"):  # relative to its public path, not to its address
            folder = folder.rpartition("/")[0]
        for uri in [
            *(each.uri for each in playlist.sounds),
            *(each.uri for each in playlist.variants),
        ]:
            yield f"{folder}/{uri.partition('?')[0]}"
    else:
        for segment in playlist.segments:
            if segment.gap:
                continue
            yield f"{folder}/{segment.uri}"
            yield f"{folder}/{segment.map_uri}"


def check_named_addresses(
    disk: DiskObjects, address: str, text: str, elsewhere: Collection[str] = ()
) -> None:
    named = [name for name in named_addresses(address, text) if name not in elsewhere]
    folders = {name.rpartition("/")[0] for name in named}
    existing = {f"{folder}/{file}" for folder in folders for file in _files(disk.path(folder))}
    missing = [name for name in named if name not in existing]
    assert missing == [], f"{address} names what is not there"


def _files(folder: Path) -> list[str]:
    """Return the names of a folder's files: faster than checking many of them."""
    if not folder.is_dir():
        return []
    with os.scandir(folder) as entries:
        return [each.name for each in entries if each.is_file()]


def on_disk(disk: DiskObjects, name: str, run: str = RUN) -> MediaPlaylist:
    """Parse a rendition's playlist on disk."""
    playlist = parse(disk.path(f"live/{HASH}/{run}/{name}/index.m3u8").read_text())
    assert isinstance(playlist, MediaPlaylist)
    return playlist


def variants(disk: DiskObjects) -> MultivariantPlaylist:
    playlist = parse(disk.path(f"live/{HASH}/index.m3u8").read_text())
    assert isinstance(playlist, MultivariantPlaylist)
    return playlist


async def open_run(
    objects: Objects,
    edge: MemoryEdge,
    clock: ManualClock,
    *,
    now_us: int = NOON_US,
    window: LiveWindow = WINDOW,
    owner: RunOwner = SOLE_OWNER,
    policy: ResolvedPolicy | None = None,
) -> Publication:
    return await Publication.open(
        objects,
        edge,
        hash=HASH,
        now_us=now_us,
        window=window,
        clock=clock,
        owner=owner,
        policy=policy,
    )


async def resume_run(
    objects: Objects,
    edge: MemoryEdge,
    clock: ManualClock,
    *,
    now_us: int = NOON_US,
    within_seconds: float = 60.0,
    window: LiveWindow = WINDOW,
    owner: RunOwner = SOLE_OWNER,
    policy: ResolvedPolicy | None = None,
) -> Publication | None:
    return await Publication.resume(
        objects,
        edge,
        hash=HASH,
        now_us=now_us,
        window=window,
        within_seconds=within_seconds,
        clock=clock,
        owner=owner,
        policy=policy,
    )


class PublicationFixture:
    """A run on a real disk, with a checked edge and a fake clock."""

    def __init__(self, folder: Path, *, reserve_bytes: int = RESERVE_BYTES) -> None:
        self.disk = DiskObjects(folder, reserve_bytes=reserve_bytes)
        self.objects = FailingObjects(self.disk)
        self.edge = CheckedEdge(self.disk)
        self.clock = ManualClock()

    async def open(self, now_us: int = NOON_US) -> Publication:
        return await open_run(self.objects, self.edge, self.clock, now_us=now_us)

    async def begin(self, *rungs: Rendition) -> tuple[Publication, ReportMaker]:
        """Open the run and begin an epoch of these rungs."""
        publication, maker = await self.open(), ReportMaker(*rungs)
        await begin_epoch(publication, maker)
        return publication, maker

    def gaps(self, name: str, run: str = RUN) -> list[int]:
        """Return the sequence numbers of the gaps in a rendition's playlist."""
        segments = on_disk(self.disk, name, run).segments
        return [int(segment.uri.removesuffix(".m4s")) for segment in segments if segment.gap]

    def uris(self, name: str, run: str = RUN) -> list[str]:
        return [segment.uri for segment in on_disk(self.disk, name, run).segments]

    async def same_everywhere(self, run: str = RUN) -> None:
        """Check that edge and disk have the same playlists, with the same numbers.

        A gap on disk may still be in memory.
        """
        shapes: set[tuple[object, ...]] = set()
        for name in (TOP.name, LOW.name, AUDIO_RENDITION):
            playlist = on_disk(self.disk, name, run)
            text = self.edge.local_playlist(f"live/{HASH}/{run}/{name}/index.m3u8")
            assert text is not None
            folder = f"live/{HASH}/{run}/{name}"
            at_edge = parse(text.body.decode())
            assert isinstance(at_edge, MediaPlaylist)
            assert [
                msgspec.structs.replace(each, gap=True, map_uri=None)
                if self.edge.local_part(f"{folder}/{each.uri}")
                else each
                for each in at_edge.segments
            ] == list(playlist.segments)
            breaks = tuple(segment.discontinuity for segment in playlist.segments)
            uris = tuple(segment.uri for segment in playlist.segments)
            shapes.add((playlist.sequence, playlist.discontinuities, uris, breaks))
        assert len(shapes) == 1
