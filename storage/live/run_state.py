"""What a run of a live stream has listed, as values: its steps, its playlists, its notes.

Pure. A step is one sequence number in all renditions at once: what every playlist gains together,
so that they always show the same stretch with the same discontinuities
(draft-pantos-hls-rfc8216bis, 6.2.4). Times are ticks of 90 000 a second, wall-clock times
microseconds since the Unix epoch.

The Media Sequence Number of a segment counts what was listed and need not be the number in its
name: a step that could not be listed leaves a hole in the names and none in the playlist. A step
is listed when a rung of it is there; renditions that have nothing then show a gap.
"""

import msgspec

from media.hls.playlist import Listed, MediaPlaylist, MultivariantPlaylist
from media.ladder import AUDIO_RENDITION, Rendition
from media.ticks import MICROSECONDS, VIDEO_SCALE, rescale
from storage.live.variants import Measure

__all__ = [
    "Cut",
    "RunNotes",
    "Step",
    "Window",
    "names_of",
    "next_inits_of",
    "playlists_of",
    "surplus",
]


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a run is there: seconds in its playlists, and seconds on disk after that.

    A playlist must hold three target durations, and a segment must stay for its own length and the
    longest playlist's after it left (6.2.2): `kept` covers that from one window on.
    """

    listed: float = 30.0
    kept: float = 60.0

    def __post_init__(self) -> None:
        if self.listed < 3 * MediaPlaylist().target:
            raise ValueError("a live playlist holds three target durations at least: 12 s")
        if self.kept < self.listed + MediaPlaylist().target:
            raise ValueError("segments are kept for longer than a playlist is: `listed` and 4 s")


class Cut(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A segment of one rendition, as `media.hls.segment.Segment` tells it.

    `gap` says that there is none: the engine made none, or it could not be stored. `init` is then
    the number of the rendition's newest init section, `parts` counts what the edge was given.
    """

    start: int
    duration: int
    size: int
    frames: int
    parts: int
    init: int
    gap: bool = False  # at the end: notes that were written before there were gaps have no such


class Step(msgspec.Struct, frozen=True, array_like=True):
    """One sequence number in all renditions, by name.

    `origin_us` is the wall-clock time at tick 0 of the output clock, by this step's source.
    """

    sequence: int
    epoch: int
    discontinuity: bool
    origin_us: int
    cuts: dict[str, Cut]

    @property
    def end(self) -> int:
        """Where its longest rendition ends."""
        return max(cut.start + cut.duration for cut in self.cuts.values())

    @property
    def gaps(self) -> frozenset[str]:
        """The renditions that have nothing here."""
        return frozenset(name for name, cut in self.cuts.items() if cut.gap)

    @property
    def playable(self) -> bool:
        """Whether a rung is there; where the run has no picture, its sound."""
        rungs = self.cuts.keys() - {AUDIO_RENDITION}
        return bool((rungs or self.cuts.keys()) - self.gaps)

    def listed(self, rendition: str) -> Listed:
        """Return the segment of a rendition as its playlist names it."""
        cut = self.cuts[rendition]
        return Listed(
            uri=f"{self.sequence}.m4s",
            duration=cut.duration,
            map_uri=None if cut.gap else f"init-{cut.init}.mp4",
            discontinuity=self.discontinuity,
            wall_us=self.origin_us + rescale(cut.start, VIDEO_SCALE, MICROSECONDS),
            gap=cut.gap,
        )


class RunNotes(msgspec.Struct, frozen=True, kw_only=True):
    """All that a restart needs to go on with a run: kept beside its segments, replaced each step.

    `listed` are the steps that the playlists show, `left` those that left them and are still on
    disk. `first` and `discontinuities` are the playlists' EXT-X-MEDIA-SEQUENCE and
    EXT-X-DISCONTINUITY-SEQUENCE, `next_sequence` the first number that no step was given.
    `shown` is the number of the oldest step that the playlists on disk may name, for those may be
    older than the notes. `announced` is the multivariant playlist that viewers have.
    """

    form: int = 1
    renditions: tuple[Rendition, ...] = ()
    epochs: int = 0
    next_sequence: int = 0
    first: int = 0
    discontinuities: int = 0
    listed: tuple[Step, ...] = ()
    left: tuple[Step, ...] = ()
    shown: int = 0
    measures: dict[str, Measure] = {}
    announced: MultivariantPlaylist | None = None
    written_us: int = 0
    ended: bool = False

    @property
    def end(self) -> int:
        """Where the listed media end on the output clock; 0 before there are any."""
        return self.listed[-1].end if self.listed else 0

    def next(self, step: Step, playlist: MediaPlaylist) -> "RunNotes":
        """Return the notes with `step` listed; `playlist` is the next one of any rendition."""
        drop = playlist.sequence - self.first
        measures = {
            name: _measured(self.measures.get(name, Measure()), cut, step.epoch)
            for name, cut in step.cuts.items()
        }
        return msgspec.structs.replace(
            self,
            next_sequence=step.sequence + 1,
            first=playlist.sequence,
            discontinuities=playlist.discontinuities,
            listed=(*self.listed[drop:], step),
            left=(*self.left, *self.listed[:drop]),
            measures=measures,
        )


def _measured(measure: Measure, cut: Cut, epoch: int) -> Measure:
    if cut.gap:
        return measure.gap()
    return measure.next(cut.size, cut.duration, frames=cut.frames, epoch=epoch)


def next_inits_of(notes: RunNotes) -> dict[str, int]:
    """Return the number of each rendition's next init section, by what is on disk."""
    following: dict[str, int] = {}
    for step in (*notes.left, *notes.listed):
        for name, cut in step.cuts.items():
            following[name] = max(following.get(name, 0), cut.init + 1)
    return following


def names_of(renditions: tuple[Rendition, ...]) -> tuple[str, ...]:
    """Return the names of all renditions of a run, the sound that every run has included."""
    return (*(rung.name for rung in renditions), AUDIO_RENDITION)


def surplus(listed: tuple[Step, ...], step: Step, seconds: float) -> int:
    """Return how many of the oldest steps can go when `step` comes.

    What is left covers `seconds` in every rendition, so that all drop the same steps.
    """
    wanted = round(seconds * VIDEO_SCALE)
    total = dict.fromkeys(step.cuts, 0)
    for place, old in enumerate(reversed((*listed, step))):
        if min(total.values()) >= wanted:
            return len(listed) + 1 - place
        for name in total:
            total[name] += old.cuts[name].duration
    return 0


def playlists_of(notes: RunNotes) -> dict[str, MediaPlaylist]:
    """Return the media playlists of all renditions."""
    return {
        name: MediaPlaylist(
            sequence=notes.first,
            discontinuities=notes.discontinuities,
            segments=tuple(step.listed(name) for step in notes.listed),
            ended=notes.ended,
        )
        for name in names_of(notes.renditions)
    }
