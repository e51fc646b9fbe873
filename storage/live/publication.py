"""A run on its way to viewers: stores what an engine makes and lists it when it is all there.

The order is what makes it true. A segment is stored as soon as it is whole; when every rendition
has its segment of a sequence number (a step), the run's notes are replaced, then the playlists on
disk, then those at the edge, all in one go, and last the multivariant playlist where it changed.
So a playlist never names what cannot be read, all playlists show the same numbers, and a process
that was killed at any point can go on: the notes list at least what viewers were shown.

Disk errors come out of `take` as `ObjectError` and leave the publication in order: the caller may
go on with the next report. A segment that could not be stored is a gap of its rendition, like one
that the engine did not make. A step without any rung, or whose notes could not be written, is not
listed; the next one begins with a discontinuity. What left the playlists is deleted all the same,
so a full disk gets room again.
"""

import logging
import time
from collections.abc import Callable
from typing import Final, assert_never

import msgspec

from media.hls.m3u8 import render
from media.hls.playlist import MediaPlaylist
from media.hls.segment import InitSection, Part, Segment
from media.ladder import AUDIO_RENDITION, Rendition
from media.ticks import MICROSECONDS
from storage.edge.base import Edge
from storage.errors import StorageError
from storage.live.expiry import Expiry
from storage.live.observer import Listener
from storage.live.playlist_writer import tell
from storage.live.run_state import (
    RunNotes,
    Step,
    Window,
    names_of,
    next_inits_of,
    playlists_of,
    surplus,
)
from storage.live.run_store import RunFound, clear_older, is_whole, new_name, newest
from storage.live.step_builder import PublicationError, StepBuilder
from storage.live.variants import announce
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

__all__ = ["Publication", "PublicationError", "Window"]

log = logging.getLogger(__name__)

# Parts of the newest segments are asked for by name; with 2 s segments this is 16 s, more than the
# three target durations for which low-latency playlists list them.
_EDGE_STEPS: Final = 8


