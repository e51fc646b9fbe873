"""Puts an engine's reports together: parts to segments, segments of all renditions to steps.

Pure. What is not whole stays here and can be dropped; what is whole goes to the publication.
"""

from collections.abc import Mapping

import msgspec

from media.hls.segment import InitSection, Part, Segment
from media.ladder import Rendition
from media.ticks import MICROSECONDS, VIDEO_SCALE, rescale
from storage.errors import StorageError
from storage.live.run_state import Cut, Step, names_of

__all__ = ["PublicationError", "StepBuilder"]


class PublicationError(StorageError):
    """An engine's report does not fit what came before it: the engine's fault, not the disk's."""


class _Source(msgspec.Struct):
    """An epoch: the wall clock of its first frame, and of the output clock's tick 0 once known."""

    wall_us: int
    origin_us: int | None = None


class _Open(msgspec.Struct):
    """A step that not every rendition has reached."""

    epoch: int
    discontinuity: bool = False
    cuts: dict[str, Cut] = {}


class StepBuilder:
    """The steps of one run that are being made.

    `following` is the number of the next one, `next_inits` that of each rendition's next init
    section; absent is 0.
    """

    def __init__(self, following: int, next_inits: Mapping[str, int]) -> None:
        self.following = following
        self.next_inits = dict(next_inits)
        self._names: tuple[str, ...] = ()
        self._sources: dict[int, _Source] = {}
        self._codecs: dict[tuple[str, int], str] = {}
        self._parts: dict[str, list[Part]] = {}
        self._open: dict[int, _Open] = {}
        self._left_out = False
        self._epoch: int | None = None

    def prepare(self, epoch: int, renditions: tuple[Rendition, ...], wall_us: int) -> None:
        """Expect a source's media."""
        self._names = names_of(renditions)
        self._sources[epoch] = _Source(wall_us)

    def init(self, init: InitSection) -> None:
        """Note an init section.

        Raises:
            PublicationError: its rendition was not prepared.
        """
        self._check(init.rendition)
        self._codecs[init.rendition, init.number] = init.codecs
        following = max(self.next_inits.get(init.rendition, 0), init.number + 1)
        self.next_inits[init.rendition] = following

    def codecs(self, step: Step) -> dict[str, str]:
        """Return the coding of each rendition of a step; absent is a gap of one never described."""
        kinds = {name: (name, cut.init) for name, cut in step.cuts.items()}
        return {name: self._codecs[kind] for name, kind in kinds.items() if kind in self._codecs}

    def oldest_inits(self) -> dict[str, int]:
        """Return the lowest number of an init section that open steps need, by rendition."""
        needed: dict[str, int] = {}
        for step in self._open.values():
            for name, cut in step.cuts.items():
                if not cut.gap:
                    needed[name] = min(needed.get(name, cut.init), cut.init)
        return needed

    def part(self, part: Part) -> None:
        """Note a part.

        Raises:
            PublicationError: it is not the one that follows.
        """
        self._check(part.rendition)
        parts = self._parts.setdefault(part.rendition, [])
        if part.index == 0:
            parts.clear()
        if part.index != len(parts) or (parts and part.sequence != parts[0].sequence):
            raise PublicationError(f"part {part.sequence}.{part.index} of {part.rendition}")
        parts.append(part)

    def segment(self, segment: Segment) -> bytes:
        """Note a segment and return its bytes: its parts, joined; nothing for a gap.

        Raises:
            PublicationError: it is not its parts, or comes from an unknown source, or too late.
        """
        name, sequence = segment.rendition, segment.sequence
        self._check(name)
        parts = self._parts.pop(name, [])
        made = [part for part in parts if part.sequence == sequence]
        # Parts of a gap are those of a segment that was given up: they count for nothing.
        counted = [] if segment.gap else made
        data = b"".join(part.data for part in counted)
        if len(made) != len(parts) or (len(counted), len(data)) != (segment.parts, segment.size):
            raise PublicationError(f"segment {sequence} of {name} is not its parts")
        described = segment.gap or (name, segment.init) in self._codecs
        if segment.epoch not in self._sources or not described:
            raise PublicationError(f"segment {sequence} of {name} comes from nowhere")
        step = self._open.setdefault(sequence, _Open(segment.epoch))
        if sequence < self.following or step.epoch != segment.epoch or name in step.cuts:
            raise PublicationError(f"segment {sequence} of {name} comes too late")
        step.discontinuity |= segment.discontinuity
        # A new engine knows nothing of older init sections, and their numbers are used once.
        newest = max(segment.init, self.next_inits.get(name, 0) - 1)
        step.cuts[name] = Cut(
            start=segment.start,
            duration=segment.duration,
            size=segment.size,
            frames=segment.frames,
            parts=len(parts),
            init=newest if segment.gap else segment.init,
            gap=segment.gap,
        )
        return data

    def lost(self, rendition: str, sequence: int) -> None:
        """Note that a segment could not be stored: its step has a gap there."""
        cuts = self._open[sequence].cuts
        cuts[rendition] = msgspec.structs.replace(cuts[rendition], size=0, frames=0, gap=True)

    def left_out(self) -> None:
        """Note that a step was left out: the next one does not continue what is listed."""
        self._left_out = True

    def close(self, sequence: int) -> Step | None:
        """Return a step that all renditions have reached, or None where one of them has not.

        A step before it that some rendition never made is dropped.
        """
        if set(self._open[sequence].cuts) != set(self._names):
            return None
        step = self._open.pop(sequence)
        for older in [number for number in self._open if number < sequence]:
            del self._open[older]
            self._left_out = True
        self.following = sequence + 1
        other = self._epoch is not None and step.epoch != self._epoch
        return Step(
            sequence=sequence,
            epoch=step.epoch,
            discontinuity=step.discontinuity or self._left_out or other,
            origin_us=self._origin(step),
            cuts=step.cuts,
        )

    def listed(self, step: Step) -> None:
        """Note that viewers have a step: what follows can continue it."""
        self._left_out = False
        self._epoch = step.epoch

    def drop(self) -> None:
        """Forget all that is not whole: the engine that was making it is gone."""
        self._open.clear()
        self._parts.clear()

    def _origin(self, step: _Open) -> int:
        """Return the wall clock at tick 0, by the first step of the source."""
        source = self._sources[step.epoch]
        if source.origin_us is None:
            lead = step.cuts[self._names[0]]  # the largest picture, or the sound
            source.origin_us = source.wall_us - rescale(lead.start, VIDEO_SCALE, MICROSECONDS)
        return source.origin_us

    def _check(self, rendition: str) -> None:
        if rendition not in self._names:
            raise PublicationError(f"a rendition that was not prepared: {rendition}")
