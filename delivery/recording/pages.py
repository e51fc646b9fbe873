"""The pages of a recording: its steps, their totals, and the playlists made from them.

Pure. A recording consists of the steps that a run listed, as far as their media could be kept. It
is written in pages, so that a day of steps is never rewritten. Each page holds the totals so far,
so that a restart reads only the newest one. Times are ticks of 90 000 a second.

A missing step leaves a discontinuity, and a rendition without media in a step shows a gap there, as
in live playlists (draft-pantos-hls-rfc8216bis, 4.4.4.3 and 4.4.4.7). A rung that was shed for long
is not a variant of the recording.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from delivery.run.run_state import Step, rendition_names, with_measured
from delivery.run.variants import RenditionMeasure, build_multivariant
from media.hls.m3u8 import SegmentLines, render_with
from media.hls.playlist import MediaPlaylist, MultivariantPlaylist, PlaylistSegment
from media.ladder import AUDIO_RENDITION, Rendition
from media.ticks import VIDEO_SCALE

# A page is written once it has `PAGE_STEPS` or spans so much time. After a crash, steps without a
# page are read from the log of the run, whose media are kept for at least 42 s (12 s listed, 30 s
# after that).
PAGE_TICKS: Final = 24 * VIDEO_SCALE
# So much of the time, in percent, a variant has media that were made for it: of an hour, all but 72
# s, which is a rung that was shed a few times. One that lacks more is no choice for viewers: what
# they chose it for, its size or its rate, is not what they get.
_WHOLE_PERCENT: Final = 98


class TimeRange(msgspec.Struct, frozen=True, order=True):
    """A time of the stream's clock, in microseconds since the Unix epoch."""

    from_us: int
    to_us: int


def time_of(step: Step) -> TimeRange:
    """Return the time that a step shows: that of its longest video, or of its audio alone."""
    rungs = [segment for name, segment in step.segments.items() if name != AUDIO_RENDITION]
    shown = max(rungs or step.segments.values(), key=lambda segment: segment.duration)
    return TimeRange(step.wall_us(shown.start), step.wall_us(shown.start + shown.duration))


class RecordingTotals(msgspec.Struct, frozen=True, kw_only=True):
    """The totals of the steps recorded so far; maps are by rendition.

    `sizes` are the bytes of segments and init sections, `inits` the newest init sections, `spans`
    the ticks that the playlists will show, gaps included. `last` is the number of the newest step,
    `longest` the ticks of the longest segment.
    """

    renditions: tuple[Rendition, ...] = ()
    codecs: dict[str, str] = {}
    measures: dict[str, RenditionMeasure] = {}
    sizes: dict[str, int] = {}
    inits: dict[str, int] = {}
    spans: dict[str, int] = {}
    steps: int = 0
    last: int = -1
    longest: int = 0

    @property
    def ticks(self) -> int:
        """The length of the recording, in ticks."""
        return max(self.spans.values(), default=0)

    @property
    def present(self) -> tuple[Rendition, ...]:
        """The rungs that have media, be it another rung's."""
        return tuple(rung for rung in self.renditions if self._has(rung.name))

    @property
    def listed(self) -> tuple[Rendition, ...]:
        """The rungs that are variants: those that are almost as whole as the most complete one."""
        ticks = {name: measure.ticks for name, measure in self.measures.items()}
        ticks.pop(AUDIO_RENDITION, None)
        least = max(ticks.values(), default=0) * _WHOLE_PERCENT
        return tuple(rung for rung in self.present if 100 * ticks[rung.name] >= least)

    @property
    def is_playable(self) -> bool:
        """True if there is any video, or any audio in a run without video."""
        return bool(self.present) if self.renditions else self._has(AUDIO_RENDITION)

    def _has(self, name: str) -> bool:
        return self.sizes.get(name, 0) > 0

    def with_step(
        self,
        step: Step,
        renditions: tuple[Rendition, ...],
        codecs: Mapping[str, str],
        init_sizes: Mapping[str, int],
    ) -> "RecordingTotals":
        """Return the totals with one more step, as returned by `fit_step`.

        `init_sizes` are the bytes of its new init sections, by rendition.
        """
        measures, sizes, spans = dict(self.measures), dict(self.sizes), dict(self.spans)
        inits = dict(self.inits)
        for name, segment in step.segments.items():
            before = measures.get(name, RenditionMeasure())
            spans[name] = spans.get(name, 0) + segment.duration
            measures[name] = with_measured(before, segment, step.epoch)
            if segment.gap:
                continue
            sizes[name] = sizes.get(name, 0) + segment.size + init_sizes.get(name, 0)
            inits[name] = segment.init
        return RecordingTotals(
            renditions=renditions,
            codecs=self.codecs | dict(codecs),
            measures=measures,
            sizes=sizes,
            inits=inits,
            spans=spans,
            steps=self.steps + 1,
            last=step.sequence,
            longest=max(self.longest, *(segment.duration for segment in step.segments.values())),
        )


