"""The publication of a run: stores what an engine produces and lists it once it is complete.

The order of writes keeps what viewers see consistent. A segment is stored as soon as it is
complete. Once every rendition has its segment of a sequence number (a step), the saved state of the
run is replaced, then the media playlists on disk, then those at the edge, all at once, and last the
multivariant playlist if it changed. So a playlist never names what cannot be read, all playlists
show the same numbers, and a process that is killed at any point can resume the run: the state lists
at least what viewers have seen.

`append` raises disk errors as `ObjectError` and leaves the publication consistent: the caller may
go on with the next report. A segment that could not be stored is a gap of its rendition, like one
that the engine did not produce. A step without any video rung, or whose state could not be written,
is not listed, and the next one begins with a discontinuity. Old segments are deleted even then, so
that a full disk gets room again.
"""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol, assert_never

import msgspec

from media.hls.m3u8 import render
from media.hls.playlist import MediaPlaylist
from media.hls.segment import InitSection, Part, Segment, SegmentStart
from media.ladder import AUDIO_PEAK_RATE, AUDIO_RENDITION, Rendition
from media.ticks import MICROSECONDS
from storage.edge.base import Edge
from storage.errors import StorageError
from storage.live.expiry import Expiry
from storage.live.run_state import (
    LiveWindow,
    RunState,
    Step,
    count_surplus,
    media_playlists,
    next_init_numbers,
    rendition_names,
)
from storage.live.run_store import (
    StoredRun,
    delete_older_runs,
    is_complete,
    newest_run,
    next_run_name,
)
from storage.live.step_builder import PublicationError, StepBuilder
from storage.live.variants import build_multivariant
from storage.objects.addresses import (
    live_init,
    live_part,
    live_playlist,
    live_run,
    live_segment,
    live_state,
    live_variants,
)
from storage.objects.base import Objects

__all__ = ["LiveWindow", "Publication", "PublicationError", "PublicationObserver"]

log = logging.getLogger(__name__)

# Parts of so many newest segments stay at the edge; with 2 s segments this is 16 s, more than the
# three target durations for which low-latency playlists list them.
_EDGE_STEPS: Final = 8


class PublicationObserver(Protocol):
    """Observes the steps of a run. No call may wait or fail: viewers of the run come first."""

    def on_step_listed(self, step: Step, state: RunState, codecs: Mapping[str, str]) -> None:
        """Handle a listed step; `state` lists it, `codecs` holds the known codecs by rendition."""
        ...

    def on_ended(self) -> None:
        """Handle the end of the run for its viewers."""
        ...


