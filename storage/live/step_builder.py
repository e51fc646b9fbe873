"""Assembles an engine's reports: parts into segments, segments of all renditions into steps.

Pure. Incomplete segments and steps stay here and can be dropped; complete steps go to the
publication.
"""

from collections.abc import Mapping

import msgspec

from media.hls.segment import InitSection, Part, Segment
from media.ladder import Rendition
from media.ticks import MICROSECONDS, VIDEO_SCALE, rescale
from storage.errors import StorageError
from storage.live.run_state import Step, StepSegment, rendition_names

__all__ = ["PublicationError", "StepBuilder"]


class PublicationError(StorageError):
    """A report does not fit the previous ones: the engine's fault, not the disk's."""


class _Epoch(msgspec.Struct):
    """The wall clock of a source's first frame, and of tick 0 of the output clock once known."""

    wall_us: int
    origin_us: int | None = None


class _OpenStep(msgspec.Struct):
    """A step that some renditions have not reached yet."""

    epoch: int
    discontinuity: bool = False
    segments: dict[str, StepSegment] = {}


class StepBuilder:
    """The incomplete steps of one run.

    `next_sequence` is the number of the next step, `next_inits` that of each rendition's next init
    section, 0 if absent.
    """

    def __init__(self, next_sequence: int, next_inits: Mapping[str, int]) -> None:
        self.following = next_sequence
        self.next_inits = dict(next_inits)
        self._names: tuple[str, ...] = ()
        self._sources: dict[int, _Epoch] = {}
        self._codecs: dict[tuple[str, int], str] = {}
        self._parts: dict[str, list[Part]] = {}
        self._open: dict[int, _OpenStep] = {}
        self._skipped = False
        self._epoch: int | None = None

    def prepare(self, epoch: int, renditions: tuple[Rendition, ...], wall_us: int) -> None:
        """Announce a source and its video rungs."""
        self._names = rendition_names(renditions)
        self._sources[epoch] = _Epoch(wall_us)

    def add_init(self, init: InitSection) -> None:
        """Add an init section.

        Raises:
            PublicationError: its rendition was not prepared.
        """
        self._check_prepared(init.rendition)
        self._codecs[init.rendition, init.number] = init.codecs
        next_sequence = max(self.next_inits.get(init.rendition, 0), init.number + 1)
        self.next_inits[init.rendition] = next_sequence

    def codecs(self, step: Step) -> dict[str, str]:
        """Return the codecs of a step by rendition, as far as init sections told them."""
        kinds = {name: (name, segment.init) for name, segment in step.segments.items()}
        return {name: self._codecs[kind] for name, kind in kinds.items() if kind in self._codecs}

    def oldest_inits(self) -> dict[str, int]:
        """Return the oldest init section that open steps need, by rendition."""
        needed: dict[str, int] = {}
        for step in self._open.values():
            for name, segment in step.segments.items():
                if not segment.gap:
                    needed[name] = min(needed.get(name, segment.init), segment.init)
        return needed

    def add_part(self, part: Part) -> None:
        """Add a part.

        Raises:
            PublicationError: it is not the next part of its rendition.
        """
        self._check_prepared(part.rendition)
        parts = self._parts.setdefault(part.rendition, [])
        if part.index == 0:
            parts.clear()
        if part.index != len(parts) or (parts and part.sequence != parts[0].sequence):
            raise PublicationError(f"part {part.sequence}.{part.index} of {part.rendition}")
        parts.append(part)

    def add_segment(self, segment: Segment) -> bytes:
        """Add a segment and return its bytes: its joined parts, or nothing for a gap.

        Raises:
            PublicationError: it differs from its parts, its source is unknown, or it is late.
        """
        name, sequence = segment.rendition, segment.sequence
        self._check_prepared(name)
        parts = self._parts.pop(name, [])
        own = [part for part in parts if part.sequence == sequence]
        # The parts of a gap belong to an abandoned segment and do not count.
        counted = [] if segment.gap else own
        data = b"".join(part.data for part in counted)
        if len(own) != len(parts) or (len(counted), len(data)) != (segment.parts, segment.size):
            raise PublicationError(f"segment {sequence} of {name} is not its parts")
        described = segment.gap or (name, segment.init) in self._codecs
        if segment.epoch not in self._sources or not described:
            raise PublicationError(f"segment {sequence} of {name} comes from nowhere")
        step = self._open.setdefault(sequence, _OpenStep(segment.epoch))
        if sequence < self.following or step.epoch != segment.epoch or name in step.segments:
            raise PublicationError(f"segment {sequence} of {name} comes too late")
        step.discontinuity |= segment.discontinuity
        # A new engine does not know older init sections, whose numbers are not reused.
        newest = max(segment.init, self.next_inits.get(name, 0) - 1)
        step.segments[name] = StepSegment(
            start=segment.start,
            duration=segment.duration,
            size=segment.size,
            frames=segment.frames,
            parts=len(parts),
            init=newest if segment.gap else segment.init,
            gap=segment.gap,
        )
        return data

    def mark_gap(self, rendition: str, sequence: int) -> None:
        """Turn a segment that could not be stored into a gap of its step."""
        cuts = self._open[sequence].segments
        cuts[rendition] = msgspec.structs.replace(cuts[rendition], size=0, frames=0, gap=True)

    def mark_skipped(self) -> None:
        """Record that a step was skipped, so that the next one begins with a discontinuity."""
        self._skipped = True

    def complete(self, sequence: int) -> Step | None:
        """Return a step if every rendition has reached it, else None.

        Earlier steps that are still incomplete are dropped.
        """
        if set(self._open[sequence].segments) != set(self._names):
            return None
        step = self._open.pop(sequence)
        for older in [number for number in self._open if number < sequence]:
            del self._open[older]
            self._skipped = True
        self.following = sequence + 1
        new_epoch = self._epoch is not None and step.epoch != self._epoch
        return Step(
            sequence=sequence,
            epoch=step.epoch,
            discontinuity=step.discontinuity or self._skipped or new_epoch,
            origin_us=self._epoch_origin(step),
            segments=step.segments,
        )

    def mark_listed(self, step: Step) -> None:
        """Record that a step was listed, so that the next one can continue it."""
        self._skipped = False
        self._epoch = step.epoch

    def drop_open(self) -> None:
        """Drop all incomplete steps and segments, whose engine is gone."""
        self._open.clear()
        self._parts.clear()

    def _epoch_origin(self, step: _OpenStep) -> int:
        """Return the wall clock at tick 0, computed from the first step of the source."""
        source = self._sources[step.epoch]
        if source.origin_us is None:
            lead = step.segments[self._names[0]]  # the largest video rung, or the audio
            source.origin_us = source.wall_us - rescale(lead.start, VIDEO_SCALE, MICROSECONDS)
        return source.origin_us

    def _check_prepared(self, rendition: str) -> None:
        if rendition not in self._names:
            raise PublicationError(f"a rendition that was not prepared: {rendition}")