class RecordingPage(msgspec.Struct, frozen=True, kw_only=True):
    """Consecutive steps of a recording, and the totals up to their end.

    With `closed` nothing follows, although the run may continue.
    """

    form: int = 1
    steps: tuple[Step, ...]
    totals: RecordingTotals = msgspec.field(name="tally")
    closed: bool = False


def fit_step(step: Step, totals: RecordingTotals, lost: Collection[str]) -> Step | None:
    """Return a step as it follows the recorded ones, or None if nothing of it can be played.

    `lost` are the renditions whose media could not be kept; they become gaps.
    """
    follows = step.sequence == totals.last + 1
    # The first step has no predecessor.
    discontinuity = bool(totals.steps) and (step.discontinuity or not follows)
    step = msgspec.structs.replace(step.with_gaps(lost), discontinuity=discontinuity)
    return step if step.playable else None


class RecordedPlaylists:
    """Builds the playlists of a whole recording, whose steps are added page by page.

    `time` is the time that they show so far.
    """

    def __init__(self, totals: RecordingTotals) -> None:
        self.time: TimeRange | None = None
        self._totals = totals
        names = rendition_names(totals.present)
        self._lines = {name: SegmentLines() for name in names}
        self._texts: dict[str, list[str]] = {name: [] for name in names}
        self._last: int | None = None

    def add(self, steps: Iterable[Step]) -> None:
        """Add the next steps; a step after a missing one begins with a discontinuity."""
        followed: list[tuple[Step, bool, bool]] = []
        for step in steps:
            first = self._last is None
            discontinuity = not first and (step.discontinuity or step.sequence - 1 != self._last)
            followed.append((step, discontinuity, discontinuity or first))
            self._last = step.sequence
            time = time_of(step)
            self.time = time if self.time is None else _union(self.time, time)
        for name, lines in self._lines.items():
            listed = [
                _listed(step, name, discontinuity, anchored)
                for step, discontinuity, anchored in followed
            ]
            self._texts[name].append(lines.render(listed))

    def media_playlists(self) -> dict[str, str]:
        """Return the media playlist of each rendition that has media."""
        target = max(1, (2 * self._totals.longest + VIDEO_SCALE) // (2 * VIDEO_SCALE))
        opening = MediaPlaylist(target=target, ended=True, whole=True)
        return {name: render_with(opening, texts) for name, texts in self._texts.items()}

    def multivariant(self, folder: str) -> MultivariantPlaylist:
        """Return the multivariant playlist; the renditions are below `folder`."""
        totals = self._totals
        measures = {name: totals.measures.get(name, RenditionMeasure()) for name in self._lines}
        return build_multivariant(folder, totals.listed, measures, totals.codecs, None)


def _union(one: TimeRange, other: TimeRange) -> TimeRange:
    return TimeRange(min(one.from_us, other.from_us), max(one.to_us, other.to_us))


def _listed(step: Step, name: str, discontinuity: bool, anchored: bool) -> PlaylistSegment:
    """Return the playlist entry of a segment.

    Only the first segment and those after a discontinuity carry the wall clock, since it can be
    computed from the durations in between.
    """
    entry = step.playlist_entry(name)
    return msgspec.structs.replace(
        entry, discontinuity=discontinuity, wall_us=entry.wall_us if anchored else None
    )
