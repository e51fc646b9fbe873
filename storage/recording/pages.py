"""What is kept of a live run, as values: pages of its steps, and what they come to.

Pure. A record is the steps that a run listed, as far as their media could be kept; it is written in
pages, so that a day of them is never written twice. What the pages come to stands in the newest
one, so that a restart reads one and no more. Times are ticks of 90 000 a second.

A step that is missing leaves a discontinuity, a rendition that has nothing in a step shows a gap
there, as in the live playlists (draft-pantos-hls-rfc8216bis, 4.4.4.3 and 4.4.4.7).
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from media.hls.m3u8 import SegmentLines, enclosed
from media.hls.playlist import Listed, MediaPlaylist, MultivariantPlaylist
from media.ladder import AUDIO_RENDITION, Rendition
from media.ticks import MICROSECONDS, VIDEO_SCALE, rescale
from storage.live.run_state import RunNotes, Step, names_of
from storage.live.variants import Measure, announce

__all__ = [
    "PAGE_STEPS",
    "PAGE_TICKS",
    "Page",
    "RecordedPlaylists",
    "Tally",
    "codecs_by",
    "fitted",
]

# A page is written when it has so many steps, or so much time. Steps that no page has yet must
# stand in the run's notes, for a crash: those hold 42 s at the least that can be set (12 s listed,
# 30 s kept).
PAGE_STEPS: Final = 16
PAGE_TICKS: Final = 24 * VIDEO_SCALE


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """What the steps recorded so far come to; maps are by rendition.

    `sizes` are the bytes of segments and init sections, `inits` the numbers of the newest of these,
    `spans` the ticks that the playlists will show, gaps included. `last` is the number of the
    newest step, `longest` the ticks of the longest segment.
    """

    renditions: tuple[Rendition, ...] = ()
    codecs: dict[str, str] = {}
    measures: dict[str, Measure] = {}
    sizes: dict[str, int] = {}
    inits: dict[str, int] = {}
    spans: dict[str, int] = {}
    steps: int = 0
    last: int = -1
    longest: int = 0

    @property
    def ticks(self) -> int:
        """The length of the record."""
        return max(self.spans.values(), default=0)

    @property
    def present(self) -> tuple[Rendition, ...]:
        """The rungs that there are media of."""
        return tuple(rung for rung in self.renditions if self._has(rung.name))

    @property
    def plays(self) -> bool:
        """Whether there is anything to be seen; where the run has no picture, to be heard."""
        return bool(self.present) if self.renditions else self._has(AUDIO_RENDITION)

    def _has(self, name: str) -> bool:
        return self.measures.get(name, Measure()).ticks > 0

    def next(
        self,
        step: Step,
        renditions: tuple[Rendition, ...],
        codecs: Mapping[str, str],
        fresh: Mapping[str, int],
    ) -> "Tally":
        """Return the tally with one more step, as `fitted` returned it.

        `fresh` are the bytes of init sections that came with it, by rendition.
        """
        measures, sizes, spans = dict(self.measures), dict(self.sizes), dict(self.spans)
        inits = dict(self.inits)
        for name, cut in step.cuts.items():
            before = measures.get(name, Measure())
            spans[name] = spans.get(name, 0) + cut.duration
            if cut.gap:
                measures[name] = before.gap()
                continue
            measures[name] = before.next(
                cut.size, cut.duration, frames=cut.frames, epoch=step.epoch
            )
            sizes[name] = sizes.get(name, 0) + cut.size + fresh.get(name, 0)
            inits[name] = cut.init
        return Tally(
            renditions=renditions,
            codecs=self.codecs | dict(codecs),
            measures=measures,
            sizes=sizes,
            inits=inits,
            spans=spans,
            steps=self.steps + 1,
            last=step.sequence,
            longest=max(self.longest, *(cut.duration for cut in step.cuts.values())),
        )


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """Some steps of a record in their order, and what it comes to with them.

    `closed` says that nothing is to follow, although the run may go on.
    """

    form: int = 1
    steps: tuple[Step, ...]
    tally: Tally
    closed: bool = False


def fitted(step: Step, tally: Tally, lost: Collection[str]) -> Step | None:
    """Return a step as it follows what is recorded; `lost` are renditions whose media are not kept.

    None where nothing of it can be played: it is left out.
    """
    cuts = {
        name: msgspec.structs.replace(cut, size=0, frames=0, gap=True) if name in lost else cut
        for name, cut in step.cuts.items()
    }
    follows = step.sequence == tally.last + 1
    # Before the first there is nothing to differ from.
    parted = bool(tally.steps) and (step.discontinuity or not follows)
    step = msgspec.structs.replace(step, cuts=cuts, discontinuity=parted)
    return step if step.playable else None


def codecs_by(notes: RunNotes) -> dict[str, str]:
    """Return the coding of each rendition that a run's multivariant playlist names."""
    found: dict[str, str] = {}
    for variant in () if notes.announced is None else notes.announced.variants:
        names = (variant.uri.split("/")[-2], AUDIO_RENDITION)
        found |= zip(names, variant.codecs, strict=False)
    return found


class RecordedPlaylists:
    """The playlists of a whole record, whose steps come page by page."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        names = names_of(tally.present)
        self._lines = {name: SegmentLines() for name in names}
        self._texts: dict[str, list[str]] = {name: [] for name in names}
        self._last: int | None = None

    def add(self, steps: Iterable[Step]) -> None:
        """Take the next steps; what is missing before one parts it from the last."""
        followed: list[tuple[Step, bool, bool]] = []
        for step in steps:
            first = self._last is None
            parted = not first and (step.discontinuity or step.sequence - 1 != self._last)
            followed.append((step, parted, parted or first))
            self._last = step.sequence
        for name, lines in self._lines.items():
            listed = [_listed(step, name, parted, anchored) for step, parted, anchored in followed]
            self._texts[name].append(lines.text(listed))

    def media(self) -> dict[str, str]:
        """Return the media playlist of each rendition that there are media of."""
        target = max(1, (2 * self._tally.longest + VIDEO_SCALE) // (2 * VIDEO_SCALE))
        opening = MediaPlaylist(target=target, ended=True, whole=True)
        return {name: enclosed(opening, texts) for name, texts in self._texts.items()}

    def variants(self, folder: str) -> MultivariantPlaylist:
        """Return the multivariant playlist; the renditions stand in `folder`."""
        tally = self._tally
        measures = {name: tally.measures.get(name, Measure()) for name in self._lines}
        return announce(folder, tally.present, measures, tally.codecs, None)


def _listed(step: Step, name: str, parted: bool, anchored: bool) -> Listed:
    """Return a segment as its playlist names it.

    The wall clock is told where it may jump and counted on from there: between discontinuities it
    says nothing that the durations do not.
    """
    cut = step.cuts[name]
    wall_us: int | None = None
    if anchored:
        wall_us = step.origin_us + rescale(cut.start, VIDEO_SCALE, MICROSECONDS)
    return Listed(
        uri=f"{step.sequence}.m4s",
        duration=cut.duration,
        map_uri=None if cut.gap else f"init-{cut.init}.mp4",
        discontinuity=parted,
        wall_us=wall_us,
        gap=cut.gap,
    )
