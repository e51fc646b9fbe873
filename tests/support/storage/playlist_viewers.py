"""Viewers of a stream, which check that everything listed exists and never changes."""

from collections.abc import Mapping

import msgspec

from delivery.run.observers import RunObserver
from delivery.run.publication import Publication
from delivery.run.run_state import RunState, Step, StepSegment
from media.hls.m3u8 import parse
from media.hls.playlist import MediaPlaylist, MultivariantPlaylist
from media.ladder import AUDIO_RENDITION
from tests.support.manual_clock import ManualClock
from tests.support.storage.engine_reports import (
    HASH,
    LOW,
    TOP,
    WINDOW,
    PublicationFixture,
    check_named_addresses,
    on_disk,
)

RUNGS = (TOP.name, LOW.name)
NAMES = (*RUNGS, AUDIO_RENDITION)


class PlaylistViewers(RunObserver):
    """Read all playlists at the edge, and compare them with earlier versions."""

    def __init__(self, stage: PublicationFixture, clock: ManualClock) -> None:
        self.stage = stage
        self.clock = clock
        # By run, rendition and media sequence number: name, whether it is a gap, and its bytes.
        self.seen: dict[tuple[str, str, int], tuple[str, bool, int]] = {}
        self._last_seen: dict[str, float] = {}
        self._in_memory: set[tuple[str, str, int]] = set()
        self._lost: set[tuple[str, str, int]] = set()  # with the memory of an ended process
        # Of the newest stored step, and the run that it is announced by.
        self._gaps: frozenset[str] = frozenset()
        self._stored_run = ""

    def on_step_listed(self, step: Step, state: RunState, codecs: Mapping[str, str]) -> None:
        """Record the gaps of a playable step."""
        del codecs
        if step.playable and state.announced is not None:
            self._gaps = step.gaps
            self._stored_run = state.announced.variants[0].uri.partition("/")[0]

    def lose_memory(self) -> None:
        """Simulate the end of the process, which loses everything that is not stored.

        A number is reused only if the state of two steps could not be written before.
        """
        for key in self._in_memory:
            notes = self.notes(key[0])
            if notes is not None and key[2] < notes.opened:
                self._lost.add(key)
            else:
                del self.seen[key]
        self._in_memory = set()

    @property
    def saw_stored(self) -> bool:
        """Return whether the viewers saw anything that was stored."""
        return bool(self._last_seen)

    async def shown(self, run: str, name: str) -> MediaPlaylist | None:
        """Return a rendition's playlist at the edge."""
        text = self.stage.edge.local_playlist(f"live/{HASH}/{run}/{name}/index.m3u8")
        if text is None:
            return None
        playlist = parse(text.body.decode())
        assert isinstance(playlist, MediaPlaylist)
        return playlist

    async def check_playlists(self, publication: Publication) -> None:
        """Check all current playlists."""
        run = publication.run
        lists = {name: await self.shown(run, name) for name in NAMES}
        shapes: dict[int, tuple[str, bool, int]] = {}
        for name, playlist in lists.items():
            if playlist is not None:
                self._check_playlist(run, name, playlist)
                breaks = playlist.discontinuities
                for index, segment in enumerate(playlist.segments):
                    breaks += segment.discontinuity
                    shape = (segment.uri, segment.discontinuity, breaks)
                    assert shapes.setdefault(playlist.sequence + index, shape) == shape
        for address, seen_at in self._last_seen.items():
            if self.clock.now - seen_at < WINDOW.kept_seconds:
                assert self.stage.disk.path(address).is_file(), "deleted too early"
        await self._check_variants(publication)
        edge = {address for texts in self.stage.edge.published for address in texts}
        for path in self.stage.disk.root.glob("live/**/index.m3u8"):
            address = path.relative_to(self.stage.disk.root).as_posix()
            check_named_addresses(self.stage.disk, address, path.read_text(), edge)

    def _check_playlist(self, run: str, name: str, playlist: MediaPlaylist) -> None:
        """Check that numbers keep their segments, and neither go back nor are skipped.

        The exception are segments lost with the memory of an ended process, which are gaps now.
        """
        numbers = [int(segment.uri.removesuffix(".m4s")) for segment in playlist.segments]
        assert numbers == [playlist.sequence + index for index in range(len(numbers))]
        notes = self.notes(run)
        steps = notes.tail if notes is not None else ()
        sizes = {step.sequence: step.segments[name] for step in steps}
        for number, segment in zip(numbers, playlist.segments, strict=True):
            key = run, name, number
            address = f"live/{HASH}/{run}/{name}/{segment.uri}"
            digest = 0
            self._in_memory.discard(key)
            if not segment.gap:
                digest = hash(self._read(key, address, sizes.get(number)))
                assert self._exists(f"live/{HASH}/{run}/{name}/{segment.map_uri}")
            elif number not in sizes:
                self._in_memory.add(key)
            state = (segment.uri, segment.gap, digest)
            if key in self._lost and segment.gap:
                self._lost.discard(key)
                self.seen[key] = state
            assert self.seen.setdefault(key, state) == state

    def _read(self, key: tuple[str, str, int], address: str, noted: StepSegment | None) -> bytes:
        """Read a segment from disk, or from memory if it is not stored."""
        in_memory = self.stage.edge.local_part(address)
        if in_memory is not None:
            self._in_memory.add(key)
            return in_memory
        data = self.stage.disk.path(address).read_bytes()
        if noted is None or noted.gap:  # the state could not be written
            self._in_memory.add(key)
        else:
            assert len(data) == noted.size
            self._last_seen[address] = self.clock.now
        return data

    def _exists(self, address: str) -> bool:
        return (
            self.stage.edge.local_part(address) is not None
            or self.stage.disk.path(address).stat().st_size > 0
        )

    def notes(self, run: str) -> RunState | None:
        """Return the state that a restart would find."""
        path = self.stage.disk.path(f"live/{HASH}/{run}/state.json")
        if not path.exists():
            return None
        return msgspec.json.decode(path.read_bytes(), type=RunState)

    async def _check_variants(self, publication: Publication) -> None:
        text = self.stage.edge.local_playlist(f"live/{HASH}/index.m3u8")
        if not publication.is_playable:
            return
        assert text is not None
        playlist = parse(text.body.decode())
        assert isinstance(playlist, MultivariantPlaylist)
        names = {each.uri.split("/")[1] for each in playlist.variants}
        if self._stored_run == publication.run:
            assert names == set(RUNGS) - self._gaps
        else:
            assert names <= set(RUNGS), "announced from memory"

    async def check_recovered(self, publication: Publication) -> None:
        """Check that disk and edge agree once there is space again, without orphaned files."""
        run = publication.run
        await self.stage.same_everywhere(run)
        notes = self.notes(run)
        assert notes is not None
        sequences = set(range(notes.oldest, notes.next_sequence))
        folder = self.stage.disk.path(f"live/{HASH}/{run}")
        assert {int(path.stem) for path in folder.glob("*/*.m4s")} <= sequences
        assert publication.end == notes.tail[-1].end > 0
        assert notes.tail[-1].gaps == frozenset()

    async def check_ended(self, publication: Publication) -> None:
        """Check that all playlists have their end."""
        for name in NAMES:
            playlist = await self.shown(publication.run, name)
            assert playlist is not None
            assert playlist.ended
            assert on_disk(self.stage.disk, name, publication.run).ended