class Publication:
    """One run of a live stream. One task at a time may call it."""

    def __init__(
        self,
        objects: Objects,
        edge: Edge,
        run: StoredRun,
        *,
        window: LiveWindow,
        now_us: int,
        clock: Callable[[], float],
    ) -> None:
        """Continue a stored or new run; callers use `open` or `resume`."""
        self.hash = run.hash
        self.run = run.run
        self._objects = objects
        self._edge = edge
        self._window = window
        self._clock = clock
        self._clock_began_us = now_us - round(clock() * MICROSECONDS)
        self._state = run.state
        self._playlists: dict[str, MediaPlaylist] = media_playlists(run.state)
        self._steps = StepBuilder(run.state.next_sequence, next_init_numbers(run.state))
        if run.state.listed:
            self._steps.mark_listed(run.state.listed[-1])
        self._unstored: dict[str, InitSection] = {}  # by rendition
        self._variants_due = False  # the multivariant playlist must be written
        self._peak_rates: dict[str, int] = {}  # of the renditions whose encoders bound them
        self._at_edge: list[Step] = []
        self._expiry = Expiry(run.state, kept_seconds=window.kept_seconds, now=clock())
        self._observer: PublicationObserver | None = None

    # -- opening ----------------------------------------------------------------------------------

    @classmethod
    async def open(
        cls,
        objects: Objects,
        edge: Edge,
        *,
        hash: str,  # noqa: A002  # the field's word for it
        now_us: int,
        window: LiveWindow,
        clock: Callable[[], float] = time.monotonic,
    ) -> "Publication":
        """Begin a run of the stream, and end the previous one if it has not ended.

        `now_us` is the wall clock, `clock` a monotonic one in seconds. Runs older than the previous
        one, and runs that never listed anything, are deleted.
        """
        previous = await newest_run(objects, hash)
        if previous is not None and not previous.state.ended:
            if await is_complete(objects, previous):
                old = cls(objects, edge, previous, window=window, now_us=now_us, clock=clock)
                await old.finish()
            else:  # a power cut: better no playlist than one that names unreadable files
                await objects.delete(live_variants(hash))
        last = previous.run if previous is not None else None
        for run in await delete_older_runs(objects, hash, last):
            await edge.drop_folder(live_run(hash, run))
        new = StoredRun(hash=hash, run=next_run_name(now_us, last), state=RunState())
        return cls(objects, edge, new, window=window, now_us=now_us, clock=clock)

    @classmethod
    async def resume(
        cls,
        objects: Objects,
        edge: Edge,
        *,
        hash: str,  # noqa: A002  # the field's word for it
        now_us: int,
        window: LiveWindow,
        within_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> "Publication | None":
        """Resume the stream's newest run, or return None if it cannot be resumed.

        A run can be resumed if it has not ended, its last step is at most `within_seconds` old, and
        everything that it lists is complete on disk.
        """
        found = await newest_run(objects, hash)
        if found is None or found.state.ended:
            return None
        if now_us - found.state.written_us > within_seconds * MICROSECONDS:
            return None
        if not await is_complete(objects, found):
            log.warning("run not whole: another begins", extra={"stream": hash, "run": found.run})
            return None
        publication = cls(objects, edge, found, window=window, now_us=now_us, clock=clock)
        # The saved state may be one step ahead of the playlists.
        publication._variants_due = True
        try:
            await publication._write_playlists()
        except StorageError as error:  # they are at the edge; the next step writes them to disk
            publication._warn("playlists not stored", error)
        return publication

    def add_observer(self, observer: PublicationObserver) -> None:
        """Report each new step to an observer, after the steps that are on disk already."""
        for step in (*self._state.unlisted, *self._state.listed):
            observer.on_step_listed(step, self._state, {})
        self._observer = observer

    # -- properties -------------------------------------------------------------------------------

    @property
    def renditions(self) -> tuple[Rendition, ...]:
        """The video rungs of the run, as last prepared."""
        return self._state.renditions

    @property
    def next_sequence(self) -> int:
        """The sequence number of the next step."""
        return self._steps.following

    @property
    def next_inits(self) -> dict[str, int]:
        """The number of each rendition's next init section; 0 if absent."""
        return dict(self._steps.next_inits)

    @property
    def end(self) -> int:
        """The end of the listed media on the output clock, in ticks of 90 000 a second.

        It is 0 until the first step is listed.
        """
        return self._state.end

    @property
    def epochs(self) -> int:
        """How many sources the run has had, which is the number of the next one."""
        return self._state.epochs

    # -- reports of the engine --------------------------------------------------------------------

    async def prepare(
        self,
        epoch: int,
        renditions: tuple[Rendition, ...],
        wall_us: int,
        *,
        reused: str | None = None,
    ) -> None:
        """Announce a source and its video rungs; the audio rendition is implied.

        `wall_us` is the wall clock of its first frame; it anchors the times in the playlists.
        `reused` is the rung that consists of the source's own packets, whose rate has no bound.

        Raises:
            PublicationError: the names differ from those of the run, whose playlists are in use.
        """
        if self._state.listed and rendition_names(renditions) != rendition_names(
            self._state.renditions
        ):
            raise PublicationError("a run keeps its renditions")
        self._steps.prepare(epoch, renditions, wall_us)
        self._state = msgspec.structs.replace(
            self._state, renditions=renditions, epochs=max(self._state.epochs, epoch + 1)
        )
        self._playlists = media_playlists(self._state)
        encoded = {rung.name: rung.peak_rate for rung in renditions if rung.name != reused}
        self._peak_rates = {**encoded, AUDIO_RENDITION: AUDIO_PEAK_RATE}

    async def append(self, report: InitSection | SegmentStart | Part | Segment) -> None:
        """Store a report of the engine, and list the step that it completes.

        Raises:
            PublicationError: the report does not fit the previous ones.
            ObjectError: something could not be stored; the report still counts as handled.
        """
        match report:
            case InitSection():
                await self._append_init(report)
            case SegmentStart():  # its report has all of it again
                pass
            case Part():
                self._steps.add_part(report)
                address = live_part(
                    self.hash, self.run, report.rendition, report.sequence, report.index
                )
                await self._edge.put_part(address, report.data)
            case Segment():
                await self._append_segment(report)
            case _:
                assert_never(report)

    async def drop_partial(self) -> None:
        """Drop the incomplete steps, whose engine is gone."""
        self._steps.drop_open()

    async def finish(self) -> None:
        """End the run: write ENDLIST into its media playlists and keep the multivariant one.

        If the disk refuses that, the edge has the end, and the next start ends the run on disk.
        """
        self._steps.drop_open()
        try:
            if not self._state.listed:
                await self._objects.delete_tree(live_run(self.hash, self.run))
                return
            self._state = msgspec.structs.replace(self._state, ended=True)
            self._playlists = {name: one.end() for name, one in self._playlists.items()}
            try:
                await self._write_state(self._state)
            finally:
                await self._write_playlists()
        except StorageError as error:
            self._warn("end of the run not stored", error)
        finally:
            if self._observer is not None:
                self._observer.on_ended()

    async def _append_init(self, init: InitSection) -> None:
        self._steps.add_init(init)
        # All segments that need an older one have arrived.
        self._unstored[init.rendition] = init
        await self._store_init(init.rendition)

    async def _append_segment(self, segment: Segment) -> None:
        name, sequence = segment.rendition, segment.sequence
        data = self._steps.add_segment(segment)
        if not self._playlists[name].fits(segment.duration):
            log.warning("segment too long", extra=self._facts(sequence))
        failure: StorageError | None = None
        if not segment.gap:
            try:
                await self._store_init(name)
                await self._objects.put(live_segment(self.hash, self.run, name, sequence), data)
            except StorageError as error:
                self._steps.mark_gap(name, sequence)
                failure = error
        try:
            await self._complete_step(sequence)
        except StorageError as error:
            failure = error
        await self._trim(self._clock())
        if failure is not None:
            raise failure

    async def _store_init(self, rendition: str) -> None:
        """Store a rendition's new init section; each segment tries again after a failure."""
        if rendition in self._unstored:
            init = self._unstored[rendition]
            address = live_init(self.hash, self.run, rendition, init.number)
            await self._objects.put(address, init.data)
            del self._unstored[rendition]

    # -- listing ----------------------------------------------------------------------------------

    async def _complete_step(self, sequence: int) -> None:
        """List a step once every rendition has reached it, or skip it if it cannot be played."""
        step = self._steps.complete(sequence)
        if step is None:
            return
        self._at_edge.append(step)
        if not step.playable:
            await self._skip(step)
            return
        if not self._state.listed:
            step = msgspec.structs.replace(step, discontinuity=False)  # nothing precedes it
        drop = count_surplus(self._state.listed, step, self._window.listed_seconds)
        playlists = {
            name: playlist.append(step.playlist_entry(name), drop=drop)
            for name, playlist in self._playlists.items()
        }
        state = self._state.with_step(step, playlists[AUDIO_RENDITION])
        codecs = self._steps.codecs(step)
        announced = build_multivariant(
            self.run,
            state.renditions,
            state.measures,
            codecs,
            state.announced,
            step.gaps,
            self._peak_rates,
        )
        self._variants_due |= announced is not state.announced
        state = msgspec.structs.replace(state, announced=announced)
        try:
            await self._write_state(state)
        except StorageError:
            await self._skip(step)
            raise
        self._state, self._playlists = state, playlists
        self._steps.mark_listed(step)
        if self._observer is not None:
            self._observer.on_step_listed(step, state, codecs)
        await self._write_playlists()

    async def _skip(self, step: Step) -> None:
        self._steps.mark_skipped()
        log.warning("step not listed", extra=self._facts(step.sequence))
        for name in step.segments:
            await self._delete(live_segment(self.hash, self.run, name, step.sequence))

    async def _write_state(self, state: RunState) -> None:
        now_us = self._clock_began_us + round(self._clock() * MICROSECONDS)
        state = msgspec.structs.replace(
            state, written_us=now_us, oldest_shown=self._expiry.oldest_shown
        )
        address = live_state(self.hash, self.run)
        await self._objects.put(address, msgspec.json.encode(state), vital=True)

    async def _write_playlists(self) -> None:
        """Publish the playlists; the next step writes again what the disk refuses.

        The edge gets them even if the disk fails, since all media that they name are stored. On
        disk, where other processes read, the multivariant playlist waits for all media playlists.
        """
        media = {
            live_playlist(self.hash, self.run, name): render(playlist)
            for name, playlist in self._playlists.items()
        }
        variants: dict[str, str] = {}
        if self._variants_due and self._state.announced is not None:
            variants[live_variants(self.hash)] = render(self._state.announced)
        failure = await self._write_texts(media)
        media_written = failure is None
        if media_written:
            failure = await self._write_texts(variants)
        await self._edge.put_playlists(media)
        await self._edge.put_playlists(variants)
        if media_written:
            self._expiry.mark_published(self._state, self._clock())
        if failure is not None:
            raise failure
        self._variants_due = False

    async def _write_texts(self, texts: Mapping[str, str]) -> StorageError | None:
        """Write as many playlists as possible, by address; return the last error."""
        failure: StorageError | None = None
        for address, text in texts.items():
            try:
                await self._objects.put(address, text.encode(), vital=True)
            except StorageError as error:
                failure = error
        return failure

    # -- trimming ---------------------------------------------------------------------------------

    async def _trim(self, now: float) -> None:
        """Delete segments that left the playlists long enough ago, and the parts of older segments.

        This runs even when steps fail, since nothing else frees room on a full disk.
        """
        while len(self._at_edge) > _EDGE_STEPS:
            old = self._at_edge.pop(0)
            await self._edge.drop_parts(
                live_part(self.hash, self.run, name, old.sequence, index)
                for name, segment in old.segments.items()
                for index in range(segment.parts)
            )
        due = [step for step in self._state.unlisted if self._expiry.is_due(step, now)]
        for step in due:
            for name in step.segments:
                await self._delete(live_segment(self.hash, self.run, name, step.sequence))
            self._expiry.remove(step)
            self._state = msgspec.structs.replace(self._state, unlisted=self._state.unlisted[1:])
        if due:
            await self._trim_inits()

    async def _trim_inits(self) -> None:
        unneeded = self._expiry.unneeded_inits(
            (*self._state.unlisted, *self._state.listed),
            open_inits=self._steps.oldest_inits(),
            next_inits=self._steps.next_inits,
        )
        for name, number in unneeded:
            await self._delete(live_init(self.hash, self.run, name, number))

    async def _delete(self, address: str) -> None:
        """Delete an object; if that fails, it is deleted with its run."""
        try:
            await self._objects.delete(address)
        except StorageError as error:
            self._warn("object not deleted", error)

    def _warn(self, event: str, error: StorageError) -> None:
        log.warning(event, extra={"stream": self.hash, "run": self.run, "cause": str(error)})

    def _facts(self, sequence: int) -> dict[str, object]:
        return {"stream": self.hash, "run": self.run, "sequence": sequence}
