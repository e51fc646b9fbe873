"""Stores a run: its media, its state, and the playlists on disk that other processes serve.

The order of writes keeps what is stored consistent. A segment is stored before its step. With the
step, a page of the run's log is written if one is due, then the saved state of the run is replaced,
then the media playlists on disk, and last the multivariant playlist if it changed. So a stored
playlist never names what cannot be read, all playlists show the same numbers, and a process that is
killed at any point can resume the run. None of these files grows with the window.

A segment that could not be stored is a gap of its rendition on disk. All steps are listed, even
those without media, so that their numbers are the engine's. Old segments are deleted even while
nothing can be written, so that a full disk gets room again.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from delivery.edge.base import NORMAL_LATENCY, EdgeWriter
from delivery.run.expiry import Expiry
from delivery.run.observers import RunObservers
from delivery.run.run_objects import RunObjects
from delivery.run.run_state import PAGE_STEPS, LiveWindow, RunState, Step, rendition_names
from delivery.run.run_store import StoredRun, run_log
from delivery.run.step_builder import StepBuilder
from delivery.run.stored_playlist import PlaylistTail
from delivery.run.variants import RenditionMeasure, build_multivariant, with_codecs
from media.hls.m3u8 import render
from media.hls.playlist import MultivariantPlaylist
from media.hls.segment import InitSection
from media.ladder import AUDIO_PEAK_RATE, AUDIO_RENDITION, Rendition
from media.source_mark import FindMarks, ProgrammePlace
from media.ticks import MICROSECONDS
from storage.errors import StorageError
from storage.objects.addresses import (
    live_init,
    live_page,
    live_playlist,
    live_run,
    live_segment,
    live_state,
    live_stream,
    live_variants,
)

log = logging.getLogger(__name__)

# Steps whose segments are deleted at a time: a resumed run with a window of 12 h has 21,600 that
# are due at once, and each new step waits for this.
_TRIMMED_STEPS: Final = 4 * PAGE_STEPS


class RunWriter:
    """The stored side of one run; `steps` has the steps under way.

    `stored_steps` are the newest steps of a resumed run, among them all that its playlists list.
    `now_us` is the wall clock, `clock` a monotonic one in seconds. `run_objects` writes the objects
    of the run, which another host may believe it owns. One task at a time may use it,
    except that `prepare`, `announce_codecs` and `leave_out` may be called while another call waits.
    """

    def __init__(
        self,
        run_objects: RunObjects,
        edge: EdgeWriter,
        run: StoredRun,
        steps: StepBuilder,
        stored_steps: Sequence[Step],
        *,
        window: LiveWindow,
        now_us: int,
        clock: Callable[[], float],
    ) -> None:
        self._hash, self._run = run.hash, run.run
        self._objects = run_objects.store
        self._run_objects = run_objects
        self._edge = edge
        self._steps = steps
        self._clock = clock
        self._clock_began_us = now_us - round(clock() * MICROSECONDS)
        self.state = msgspec.structs.replace(run.state, place=None)  # of another process
        self._place: tuple[int, FindMarks] | None = None
        self.stored_until_us: int | None = None  # by the clock of the newest source
        self._log = run_log(run_objects.store, run.hash, run.run)
        listed = [step for step in stored_steps if step.sequence >= run.state.first]
        self._tail = _playlist_tail(run.state, listed)
        self._unstored: dict[str, InitSection] = {}  # by rendition
        self._gaps: set[tuple[str, int]] = set()  # segments that could not be stored
        self._variants_due = False  # the multivariant playlist must be written
        self._announced: MultivariantPlaylist | None = None  # at the edge
        self._first: bool | None = None  # whether for normal latency, too (see `announce_first`)
        self._peak_rates: dict[str, int] = {}  # of the renditions whose encoders bound them
        self._expiry = Expiry(run.state, listed, kept_seconds=window.kept_seconds, now=clock())
        self.observers = RunObservers(run.hash, run.run, stored_steps)

    def prepare(
        self,
        renditions: tuple[Rendition, ...],
        epochs: int,
        reused: str | None,
        *,
        part_target: int,
    ) -> None:
        """Record what a source changes: rungs, the number of sources so far, and part target."""
        before = self.state.renditions
        self.state = msgspec.structs.replace(
            self.state, renditions=renditions, epochs=epochs, part_target=part_target
        )
        if before != renditions and not self.state.tail:
            self._tail = _playlist_tail(self.state, ())
        encoded = {rung.name: rung.peak_rate for rung in renditions if rung.name != reused}
        self._peak_rates = {**encoded, AUDIO_RENDITION: AUDIO_PEAK_RATE}

    def place(self, place: tuple[int, FindMarks] | None) -> None:
        """Record where the source on air is in the run, and how to find its marks; None: none is.

        The first is where its time 0 is on the output clock (see `ProgrammePlace`).
        """
        self._place = place

    async def resume(self, gaps: Sequence[Step], *, first: int, discontinuities: int) -> None:
        """Write the playlists of a resumed run, after `gaps`, which viewers may have begun.

        `first` is the first step that they list, with `discontinuities` before it.
        """
        # The saved state may be one step ahead of the playlists.
        self._variants_due = True
        for step in gaps:
            self._list(step, {}, first=first, discontinuities=discontinuities)
        await self._announce()
        try:
            if gaps:
                await self._write_state(self.state, ahead=0)
            await self._write_playlists()
        except StorageError as error:  # they are at the edge; the next step writes them to disk
            self._warn("playlists not stored", error)

    async def store_init(self, init: InitSection) -> None:
        """Store an init section; each segment that needs it tries again after a failure."""
        # All segments that need an older one have arrived.
        self._unstored[init.rendition] = init
        await self._store_init(init.rendition)

    async def _store_init(self, rendition: str) -> None:
        if rendition in self._unstored:
            init = self._unstored[rendition]
            address = live_init(self._hash, self._run, rendition, init.number)
            await self._run_objects.create(address, init.data)
            self._unstored.pop(rendition, None)  # another segment may have stored it as well

    async def store_segment(self, rendition: str, sequence: int, data: bytes) -> None:
        """Store a segment; on failure it becomes a gap of its step."""
        try:
            await self._store_init(rendition)
            address = live_segment(self._hash, self._run, rendition, sequence)
            await self._run_objects.create(address, data)
        except StorageError:
            self.leave_out(rendition, sequence)
            raise

    def leave_out(self, rendition: str, sequence: int) -> None:
        """Make a segment that cannot be stored a gap of its step."""
        self._gaps.add((rendition, sequence))

    async def list_step(
        self, step: Step, codecs: Mapping[str, str], *, first: int, discontinuities: int
    ) -> None:
        """List a step whose segments were stored or left out, and delete what has expired.

        The playlists begin with the step `first` then, with `discontinuities` before it.

        Raises:
            ObjectError: the state or a playlist could not be written; the next step writes them.
        """
        step = self._without_unstored(step)
        try:
            self._list(step, codecs, first=first, discontinuities=discontinuities)
            await self._announce()
            self.observers.add_step(step, self.state, codecs)
            await self._write_pages()
            await self._write_state(self.state)
            await self._write_playlists()
        finally:
            self._steps.forget(step.sequence)
            await self._trim(self._clock())

    async def finish(self) -> None:
        """End the run: write ENDLIST into its media playlists and keep the multivariant one.

        If the disk refuses that, the next start ends the run on disk.
        """
        try:
            if self._run_objects.lost:
                return
            if self.state.announced is None:  # nothing could be played
                if self._run_objects.fenced:  # no other host has resumed it, or will
                    ended = msgspec.structs.replace(self.state, ended=True)
                    await self._write_state(ended, ahead=0)
                await self._objects.delete_tree(live_run(self._hash, self._run))
                if self._first is not None:
                    await self._edge.drop_folder(live_stream(self._hash))
                return
            self.state = msgspec.structs.replace(self.state, ended=True)
            try:
                await self._write_state(self.state)
            finally:
                await self._write_playlists()
        except StorageError as error:
            self._warn("end of the run not stored", error)
        finally:
            self.observers.end()

    # -- listing ----------------------------------------------------------------------------------

    def _without_unstored(self, step: Step) -> Step:
        lost = {name for name in step.segments if (name, step.sequence) in self._gaps}
        self._gaps = {each for each in self._gaps if each[1] > step.sequence}
        return step.with_gaps(lost)

    def _list(
        self, step: Step, codecs: Mapping[str, str], *, first: int, discontinuities: int
    ) -> None:
        self._tail.append(step)
        self.observers.remember(step)
        self._expiry.add(step)
        state = self.state.with_step(step, first=first, discontinuities=discontinuities)
        announced = state.announced
        if step.playable:
            announced = build_multivariant(
                self._run,
                state.renditions,
                state.measures,
                codecs,
                state.announced,
                step.lacking,
                self._peak_rates,
            )
        self._variants_due |= announced is not state.announced
        self.state = msgspec.structs.replace(state, announced=announced)

    @property
    def is_announced(self) -> bool:
        """True once viewers have the multivariant playlist, although nothing may be stored yet."""
        return self.state.announced is not None or self._first is not None

    async def announce_first(self, *, normal: bool) -> None:
        """Announce a run by its first media, before anything of it is stored.

        With `normal` to players without low latency, too, who need closed segments.
        """
        if self.state.announced is not None or self._first in {True, normal}:
            return
        renditions, sizes = self.state.renditions, self._steps.unstored_sizes()
        gaps = [rung.name for rung in renditions if rung.name not in sizes]
        if not sizes or (renditions and len(gaps) == len(renditions)):
            return
        encoded = {rung.name: rung for rung in renditions if rung.name in self._peak_rates}
        measures = {
            name: RenditionMeasure.of_parts(each, encoded.get(name)) for name, each in sizes.items()
        }
        codecs = self._steps.needed_codecs
        bounds = self._peak_rates
        playlist = build_multivariant(self._run, renditions, measures, codecs, None, gaps, bounds)
        self._first = normal
        await self._put_variants(playlist, normal=normal)

    async def announce_codecs(self, codecs: Mapping[str, str]) -> None:
        """Announce the codecs that the next media need, by rendition (4.4.6.2)."""
        announced = self.state.announced
        changed = None if announced is None else with_codecs(announced, codecs)
        if changed != announced:
            self.state = msgspec.structs.replace(self.state, announced=changed)
            self._variants_due = True
            await self._announce()

    async def _announce(self) -> None:
        """Put the multivariant playlist at the edge, which needs no disk."""
        announced = self.state.announced
        if announced is not None and announced is not self._announced:
            self._announced = announced
            await self._put_variants(announced, normal=True)

    async def _put_variants(self, playlist: MultivariantPlaylist, *, normal: bool) -> None:
        top = live_variants(self._hash)
        texts = {top: render(playlist)}
        if normal:
            texts[top + NORMAL_LATENCY] = render(_with_query(playlist, NORMAL_LATENCY))
        await self._edge.put_playlists(texts)

    async def save(self, *, ahead: int = 1) -> None:
        """Write the state, also that of a run without steps, so that another host finds the run.

        Viewers may see `ahead` more steps before it is written again.

        Raises:
            ObjectError: it could not be written; the next step writes it.
        """
        if self.state.epochs:
            await self._write_state(self.state, ahead=ahead)

    async def _write_pages(self) -> None:
        """Move the oldest steps of the state into pages of the log, if the disk accepts them."""
        try:
            while (due := self.state.next_page()) is not None:
                number, page = due
                await self._log.write(number, page, vital=True)
                rest = self.state.tail[len(page.steps) :]
                self.state = msgspec.structs.replace(self.state, tail=rest)
                self._tail.drop(len(page.steps))
        except StorageError as error:  # the state keeps them
            self._warn("steps not written", error)

    async def _write_state(self, state: RunState, *, ahead: int = 1) -> None:
        now_us = self._clock_began_us + round(self._clock() * MICROSECONDS)
        state = msgspec.structs.replace(
            state,
            written_us=now_us,
            oldest=self._expiry.oldest,
            oldest_inits=self._expiry.oldest_inits,
            oldest_shown=self._expiry.oldest_shown,
            # One more may be opened before the next state is written.
            opened=max(self._steps.opened, state.next_sequence) + ahead,
            place=None if self._place is None else _placed(*self._place),
        )
        address = live_state(self._hash, self._run)
        await self._run_objects.replace({address: msgspec.json.encode(state)})
        if state.tail:
            self.stored_until_us = state.tail[-1].wall_us(state.end)

    async def _write_playlists(self) -> None:
        """Write the playlists for other processes; the next step writes what the disk refuses.

        The multivariant playlist waits for all media playlists, and these for the first step.
        """
        state = self.state
        if not state.has_steps:
            return
        texts = self._tail.render(
            first=state.first, discontinuities=state.discontinuities, ended=state.ended
        )
        media = {
            live_playlist(self._hash, self._run, name): text.encode()
            for name, text in texts.items()
        }
        await self._run_objects.replace(media)
        self._expiry.mark_published(state.first, self._clock())
        announced = self.state.announced  # `announce_codecs` may replace it at any await
        if self._variants_due and announced is not None:
            text = render(announced)
            await self._run_objects.replace({live_variants(self._hash): text.encode()})
        self._variants_due = self.state.announced is not announced

    # -- trimming ---------------------------------------------------------------------------------

    async def _trim(self, now: float) -> None:
        """Delete segments that left the playlists long enough ago.

        This runs even when steps fail, since nothing else frees room on a full disk.
        """
        if self._run_objects.lost:
            return
        due = self._expiry.due(now)[:_TRIMMED_STEPS]
        names = rendition_names(self.state.renditions)
        for sequence in due:
            gone = [live_segment(self._hash, self._run, name, sequence) for name in names]
            if (sequence + 1) % PAGE_STEPS == 0:
                gone.append(live_page(self._hash, self._run, sequence // PAGE_STEPS))
            await self._delete(gone)
            self._expiry.remove(sequence)
        if due:
            await self._trim_inits()

    async def _trim_inits(self) -> None:
        unneeded = self._expiry.unneeded_inits(
            open_inits=self._steps.oldest_inits(), next_inits=self._steps.next_inits
        )
        for name, number in unneeded:
            await self._delete([live_init(self._hash, self._run, name, number)])

    async def _delete(self, addresses: list[str]) -> None:
        """Delete objects; one that cannot be deleted now is deleted with its run."""
        try:
            await self._objects.delete_all(addresses)
        except StorageError as error:
            self._warn("object not deleted", error)

    def _warn(self, event: str, error: StorageError) -> None:
        log.warning(event, extra={"stream": self._hash, "run": self._run, "cause": str(error)})


def _placed(offset: int, find_marks: FindMarks) -> ProgrammePlace | None:
    marks = find_marks()
    return ProgrammePlace(offset=offset, marks=marks) if marks else None


def _playlist_tail(state: RunState, listed: Sequence[Step]) -> PlaylistTail:
    """Return the lines of the steps in a run's state; `listed` are the steps of its playlists."""
    discontinuities = state.discontinuities
    if state.tail and state.tail[0].sequence < state.first:
        gone = (step for step in state.tail if step.sequence < state.first)
        discontinuities -= sum(step.discontinuity for step in gone)
    elif state.tail:
        before = (step for step in listed if step.sequence < state.tail[0].sequence)
        discontinuities += sum(step.discontinuity for step in before)
    names = rendition_names(state.renditions)
    return PlaylistTail(names, state.tail, discontinuities=discontinuities)


def _with_query(playlist: MultivariantPlaylist, query: str) -> MultivariantPlaylist:
    """Return a playlist whose media playlists are requested with a query."""
    changed = msgspec.structs.replace
    return changed(
        playlist,
        variants=tuple(changed(each, uri=each.uri + query) for each in playlist.variants),
        sounds=tuple(changed(each, uri=each.uri + query) for each in playlist.sounds),
        subtitles=tuple(changed(each, uri=each.uri + query) for each in playlist.subtitles),
    )
