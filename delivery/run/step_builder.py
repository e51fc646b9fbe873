"""Assembles an engine's reports: parts into segments, segments of all renditions into steps.

Pure. A step is opened by the first rendition that reaches its sequence number, and is complete
once every rendition has its segment or a gap. Steps are opened and completed in the order of their
numbers, and every opened step is completed: when an engine is gone, `close_open` makes segments of
the parts that there are.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from delivery.run.run_state import Step, StepSegment, rendition_names
from media.codecs.avc import covering_codecs
from media.hls.segment import EpochStart, GapStart, InitSection, Part, Segment, SegmentStart
from media.ladder import Rendition
from media.ticks import MICROSECONDS, VIDEO_SCALE, rescale
from storage.errors import StorageError

# Renditions that an engine makes are seconds apart. While one is missing, nothing leaves the
# playlists of the others: two minutes of segments may wait for it.
MOST_OPEN: Final = 64


class PublicationError(StorageError):
    """A report does not fit the previous ones: the engine's fault, not the disk's."""


class _StepEpoch(msgspec.Struct):
    """The wall clock of a source's first frame, and of tick 0 of the output clock once known.

    `start` is where that frame belongs on the output clock; None: where the first segment begins.
    """

    wall_us: int
    start: int | None = None
    origin_us: int | None = None


class FinishedSegment(msgspec.Struct, frozen=True):
    """A segment that is complete, or a gap; `data` is its joined parts, empty for a gap.

    `followed` is as in the engine's report: False if its engine is gone.
    """

    rendition: str
    step: Step
    data: bytes
    followed: bool = False

    @property
    def facts(self) -> StepSegment:
        """The segment as its step has it."""
        return self.step.segments[self.rendition]


class _UnlistedSegment(msgspec.Struct):
    """The segment that a rendition is filling."""

    start: SegmentStart
    parts: list[Part]


class StepBuilder:
    """The incomplete steps of one run.

    `next_sequence` is the number of the next step, `next_inits` that of each rendition's next init
    section, 0 if absent. `last` is the step before; None if there is none. `needed` are the
    codecs of earlier media by rendition.
    """

    def __init__(
        self,
        next_sequence: int,
        next_inits: Mapping[str, int],
        last: Step | None,
        needed: Mapping[str, str],
    ) -> None:
        self.next_sequence = next_sequence
        self.next_inits = dict(next_inits)
        self._names: tuple[str, ...] = ()
        self._sources: dict[int, _StepEpoch] = {}
        self._inits: set[tuple[str, int]] = set()
        self.needed_codecs = dict(needed)  # of decoders for all media so far, by rendition
        self._filling: dict[str, _UnlistedSegment] = {}
        self._open: dict[int, Step] = {}
        self._completed: dict[int, Step] = {}  # not yet stored
        self._to_open = next_sequence
        self._last = last  # the step that was opened last
        self._reached: dict[str, int] = {}  # the next sequence number of each rendition

    @property
    def opened(self) -> int:
        """The number after the newest step that any rendition has reached."""
        return self._to_open

    def continue_after(self, step: Step) -> None:
        """Count a complete step that another process has made, and that is not stored yet."""
        self.next_sequence = self._to_open = step.sequence + 1
        self._completed[step.sequence] = self._last = step
        for name, segment in step.segments.items():
            self.next_inits[name] = max(self.next_inits.get(name, 0), segment.init + 1)

    def prepare(self, epoch: int, renditions: tuple[Rendition, ...], wall_us: int) -> None:
        """Announce a source and its video rungs.

        `wall_us` is the wall clock of the epoch's beginning, unless `start_epoch` corrects it.
        """
        self._names = rendition_names(renditions)
        self._sources[epoch] = _StepEpoch(wall_us)

    def start_epoch(self, start: EpochStart) -> None:
        """Record which packet an announced source is shown from; ignored after its first part."""
        if (source := self._sources.get(start.epoch)) is not None:
            source.wall_us, source.start = start.came_us, start.start

    def add_init(self, init: InitSection) -> None:
        """Add an init section.

        Raises:
            PublicationError: its rendition was not prepared.
        """
        self._check_prepared(init.rendition)
        self._inits.add((init.rendition, init.number))
        before = self.needed_codecs.get(init.rendition, init.codecs)
        self.needed_codecs[init.rendition] = covering_codecs(before, init.codecs)
        next_number = max(self.next_inits.get(init.rendition, 0), init.number + 1)
        self.next_inits[init.rendition] = next_number

    def oldest_inits(self) -> dict[str, int]:
        """Return the oldest init section that unstored steps need, by rendition."""
        needed = {name: each.start.init for name, each in self._filling.items()}
        for step in (*self._open.values(), *self._completed.values()):
            for name, segment in step.segments.items():
                if not segment.gap:
                    needed[name] = min(needed.get(name, segment.init), segment.init)
        return needed

    def unstored_sizes(self) -> dict[str, list[tuple[int, int]]]:
        """Return size and duration of all media of unstored steps, by rendition."""
        sizes: dict[str, list[tuple[int, int]]] = {}
        for step in (*self._completed.values(), *self._open.values()):
            for name, each in step.segments.items():
                if not each.gap:
                    sizes.setdefault(name, []).append((each.size, each.duration))
        for name, filling in self._filling.items():
            sizes.setdefault(name, []).extend(
                (len(part.data), part.duration) for part in filling.parts
            )
        return {name: listed for name, listed in sizes.items() if listed}

    def start_segment(self, start: SegmentStart) -> None:
        """Begin a segment with media, whose parts follow.

        Raises:
            PublicationError: it does not follow the rendition's previous one, or nothing is known
                of its source or its init section.
        """
        self._check_place(start.rendition, start.sequence)
        if start.rendition in self._filling:
            raise PublicationError(f"two segments at once of {start.rendition}")
        self._check_described(start.rendition, start.sequence, start.epoch, start.init)
        self._filling[start.rendition] = _UnlistedSegment(start, [])

    def add_part(self, part: Part) -> tuple[SegmentStart, Step]:
        """Add a part; return the start of its segment, and its step.

        Raises:
            PublicationError: it is not the next part of its rendition.
        """
        self._check_prepared(part.rendition)
        filling = self._filling.get(part.rendition)
        if filling is None or (part.sequence, part.index) != (
            filling.start.sequence,
            len(filling.parts),
        ):
            raise PublicationError(f"part {part.sequence}.{part.index} of {part.rendition}")
        start = filling.start
        step = self._step(start.sequence, start.epoch, start.start, start.discontinuity)
        filling.parts.append(part)
        return start, step

    def drop_parts(self, gap: GapStart) -> int:
        """Drop the parts of a segment that was begun, and return how many there were."""
        filling = self._filling.get(gap.rendition)
        if filling is None or filling.start.sequence != gap.sequence:
            return 0
        del self._filling[gap.rendition]
        return len(filling.parts)

    def add_segment(self, segment: Segment) -> FinishedSegment:
        """Add a segment or a gap.

        Raises:
            PublicationError: it differs from its parts, its source is unknown, or it comes late.
        """
        name, sequence = segment.rendition, segment.sequence
        self._check_place(name, sequence)
        filling = self._filling.get(name)
        parts = [] if filling is None else filling.parts
        # The parts of a gap were abandoned: they stay where they are, but make no segment.
        counted = [] if segment.gap else parts
        data = b"".join(part.data for part in counted)
        begun = filling is None or filling.start.sequence == sequence
        if not begun or (len(counted), len(data)) != (segment.parts, segment.size):
            raise PublicationError(f"segment {sequence} of {name} is not its parts")
        if not segment.gap or segment.epoch not in self._sources:
            self._check_described(name, sequence, segment.epoch, segment.init)
        step = self._step(sequence, segment.epoch, segment.start, segment.discontinuity)
        if step.epoch != segment.epoch:
            raise PublicationError(f"segment {sequence} of {name} comes too late")
        self._filling.pop(name, None)
        return self._close(
            step,
            name,
            StepSegment(
                start=segment.start,
                duration=segment.duration,
                size=segment.size,
                frames=segment.frames,
                parts=len(parts),
                # A new engine does not know older init sections, whose numbers are not reused.
                init=self._newest_init(name, segment.init) if segment.gap else segment.init,
                gap=segment.gap,
                borrowed=not segment.gap and filling is not None and filling.start.borrowed,
            ),
            data,
            followed=segment.followed,
        )

    def complete(self) -> Iterator[Step]:
        """Yield the steps that every rendition has reached, in order, which closes them."""
        while (step := self._open.get(self.next_sequence)) is not None:
            if set(step.segments) != set(self._names):
                return
            del self._open[self.next_sequence]
            self.next_sequence += 1
            self._completed[step.sequence] = step
            yield step

    def forget(self, sequence: int) -> None:
        """Record that a complete step was stored, or was not listed."""
        self._completed.pop(sequence, None)

    def close_open(self) -> Iterator[FinishedSegment]:
        """Close all open steps with the parts that there are, since their engine is gone.

        A rendition without a part of a step gets a gap in it.
        """
        for sequence in sorted(self._open):
            step = self._open[sequence]
            for name in self._names:
                if name not in step.segments:
                    yield self._close_early(step, name)
        self._filling.clear()
        self._reached.clear()

    def _close_early(self, step: Step, name: str) -> FinishedSegment:
        filling = self._filling.get(name)
        if filling is None or filling.start.sequence != step.sequence or not filling.parts:
            start, length = self._extent(step)
            gap = StepSegment(start, length, 0, 0, 0, self._newest_init(name, 0), gap=True)
            return self._close(step, name, gap, b"")
        del self._filling[name]
        data = b"".join(part.data for part in filling.parts)
        segment = StepSegment(
            start=filling.start.start,
            duration=sum(part.duration for part in filling.parts),
            size=len(data),
            frames=0,  # unknown
            parts=len(filling.parts),
            init=filling.start.init,
            borrowed=filling.start.borrowed,
        )
        return self._close(step, name, segment, data)

    def _extent(self, step: Step) -> tuple[int, int]:
        """Return start and duration of the longest segment of a step, complete or not."""
        extents = [(each.duration, each.start) for each in step.segments.values()]
        for filling in self._filling.values():
            if filling.parts and filling.start.sequence == step.sequence:
                duration = sum(part.duration for part in filling.parts)
                extents.append((duration, filling.start.start))
        length, start = max(extents)
        return start, length

    def _close(
        self, step: Step, name: str, segment: StepSegment, data: bytes, *, followed: bool = False
    ) -> FinishedSegment:
        step.segments[name] = segment
        self._reached[name] = step.sequence + 1
        return FinishedSegment(name, step, data, followed)

    def _step(self, sequence: int, epoch: int, start: int, discontinuity: bool) -> Step:
        """Return an open step; open it if this rendition is the first to reach it."""
        if sequence in self._open:
            return self._open[sequence]
        if len(self._open) >= MOST_OPEN:
            raise PublicationError(f"segment {sequence} is too far ahead of other renditions")
        last, origin_us = self._last, self._place_origin(self._sources[epoch], start)
        step = Step(
            sequence=sequence,
            epoch=epoch,
            discontinuity=last is not None and (discontinuity or epoch != last.epoch),
            origin_us=origin_us,
            segments={},
        )
        self._open[sequence] = self._last = step
        self._to_open = sequence + 1
        return step

    def _place_origin(self, source: _StepEpoch, first: int) -> int:
        """Return the wall-clock time of tick 0 for a source whose first segment begins at `first`.

        It never decreases within a run, and neither does the output clock. So the dates of a source
        that came before the end of what is listed, by a clock that was set back or is another
        host's, continue from that end: dates must not go back (RFC 8216bis, 6.2.1).
        """
        if source.origin_us is None:
            place = first if source.start is None else source.start
            origin_us = source.wall_us - rescale(place, VIDEO_SCALE, MICROSECONDS)
            least_us = self._last.origin_us if self._last is not None else origin_us
            source.origin_us = max(origin_us, least_us)
        return source.origin_us

    def _newest_init(self, name: str, at_least: int) -> int:
        return max(at_least, self.next_inits.get(name, 0) - 1)

    def _check_prepared(self, rendition: str) -> None:
        if rendition not in self._names:
            raise PublicationError(f"a rendition that was not prepared: {rendition}")

    def _check_place(self, name: str, sequence: int) -> None:
        """Check that a segment is its rendition's next."""
        self._check_prepared(name)
        expected = self._reached.get(name, self.next_sequence)
        if sequence < expected:
            raise PublicationError(f"segment {sequence} of {name} comes too late")
        if sequence > expected:
            raise PublicationError(f"segment {sequence} of {name} does not follow the previous one")

    def _check_described(self, name: str, sequence: int, epoch: int, init: int) -> None:
        if epoch not in self._sources or (name, init) not in self._inits:
            segment = f"segment {sequence} of {name}"
            raise PublicationError(f"{segment} has an unknown source or init section")
