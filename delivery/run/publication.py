"""The publication of a run: shows viewers what an engine produces, and stores it.

    reports of an engine
            |
      BorrowedMedia      a rung that is shed lists the media of another one
            |
       StepBuilder       parts become segments, the segments of all renditions a step
            |
            +-----> the edge: init sections, parts, segments, and the timelines that list them
            |       (`append`: at once)
            |
            '-----> StoreQueue ----> RunWriter: segments, steps, state, playlists
                    (`store_next`: a task of its own, later)

Memory comes first. A part is listed at the edge as soon as the engine has sent it, and requests
that wait for it are answered; a segment is listed with its last part. Storing follows in the same
order, so a slow disk delays no viewer. The life of a segment:

          its last part                stored               not listed any more
    open --------------> in memory only ------> in the store -------------------> deleted, after
    (parts are listed)     |                                                      `kept_seconds`
                           '--> not stored: in memory for as long as it is listed,
                                or a gap if there is no room

What holds at any time:

- What is listed is final: no name, duration or number changes afterwards. Media are put at the
  edge before the timeline that lists them is shown, and then stay there or in the store.
- Every sequence number of the engine is listed in every rendition, so a Media Sequence Number is
  the number in a segment's name. What has no media is a gap. All playlists begin with the same step
  (`RunTimelines`).
- A part has the name that its hint gave it: the segment that was open then, and how many parts that
  had. So the hint is right whichever segment the part is of. With another init section, or after a
  discontinuity, a first part is named by its own segment and not hinted: a player would read it
  with the init section that it has. No name is used twice. Version 0.2 waits for such parts, too.
- Observers (`observers`) are told of a source before its media, of a part after viewers have it,
  and of a step once its media are stored, for whoever copies them from there.
- Timelines are values, with the media time of each segment. Text is made of them where viewers ask
  for it (`delivery.playlists`), and on disk by `RunWriter`.
- What is stored can be continued from after a kill at any point (`RunWriter` has the order). Only
  parts and segments that nothing but memory had are lost then, and not even these if the edge is in
  Redis (`shown_steps`).

A publication is made by `open` (another run) or `resume` (the newest one goes on). Then `prepare`
comes before the reports of each source, and `append` takes these in the order in which the engine
sent them. If the engine dies, `close_open` makes segments of the parts that there are, and the next
engine's first source is prepared; its numbers begin at `next_sequence` and `next_inits`. The last
call is `finish`, after which viewers see the end, or `suspend` for a process that resumes the run.
One task makes all these calls; another calls `store_next` again and again meanwhile. Once a
publication is made, a failure of the store raises nothing: it is logged, and costs what could not
be stored. `PublicationError` is the fault of the engine.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, assert_never

import msgspec

from delivery.edge.base import EdgeWriter
from delivery.run.borrowed_media import BorrowedMedia
from delivery.run.observers import ObserverFactory
from delivery.run.run_objects import SOLE_OWNER, RunObjects, RunOwner
from delivery.run.run_state import (
    LiveWindow,
    RunState,
    Step,
    lost_steps,
    next_init_numbers,
    rendition_names,
)
from delivery.run.run_store import (
    StoredRun,
    delete_older_runs,
    is_complete,
    newest_run,
    next_run_name,
    read_steps,
)
from delivery.run.run_timelines import RunTimelines
from delivery.run.run_writer import RunWriter
from delivery.run.shown_steps import ShownSteps, read_shown_steps
from delivery.run.step_builder import FinishedSegment, PublicationError, StepBuilder
from delivery.run.store_queue import SegmentKey, StepToList, StoreQueue
from media.hls.playlist import PartialSegment
from media.hls.segment import EpochStart, GapStart, InitSection, Part, Segment, SegmentStart
from media.hls.timeline import Timeline
from media.hls.timeline_segments import ClosedSegment
from media.ladder import Rendition
from media.run_policy import ResolvedPolicy
from media.source_mark import ProgrammePlace
from media.ticks import MICROSECONDS, VIDEO_SCALE
from storage.errors import StorageError
from storage.objects.addresses import (
    live_init,
    live_part,
    live_part_name,
    live_run,
    live_segment,
    live_variants,
)
from storage.objects.base import Objects

log = logging.getLogger(__name__)

# Segments that are not stored, because the disk is slow or full, are kept in memory up to this
# size: half a minute of five renditions. Then the oldest become gaps.
_UNSTORED_BYTES: Final = 64 << 20
_PART_TARGET: Final = VIDEO_SCALE // 2
# A host stores an init section for each source, and lists a source's media within seconds.
_UNLISTED_INITS: Final = 8
# A run is resumed with so many steps at least, from which its recording continues.
_RECORDED: Final = 64


class Publication:
    """One run of a live stream. One task at a time may call it, beside `store_next`.

    With `low_latency` its playlists have the tags of low-latency HLS. What was set when it began
    stays, whoever continues it.
    """

    def __init__(
        self,
        run_objects: RunObjects,
        edge: EdgeWriter,
        run: StoredRun,
        steps: Sequence[Step] = (),
        *,
        window: LiveWindow,
        now_us: int,
        clock: Callable[[], float],
    ) -> None:
        """Continue a stored or new run; callers use `open` or `resume`.

        `steps` are the newest steps of a stored run, among them all that its playlists list.
        """
        self.hash, self.run = run.hash, run.run
        self._edge = edge
        self._folder = live_run(run.hash, run.run)
        state = run.state
        self.low_latency = state.known_policy.is_low_latency
        window = window.reaching_back(state.known_policy.dvr_seconds)
        self._generation = state.generation
        self.left: tuple[int, ProgrammePlace] | None = None  # where another process left the run
        following = max(state.next_sequence, state.opened)
        last = state.tail[-1] if state.tail else None
        inits = next_init_numbers(state)
        if run_objects.fenced:
            # The previous host may have stored some for media that were never listed.
            inits = {name: number + _UNLISTED_INITS for name, number in inits.items()}
        self._steps = StepBuilder(following, inits, last, state.announced_codecs)
        self._borrowed = BorrowedMedia(self._steps.next_inits, replaces=not self.low_latency)
        self._borrowed.begin(following)
        self._writer = RunWriter(
            run_objects, edge, run, self._steps, steps, window=window, now_us=now_us, clock=clock
        )
        self.place = self._writer.place  # of the programme, from now on
        self._end = state.end
        self._has_ended = False  # viewers saw its end
        self._timelines = RunTimelines(
            state.part_target or _PART_TARGET, round(window.listed_seconds * VIDEO_SCALE)
        )
        self._inits: dict[str, int] = {}  # of each rendition's newest part
        self._queue = StoreQueue(self._writer, edge, run, lambda: dict(self._steps.needed_codecs))

    # -- opening ----------------------------------------------------------------------------------

    @classmethod
    async def open(
        cls,
        objects: Objects,
        edge: EdgeWriter,
        *,
        hash: str,  # noqa: A002  # the field's word for it
        now_us: int,
        window: LiveWindow,
        policy: ResolvedPolicy | None = None,
        owner: RunOwner = SOLE_OWNER,
        clock: Callable[[], float] = time.monotonic,
    ) -> "Publication":
        """Begin a run of the stream, and end the previous one if it has not ended.

        `now_us` is the wall clock, `clock` a monotonic one in seconds. `policy` is what is set for
        the run; its window reaches back at least as far as `window`. Runs before the previous one
        are deleted, and those of which viewers have nothing.

        Raises:
            OwnershipLost: a host of a later generation than the `owner` has the stream.
            ObjectError: the store failed.
        """
        create = partial(cls, window=window, now_us=now_us, clock=clock)
        previous = await newest_run(objects, hash)
        generation = owner.generation_after(previous)
        if previous is not None and not previous.state.ended:
            claim = await RunObjects.of_claimed_run(objects, previous, owner)
            if claim is not None:
                claimed, run_objects = claim[0].with_policy(policy), claim[1]
                steps = await read_steps(objects, claimed, claimed.state.first)
                if await is_complete(objects, claimed, steps, durable=owner.fenced):
                    old = await cls._continued(create, run_objects, edge, claimed, steps)
                    if old is not None:
                        await old.finish()
                else:  # a power cut: better no playlist than one that names unreadable files
                    await objects.delete(live_variants(hash))
        last = previous.run if previous is not None else None
        for run in await delete_older_runs(objects, hash, last):
            await edge.drop_folder(live_run(hash, run))
        state = RunState(generation=generation, policy=policy)
        new = StoredRun(hash=hash, run=next_run_name(now_us, last), state=state)
        run_objects = await RunObjects.of_new_run(objects, hash, new.run, owner)
        return create(run_objects, edge, new)

    @classmethod
    async def resume(  # noqa: PLR0913  # a stream, its stores, its owner and its settings, by name
        cls,
        objects: Objects,
        edge: EdgeWriter,
        *,
        hash: str,  # noqa: A002  # the field's word for it
        now_us: int,
        window: LiveWindow,
        within_seconds: float,
        policy: ResolvedPolicy | None = None,
        owner: RunOwner = SOLE_OWNER,
        clock: Callable[[], float] = time.monotonic,
    ) -> "Publication | None":
        """Resume the stream's newest run, or return None if it cannot be resumed.

        A run can be resumed if it has not ended, its state is at most `within_seconds` old, and
        what it lists is there (`run_store.is_complete`). It continues after what viewers saw, if
        the edge still has that (`shown_steps`). What only memory had is gone, and with it a run
        without steps; numbers of which viewers may have seen parts become gaps. `policy` counts if
        the state has none.

        Raises:
            OwnershipLost: a host of a later generation than the `owner` has the stream.
            ObjectError: the store failed.
        """
        run = await newest_run(objects, hash)
        if run is None or run.state.ended:
            return None
        if now_us - run.state.written_us > within_seconds * MICROSECONDS:
            return None
        claim = await RunObjects.of_claimed_run(objects, run, owner)
        if claim is None:
            return None
        run, run_objects = claim[0].with_policy(policy), claim[1]
        state = run.state
        steps = await read_steps(objects, run, min(state.first, state.next_sequence - _RECORDED))
        listed = [step for step in steps if step.sequence >= state.first]
        if not await is_complete(objects, run, listed, durable=owner.fenced):
            log.warning("run incomplete: another begins", extra={"stream": hash, "run": run.run})
            return None
        create = partial(cls, window=window, now_us=now_us, clock=clock)
        gaps = lost_steps(state)
        publication = await cls._continued(create, run_objects, edge, run, steps, gaps=gaps)
        if publication is not None and publication._has_ended:
            await publication.finish()
            return None
        return publication

    @classmethod
    async def _continued(
        cls,
        create: "Callable[[RunObjects, EdgeWriter, StoredRun, Sequence[Step]], Publication]",
        run_objects: RunObjects,
        edge: EdgeWriter,
        run: StoredRun,
        steps: Sequence[Step],
        *,
        gaps: Sequence[Step] = (),
    ) -> "Publication | None":
        """Continue a claimed run after what viewers saw, or else after its `steps` and `gaps`.

        A run that has neither is deleted, and None returned.
        """
        listed = [step for step in steps if step.sequence >= run.state.first]
        folder, generation = live_run(run.hash, run.run), run.state.generation
        at_edge = await edge.take_over(folder, generation=generation)
        shown = None
        if at_edge is not None:
            shown = await read_shown_steps(run_objects.store, at_edge, run, listed)
        if shown is not None:
            run, gaps = msgspec.structs.replace(run, state=shown.state), ()
        publication = create(run_objects, edge, run, steps)
        if shown is None and not run.state.has_steps:
            await publication.finish()  # which deletes it
            await edge.drop_folder(folder)
            return None
        await publication._restore(listed, gaps, shown)  # an instance of this class
        publication.left = run.state.left_at((*listed, *(() if shown is None else shown.steps)))
        return publication

    async def _restore(
        self, listed: Sequence[Step], gaps: Sequence[Step], shown: ShownSteps | None = None
    ) -> None:
        """Publish the timelines of a run: its listed steps, and then `gaps` or the `shown` ones."""
        state = self._writer.state
        segments: Mapping[SegmentKey, ClosedSegment] = {} if shown is None else shown.segments
        steps = (*listed, *(gaps if shown is None else shown.steps))
        whole = min((number for number, _ in segments), default=state.next_sequence) - state.first
        for name in rendition_names(state.renditions):
            timeline = Timeline.of(
                (step.playlist_entry(name) for step in steps[:whole]),
                part_target=self._timelines.part_target,
                sequence=state.first,
                discontinuities=state.discontinuities,
            )
            for step in steps[whole:]:
                closed = segments.get((step.sequence, name))
                timeline = timeline.with_segment(
                    step.playlist_entry(name) if closed is None else closed.segment,
                    parts=() if closed is None else closed.parts,
                )
            self._timelines[name] = timeline
            await asyncio.sleep(0)  # each takes 0.1 s in a window of 12 h
        # Viewers may have seen media where the gaps are, for which older steps left the playlists.
        durations = (each.duration for step in listed for each in step.segments.values())
        lost = len(gaps) * max(durations, default=0)
        first = 0 if shown is None else shown.first
        self._timelines.drop_surplus(until=self._end, lost=lost, first=first)
        if shown is not None:
            self._has_ended = shown.ended
            await self._continue_after(shown)
        await self._show(self._timelines)
        first, discontinuities = self._timelines.beginning
        await self._writer.resume(gaps, first=first, discontinuities=discontinuities)

    async def _continue_after(self, shown: ShownSteps) -> None:
        """Keep what viewers saw at the edge, and queue it for storing."""
        unlisted = set(shown.parts)  # which would never be dropped
        for name, timeline in self._timelines.items():
            unlisted.difference_update(
                live_part(self.hash, self.run, name, part.uri) for part in timeline.listed_parts
            )
        for address, data in shown.at_edge.items():
            if address not in unlisted:
                await self._edge.put_part(address, data)
        for key, data in shown.media.items():
            await self._edge.put_part(self._address(key), data)
        for init in shown.inits:
            self._queue.add(init)
        # Those of stored steps stay in memory for as long as they are listed.
        self._queue.unstored |= shown.media
        for step in shown.steps:
            self._steps.continue_after(step)
            self._end = max(self._end, step.end)
            for name in step.segments.keys() - step.gaps:
                self._queue.add_segment(step.sequence, name, shown.media[step.sequence, name])
            self._queue.add(StepToList(step, *self._timelines.beginning))
        self._borrowed.begin(self._steps.next_sequence)

    def add_observer(self, make: ObserverFactory, policy: ResolvedPolicy | None = None) -> None:
        """Tell one more observer of the run, first of the newest steps that are stored.

        `policy` is what is set for the run, None if it is resumed only to be ended.
        """
        state = self._writer.state
        self._writer.observers.add(make, policy and (state.policy or policy), state)

    async def release_observers(self) -> None:
        """Wait up to a second until the observers have finished what is under way."""
        await self._writer.observers.release()

    # -- properties -------------------------------------------------------------------------------

    @property
    def renditions(self) -> tuple[Rendition, ...]:
        """The video rungs of the run, as last prepared."""
        return self._writer.state.renditions

    @property
    def next_sequence(self) -> int:
        """The sequence number of the next step that is not complete."""
        return self._steps.next_sequence

    @property
    def next_inits(self) -> dict[str, int]:
        """The number of each rendition's next init section; 0 if absent."""
        return dict(self._steps.next_inits)

    @property
    def end(self) -> int:
        """The end of the complete steps on the output clock, in ticks of 90 000 a second.

        It is 0 until the first step is complete.
        """
        return self._end

    @property
    def is_playable(self) -> bool:
        """True once the playlists at the edge list something that viewers can play."""
        return self._writer.is_announced

    @property
    def stored_until_us(self) -> int | None:
        """The date of the end of what is stored, in us since 1970; None before the first step."""
        return self._writer.stored_until_us

    @property
    def epochs(self) -> int:
        """How many sources the run has had, which is the number of the next one."""
        return self._writer.state.epochs

    # -- reports of the engine --------------------------------------------------------------------

    async def prepare(
        self,
        epoch: int,
        renditions: tuple[Rendition, ...],
        wall_us: int,
        *,
        reused: str | None = None,
        part: int = _PART_TARGET,
    ) -> None:
        """Announce a source and its video rungs; the audio rendition is implied.

        `wall_us` is the wall clock of its first frame, if no `EpochStart` says more exactly.
        `reused` is the rung that consists of the source's own packets, whose rate has no bound.
        `part` is the target of its parts, in ticks of 90 000 a second.

        Raises:
            PublicationError: the names differ from those of the run, whose playlists are in use.
        """
        names = rendition_names(renditions)
        self._timelines.prepare(names, part, sequence=self._steps.next_sequence)
        self._steps.prepare(epoch, renditions, wall_us)
        self._borrowed.prepare(renditions)
        self._writer.prepare(renditions, max(self.epochs, epoch + 1), reused, part_target=part)
        self._queue.add(None)  # a restart must know what viewers see from now on

    async def append(
        self, report: EpochStart | InitSection | SegmentStart | GapStart | Part | Segment
    ) -> None:
        """Show a report of the engine to viewers, and queue it for storing.

        Raises:
            PublicationError: the report does not fit the previous ones.
        """
        if isinstance(report, EpochStart):
            self._steps.start_epoch(report)
            self._writer.observers.add_source(report)
            return
        for each in self._borrowed.take(report):
            await self._append(each)

    async def _append(self, report: InitSection | SegmentStart | GapStart | Part | Segment) -> None:
        match report:
            case InitSection():
                if not self._queue.takes_inits:
                    raise PublicationError("too many init sections wait to be stored")
                self._steps.add_init(report)
                await self._writer.announce_codecs(self._steps.needed_codecs)
                address = live_init(self.hash, self.run, report.rendition, report.number)
                await self._edge.put_part(address, report.data)
                self._queue.add(report)
            case SegmentStart():
                self._steps.start_segment(report)
            case GapStart():
                await self._drop_parts(report)
            case Part():
                await self._add_part(report)
            case Segment():
                await self._close(self._steps.add_segment(report))
                await self._complete_steps()
            case _:
                assert_never(report)

    async def close_open(self) -> None:
        """Close all open segments with the parts that there are, since their engine is gone."""
        for closed in self._steps.close_open():
            await self._close(closed)
        await self._complete_steps()
        self._borrowed.begin(self._steps.next_sequence)

    async def suspend(self) -> None:
        """Store all that viewers have seen, for a process that resumes the run."""
        await self.close_open()
        async with self._queue.emptied():
            try:
                await self._writer.save(ahead=0)
            except StorageError as error:
                facts = {"stream": self.hash, "run": self.run, "cause": str(error)}
                log.warning("run not stored", extra=facts)

    async def finish(self) -> None:
        """End the run: show the end to viewers at once, then store the rest and the end."""
        await self.close_open()
        if self._timelines.end():
            await self._show(self._timelines)
        async with self._queue.emptied():
            await self._writer.finish()

    async def _add_part(self, part: Part) -> None:
        start, step = self._steps.add_part(part)
        name, sequence = part.rendition, part.sequence
        timeline = self._timelines[name]
        uri = timeline.hint
        if part.index == 0:
            before, self._inits[name] = self._inits.get(name), start.init
            if step.discontinuity or start.init != before:
                uri = None
            timeline = timeline.open(
                f"init-{start.init}.mp4",
                discontinuity=step.discontinuity,
                wall_us=step.wall_us(start.start),
                start=start.start,
            )
        uri = uri or live_part_name(sequence, part.index)
        await self._edge.put_part(live_part(self.hash, self.run, name, uri), part.data)
        listed = PartialSegment(uri=uri, duration=part.duration, independent=part.independent)
        timeline = timeline.with_part(listed, hint=live_part_name(sequence, part.index + 1))
        self._timelines[name] = timeline
        await self._show({name: timeline})
        self._writer.observers.add_part(name, listed, part.data)

    async def _drop_parts(self, gap: GapStart) -> None:
        """Drop the parts of an open segment, which viewers have not seen at normal latency."""
        name, timeline = gap.rendition, self._timelines[gap.rendition]
        if self._steps.drop_parts(gap):
            self._timelines[name] = timeline.without_open()
            await self._edge.drop_parts(
                live_part(self.hash, self.run, name, part.uri) for part in timeline.parts
            )

    async def _close(self, closed: FinishedSegment) -> None:
        name, step, segment = closed.rendition, closed.step, closed.facts
        timeline = self._timelines[name]
        if not timeline.fits(segment.duration):
            facts = {"stream": self.hash, "run": self.run, "sequence": step.sequence}
            log.warning("segment too long", extra=facts)
        hint = None
        if closed.followed:
            first = segment.gap or not timeline.parts
            hint = live_part_name(step.sequence + 1, 0) if first else timeline.hint
        if timeline.parts:
            uri = f"{step.sequence}.m4s"
            timeline = timeline.close(uri, segment.duration, gap=segment.gap, hint=hint)
        else:
            timeline = timeline.with_segment(step.playlist_entry(name), hint=hint)
        timeline = self._timelines.with_common_target(name, timeline)
        if not segment.gap:
            await self._edge.put_part(self._address((step.sequence, name)), closed.data)
            self._queue.add_segment(step.sequence, name, closed.data)
        self._timelines.replace(name, timeline, until=self._end)
        await self._show({name: timeline})
        await self._bound_memory()

    async def _complete_steps(self) -> None:
        for step in self._steps.complete():
            self._borrowed.forget(step.sequence)
            self._end = max(self._end, step.end)
            if self._timelines.drop_surplus(until=self._end):
                await self._show(self._timelines)
            for parts in self._timelines.due_parts(self._end):
                await self._edge.drop_parts(
                    [live_part(self.hash, self.run, name, uri) for name, uri in parts]
                )
            self._queue.add(StepToList(step, *self._timelines.beginning))

    async def _show(self, timelines: Mapping[str, Timeline]) -> None:
        await self._edge.put_timelines(
            self._folder, timelines, low_latency=self.low_latency, generation=self._generation
        )
        shown = self._timelines.values()
        if self.low_latency and all(each.newest is not None for each in shown):
            await self._writer.announce_first(normal=False)
        if all(each.count for each in shown):
            await self._writer.announce_first(normal=True)

    async def store_next(self) -> None:
        """Wait until something is queued for storing, and store it."""
        await self._queue.wait()
        await self._queue.store()

    async def store_pending(self) -> int:
        """Store all that is queued; return the number of failures."""
        return await self._queue.store()

    async def _bound_memory(self) -> None:
        """Drop segments that only memory has once they are no longer listed, or are too many."""
        listed_from = min(timeline.sequence for timeline in self._timelines.values())
        total = sum(map(len, self._queue.unstored.values()))
        for key in list(self._queue.unstored):
            if key[0] >= listed_from and total <= _UNSTORED_BYTES:
                break
            total -= len(self._queue.unstored.pop(key))
            self._writer.leave_out(key[1], key[0])
            if key[0] >= listed_from:
                timeline = self._timelines[key[1]].with_gap(key[0])
                self._timelines.replace(key[1], timeline, until=self._end)
                await self._show({key[1]: timeline})
            await self._edge.drop_parts([self._address(key)])

    def _address(self, key: SegmentKey) -> str:
        return live_segment(self.hash, self.run, key[1], key[0])