class Publication:
    """One run of a live stream. One task at a time may call it."""

    def __init__(
        self,
        objects: Objects,
        edge: Edge,
        found: RunFound,
        *,
        window: Window,
        now_us: int,
        clock: Callable[[], float],
    ) -> None:
        """Take over a run; `open` and `resume` are how others get one."""
        self.hash = found.hash
        self.run = found.run
        self._objects = objects
        self._edge = edge
        self._window = window
        self._clock = clock
        self._clock_began_us = now_us - round(clock() * MICROSECONDS)
        self._notes = found.notes
        self._playlists: dict[str, MediaPlaylist] = playlists_of(found.notes)
        self._steps = StepBuilder(found.notes.next_sequence, next_inits_of(found.notes))
        if found.notes.listed:
            self._steps.listed(found.notes.listed[-1])
        self._unstored: dict[str, InitSection] = {}  # by rendition: still to be stored
        self._variants_due = False  # whether the multivariant playlist is to be written
        self._at_edge: list[Step] = []
        self._expiry = Expiry(found.notes, kept=window.kept, now=clock())
        self._listener: Listener | None = None

    # -- beginning --------------------------------------------------------------------------------

    @classmethod
    async def open(
        cls,
        objects: Objects,
        edge: Edge,
        *,
        hash: str,  # noqa: A002  # the field's word for it
        now_us: int,
        window: Window,
        clock: Callable[[], float] = time.monotonic,
    ) -> "Publication":
        """Begin a run of the stream; the one before it is ended where it was not.

        `now_us` is the wall clock, `clock` one that never goes back, in seconds. Runs older than
        the one before, and such that never listed anything, are deleted.
        """
        before = await newest(objects, hash)
        if before is not None and not before.notes.ended:
            if await is_whole(objects, before):
                old = cls(objects, edge, before, window=window, now_us=now_us, clock=clock)
                await old.finish()
            else:  # a power cut: better nothing to play than what cannot be read
                await objects.delete(live_variants(hash))
        last = before.run if before is not None else None
        for run in await clear_older(objects, hash, last):
            await edge.drop_folder(live_run(hash, run))
        found = RunFound(hash=hash, run=new_name(now_us, last), notes=RunNotes())
        return cls(objects, edge, found, window=window, now_us=now_us, clock=clock)

    @classmethod
    async def resume(
        cls,
        objects: Objects,
        edge: Edge,
        *,
        hash: str,  # noqa: A002  # the field's word for it
        now_us: int,
        window: Window,
        within_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> "Publication | None":
        """Go on with the stream's newest run, or return None where there is none to go on with.

        That is: it was not ended, its last step is not older than `within_seconds`, and all that
        it lists is there in full.
        """
        found = await newest(objects, hash)
        if found is None or found.notes.ended:
            return None
        if now_us - found.notes.written_us > within_seconds * MICROSECONDS:
            return None
        if not await is_whole(objects, found):
            log.warning("run not whole: another begins", extra={"stream": hash, "run": found.run})
            return None
        publication = cls(objects, edge, found, window=window, now_us=now_us, clock=clock)
        # The notes may be one step ahead of the playlists.
        publication._variants_due = True
        try:
            await publication._tell()
        except StorageError as error:  # the edge has them, the disk gets them with the next step
            publication._complain("playlists not stored", error)
        return publication

    def attach(self, listener: Listener) -> None:
        """Have each step told from now on, and at once those that are on disk already."""
        for step in (*self._notes.left, *self._notes.listed):
            listener.listed(step, self._notes, {})
        self._listener = listener

    # -- facts ------------------------------------------------------------------------------------

    @property
    def renditions(self) -> tuple[Rendition, ...]:
        """The video rungs of the run, as they were prepared last."""
        return self._notes.renditions

    @property
    def next_sequence(self) -> int:
        """The first number that no step was given."""
        return self._steps.following

    @property
    def next_inits(self) -> dict[str, int]:
        """The number of each rendition's next init section; absent is 0."""
        return dict(self._steps.next_inits)

    @property
    def end(self) -> int:
        """Where the listed media end, in ticks of 90 000 a second of the output clock; 0 at first.

        Above 0 there is something to be played.
        """
        return self._notes.end

    @property
    def epochs(self) -> int:
        """How many sources the run has had: the number of the next one."""
        return self._notes.epochs

    # -- what an engine says ----------------------------------------------------------------------

    async def prepare(self, epoch: int, renditions: tuple[Rendition, ...], wall_us: int) -> None:
        """Expect a source's media: its video rungs (the sound goes without saying).

        `wall_us` is the wall clock of its first frame; it anchors the times in the playlists.

        Raises:
            PublicationError: the names are not those of the run, whose playlists viewers hold.
        """
        if self._notes.listed and names_of(renditions) != names_of(self._notes.renditions):
            raise PublicationError("a run keeps its renditions")
        self._steps.prepare(epoch, renditions, wall_us)
        self._notes = msgspec.structs.replace(
            self._notes, renditions=renditions, epochs=max(self._notes.epochs, epoch + 1)
        )
        self._playlists = playlists_of(self._notes)

    async def take(self, report: InitSection | Part | Segment) -> None:
        """Store what an engine made, and list the step that it completes.

        Raises:
            PublicationError: the report does not fit what came before it.
            ObjectError: something could not be stored; the report counts as taken.
        """
        match report:
            case InitSection():
                await self._take_init(report)
            case Part():
                self._steps.part(report)
                address = live_part(
                    self.hash, self.run, report.rendition, report.sequence, report.index
                )
                await self._edge.put_part(address, report.data)
            case Segment():
                await self._take_segment(report)
            case _:
                assert_never(report)

    async def drop_partial(self) -> None:
        """Forget the steps that are not whole: their engine is gone."""
        self._steps.drop()

    async def finish(self) -> None:
        """End the run for its viewers: ENDLIST in all its playlists; the multivariant one stays.

        Where the disk does not take that, viewers are told at the edge, and the next start ends the
        run on disk.
        """
        self._steps.drop()
        try:
            if not self._notes.listed:
                await self._objects.delete_tree(live_run(self.hash, self.run))
                return
            self._notes = msgspec.structs.replace(self._notes, ended=True)
            self._playlists = {name: one.end() for name, one in self._playlists.items()}
            try:
                await self._write_notes(self._notes)
            finally:
                await self._tell()
        except StorageError as error:
            self._complain("end of the run not stored", error)
        finally:
            if self._listener is not None:
                self._listener.ended()

    async def _take_init(self, init: InitSection) -> None:
        self._steps.init(init)
        # Segments that need an older one have all come.
        self._unstored[init.rendition] = init
        await self._store_init(init.rendition)

    async def _take_segment(self, segment: Segment) -> None:
        name, sequence = segment.rendition, segment.sequence
        data = self._steps.segment(segment)
        if not self._playlists[name].fits(segment.duration):
            log.warning("segment too long", extra=self._facts(sequence))
        failed: StorageError | None = None
        if not segment.gap:
            try:
                await self._store_init(name)
                await self._objects.put(live_segment(self.hash, self.run, name, sequence), data)
            except StorageError as error:
                self._steps.lost(name, sequence)
                failed = error
        try:
            await self._close(sequence)
        except StorageError as error:
            failed = error
        await self._trim(self._clock())
        if failed is not None:
            raise failed

    async def _store_init(self, rendition: str) -> None:
        """Store an init section, once: a full disk may have room again by its first segment."""
        if rendition in self._unstored:
            init = self._unstored[rendition]
            address = live_init(self.hash, self.run, rendition, init.number)
            await self._objects.put(address, init.data)
            del self._unstored[rendition]

    # -- listing ----------------------------------------------------------------------------------

    async def _close(self, sequence: int) -> None:
        """List a step that all renditions have reached, or leave it out where nothing is there."""
        step = self._steps.close(sequence)
        if step is None:
            return
        self._at_edge.append(step)
        if not step.playable:
            await self._leave_out(step)
            return
        if not self._notes.listed:
            step = msgspec.structs.replace(step, discontinuity=False)  # there is nothing before it
        drop = surplus(self._notes.listed, step, self._window.listed)
        playlists = {
            name: playlist.append(step.listed(name), drop=drop)
            for name, playlist in self._playlists.items()
        }
        notes = self._notes.next(step, playlists[AUDIO_RENDITION])
        codecs = self._steps.codecs(step)
        announced = announce(
            self.run, notes.renditions, notes.measures, codecs, notes.announced, step.gaps
        )
        self._variants_due |= announced is not notes.announced
        notes = msgspec.structs.replace(notes, announced=announced)
        try:
            await self._write_notes(notes)
        except StorageError:
            await self._leave_out(step)
            raise
        self._notes, self._playlists = notes, playlists
        self._steps.listed(step)
        if self._listener is not None:
            self._listener.listed(step, notes, codecs)
        await self._tell()

    async def _leave_out(self, step: Step) -> None:
        self._steps.left_out()
        log.warning("step not listed", extra=self._facts(step.sequence))
        for name in step.cuts:
            await self._delete(live_segment(self.hash, self.run, name, step.sequence))

    async def _write_notes(self, notes: RunNotes) -> None:
        now_us = self._clock_began_us + round(self._clock() * MICROSECONDS)
        notes = msgspec.structs.replace(notes, written_us=now_us, shown=self._expiry.shown)
        address = live_state(self.hash, self.run)
        await self._objects.put(address, msgspec.json.encode(notes), vital=True)

    async def _tell(self) -> None:
        """Put the playlists before viewers; what the disk refuses comes with the next step."""
        media = {
            live_playlist(self.hash, self.run, name): render(playlist)
            for name, playlist in self._playlists.items()
        }
        variants: dict[str, str] = {}
        if self._variants_due and self._notes.announced is not None:
            variants[live_variants(self.hash)] = render(self._notes.announced)
        told = await tell(self._objects, self._edge, media, variants)
        if told.media:
            self._expiry.told(self._notes, self._clock())
        self._variants_due = self._variants_due and not told.all
        if told.failed is not None:
            raise told.failed

    # -- trimming ---------------------------------------------------------------------------------

    async def _trim(self, now: float) -> None:
        """Delete what left the playlists long enough ago, and the parts of all but new segments.

        It goes on where steps fail, since nothing else gives a full disk room.
        """
        while len(self._at_edge) > _EDGE_STEPS:
            old = self._at_edge.pop(0)
            await self._edge.drop_parts(
                live_part(self.hash, self.run, name, old.sequence, index)
                for name, cut in old.cuts.items()
                for index in range(cut.parts)
            )
        due = [step for step in self._notes.left if self._expiry.is_due(step, now)]
        for step in due:
            for name in step.cuts:
                await self._delete(live_segment(self.hash, self.run, name, step.sequence))
            self._expiry.forget(step)
            self._notes = msgspec.structs.replace(self._notes, left=self._notes.left[1:])
        if due:
            await self._trim_inits()

    async def _trim_inits(self) -> None:
        unneeded = self._expiry.inits(
            (*self._notes.left, *self._notes.listed),
            making=self._steps.oldest_inits(),
            next_inits=self._steps.next_inits,
        )
        for name, number in unneeded:
            await self._delete(live_init(self.hash, self.run, name, number))

    async def _delete(self, address: str) -> None:
        """Delete an object; one that will not go goes with its run."""
        try:
            await self._objects.delete(address)
        except StorageError as error:
            self._complain("object not deleted", error)

    def _complain(self, event: str, error: StorageError) -> None:
        log.warning(event, extra={"stream": self.hash, "run": self.run, "cause": str(error)})

    def _facts(self, sequence: int) -> dict[str, object]:
        return {"stream": self.hash, "run": self.run, "sequence": sequence}
