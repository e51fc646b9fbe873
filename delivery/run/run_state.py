"""The steps of a run, the window of its playlists, and the state that a restart resumes from.

Pure. A step is one sequence number in all renditions at once. Playlists gain whole steps, so that
they always show the same time range with the same discontinuities (draft-pantos-hls-rfc8216bis,
6.2.4). Times are ticks of 90 000 a second, wall-clock times microseconds since the Unix epoch.

The steps of a run are a log, in pages of `PAGE_STEPS` by number (`delivery.run.page_log`). The
state is the head of the log: it holds the newest steps, which are in no page, and where the
playlists and the media on disk begin. So it stays small, however long the window is.
"""

from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from delivery.run.variants import RenditionMeasure
from media.hls.playlist import TARGET_SECONDS, MultivariantPlaylist, PlaylistSegment
from media.ladder import AUDIO_RENDITION, Rendition
from media.run_policy import DEFAULTS, ResolvedPolicy
from media.source_mark import ProgrammePlace
from media.ticks import MICROSECONDS, VIDEO_SCALE, rescale

# The state is written with every step and holds one to two pages: 16 to 31 steps, 7 kB at most for
# five renditions. A smaller page would make more files, a larger one more bytes for each step.
PAGE_STEPS: Final = 16


class LiveWindow(msgspec.Struct, frozen=True, kw_only=True):
    """How many seconds of a run its playlists list, and how long segments are kept after that.

    A playlist must hold three target durations, and a segment must be kept for its own length and
    that of the longest playlist after it left the playlist (6.2.2), which `kept_seconds` covers.
    """

    listed_seconds: float = 30.0
    kept_seconds: float = 60.0

    def __post_init__(self) -> None:
        if self.listed_seconds < 3 * TARGET_SECONDS:
            raise ValueError("a live playlist holds three target durations at least: 12 s")
        if self.kept_seconds < self.listed_seconds + TARGET_SECONDS:
            raise ValueError("segments are kept for longer than a playlist is: `listed` and 4 s")

    def reaching_back(self, dvr_seconds: float) -> "LiveWindow":
        """Return the window that lists `dvr_seconds`, or this one if it lists more.

        Segments that left its playlists are kept for as long as the standard demands, if that is
        longer than they are kept now.
        """
        listed = max(self.listed_seconds, dvr_seconds)
        return LiveWindow(
            listed_seconds=listed,
            kept_seconds=max(self.kept_seconds, listed + TARGET_SECONDS),
        )


class StepSegment(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A segment of one rendition of a step; fields as in `media.hls.segment.Segment`.

    With `gap` there is no segment: the engine produced none, or it could not be stored. `init` is
    then the rendition's newest init section, and `parts` counts the parts at the edge. `borrowed`:
    its media are those of another rung (`delivery.run.borrowed_media`).
    """

    start: int
    duration: int
    size: int
    frames: int
    parts: int
    init: int
    # Last, since states that were saved before there were such segments lack them.
    gap: bool = False
    borrowed: bool = False

    @property
    def is_own(self) -> bool:
        """True if the rendition has media that were made for it."""
        return not self.gap and not self.borrowed


class Step(msgspec.Struct, frozen=True, array_like=True):
    """One sequence number in all renditions; `segments` is by rendition.

    It gains segments until every rendition has reached it, and does not change after that.

    `origin_us` is the wall-clock time of tick 0 of the output clock, according to its source.
    """

    sequence: int
    epoch: int
    discontinuity: bool
    origin_us: int
    segments: dict[str, StepSegment]

    @property
    def end(self) -> int:
        """The end of its longest rendition, in ticks of the output clock."""
        return max(segment.start + segment.duration for segment in self.segments.values())

    @property
    def gaps(self) -> frozenset[str]:
        """The renditions without a segment in this step."""
        return frozenset(name for name, segment in self.segments.items() if segment.gap)

    @property
    def lacking(self) -> frozenset[str]:
        """The renditions without media of their own in this step."""
        return frozenset(name for name, segment in self.segments.items() if not segment.is_own)

    @property
    def playable(self) -> bool:
        """True if it has a segment of a video rung, or of audio in a run without video."""
        rungs = self.segments.keys() - {AUDIO_RENDITION}
        return bool((rungs or self.segments.keys()) - self.gaps)

    def with_gaps(self, lost: Collection[str]) -> "Step":
        """Return the step without the media of some renditions, which become gaps."""
        segments = {
            name: msgspec.structs.replace(segment, size=0, frames=0, gap=True, borrowed=False)
            if name in lost
            else segment
            for name, segment in self.segments.items()
        }
        return msgspec.structs.replace(self, segments=segments)

    def wall_us(self, start: int) -> int:
        """Return the wall-clock time of a sample at `start`, in ticks of the output clock."""
        return self.origin_us + rescale(start, VIDEO_SCALE, MICROSECONDS)

    def playlist_entry(self, rendition: str) -> PlaylistSegment:
        """Return the playlist entry of a rendition's segment."""
        segment = self.segments[rendition]
        return PlaylistSegment(
            uri=f"{self.sequence}.m4s",
            duration=segment.duration,
            map_uri=None if segment.gap else f"init-{segment.init}.mp4",
            discontinuity=self.discontinuity,
            wall_us=self.wall_us(segment.start),
            gap=segment.gap,
            start=segment.start,
        )


class StepPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a run's log: of page N, the steps from the number `N * PAGE_STEPS` on."""

    form: int = 1
    steps: tuple[Step, ...]


class RunState(msgspec.Struct, frozen=True, kw_only=True):
    """The state that a restart resumes from, saved beside the segments with each source and step.

    `tail` are the newest steps, which are in no page of the log. `first` and `discontinuities` are
    EXT-X-MEDIA-SEQUENCE and EXT-X-DISCONTINUITY-SEQUENCE, `next_sequence` is the number of the next
    step, and `opened` the first number of which viewers have not seen any part. `oldest_shown` is
    the oldest step that the playlists on disk may name, since those may be older than this state;
    `oldest` is the oldest step that may have media on disk, and `oldest_inits` are the oldest init
    sections, by rendition. `announced` is the current multivariant playlist. `generation` is that
    of the host that wrote the state (`delivery.run.run_objects`). `part_target` is that of the
    newest source, in ticks; 0 if it was written before states had it. `policy` is what was set when
    the run began; None if it began before states had it. `place` is where the programme is in the
    newest media, None if nothing is known of that.
    """

    form: int = 2
    renditions: tuple[Rendition, ...] = ()
    epochs: int = 0
    next_sequence: int = 0
    first: int = 0
    discontinuities: int = 0
    tail: tuple[Step, ...] = ()
    oldest: int = 0
    oldest_inits: dict[str, int] = {}
    oldest_shown: int = msgspec.field(default=0, name="shown")
    opened: int = 0
    measures: dict[str, RenditionMeasure] = {}
    announced: MultivariantPlaylist | None = None
    written_us: int = 0
    ended: bool = False
    generation: int = 0
    part_target: int = 0
    policy: ResolvedPolicy | None = None
    place: ProgrammePlace | None = None

    @property
    def known_policy(self) -> ResolvedPolicy:
        """What was set when the run began, or else the defaults."""
        return DEFAULTS if self.policy is None else self.policy

    @property
    def has_steps(self) -> bool:
        """False until the first step: what viewers have seen by then, only the edge has."""
        return bool(self.tail)

    @property
    def end(self) -> int:
        """The end of the stored media, in ticks of the output clock; 0 before the first step."""
        return self.tail[-1].end if self.tail else 0

    @property
    def announced_codecs(self) -> dict[str, str]:
        """The codecs of the renditions in the multivariant playlist."""
        codecs: dict[str, str] = {}
        for variant in () if self.announced is None else self.announced.variants:
            names = (variant.uri.split("/")[-2], AUDIO_RENDITION)
            codecs |= zip(names, variant.codecs, strict=False)
        return codecs

    def left_at(self, steps: Sequence[Step]) -> tuple[int, ProgrammePlace] | None:
        """Return where the pictures end, on the output clock, and where the programme is in them.

        `steps` are the newest that viewers have. None if one of the two is not known. A rung may
        end before the others, unless it has ended in a gap for longer than a step.
        """
        ends: dict[str, int] = {}
        for step in steps[-2:]:
            for name, each in step.segments.items():
                if name != AUDIO_RENDITION and not each.gap:
                    ends[name] = each.start + each.duration
        return (min(ends.values()), self.place) if ends and self.place is not None else None

    def with_step(self, step: Step, *, first: int, discontinuities: int) -> "RunState":
        """Return the state with `step` listed; the playlists begin with the step `first` now."""
        measures = {
            name: with_measured(self.measures.get(name, RenditionMeasure()), segment, step.epoch)
            for name, segment in step.segments.items()
        }
        return msgspec.structs.replace(
            self,
            next_sequence=step.sequence + 1,
            first=first,
            discontinuities=discontinuities,
            tail=(*self.tail, step),
            measures=measures,
        )

    def next_page(self) -> tuple[int, StepPage] | None:
        """Return the page that is due, with its number; None if the tail is short enough."""
        if len(self.tail) < 2 * PAGE_STEPS:
            return None
        number = self.tail[0].sequence // PAGE_STEPS
        steps = [step for step in self.tail[:PAGE_STEPS] if step.sequence // PAGE_STEPS == number]
        return number, StepPage(steps=tuple(steps))


class _StepsWithoutLog(msgspec.Struct):
    """The steps of a state from before there was a log (form 1): all that are on disk."""

    form: int = 1
    listed: tuple[Step, ...] = ()
    unlisted: tuple[Step, ...] = msgspec.field(default=(), name="left")


def decode_state(text: bytes) -> RunState:
    """Return the state of a run, of this form or an older one.

    Raises:
        msgspec.MsgspecError: it is no state.
    """
    state = msgspec.json.decode(text, type=RunState)
    older = msgspec.json.decode(text, type=_StepsWithoutLog)
    if older.form != 1:
        return state
    steps = (*older.unlisted, *older.listed)
    inits: dict[str, int] = {}
    for step in steps:
        for name, segment in step.segments.items():
            inits[name] = min(segment.init, inits.get(name, segment.init))
    return msgspec.structs.replace(
        state,
        form=2,
        tail=steps,
        oldest=steps[0].sequence if steps else 0,
        oldest_inits=inits,
    )


def with_measured(measure: RenditionMeasure, segment: StepSegment, epoch: int) -> RenditionMeasure:
    """Return the measure of a rendition with its segment in a step of the source `epoch`."""
    if not segment.is_own:
        return measure.with_gap()
    return measure.with_segment(segment.size, segment.duration, frames=segment.frames, epoch=epoch)


def next_init_numbers(state: RunState) -> dict[str, int]:
    """Return the number of each rendition's next init section, from the newest steps.

    There are no renditions before the first source.
    """
    following = dict.fromkeys(rendition_names(state.renditions), 0) if state.epochs else {}
    for step in state.tail:
        for name, segment in step.segments.items():
            following[name] = max(following.get(name, 0), segment.init + 1)
    return following


def lost_steps(state: RunState) -> list[Step]:
    """Return the steps of which viewers may have seen parts that no store has.

    They have no media and last no time.
    """
    if not state.tail:
        return []
    last = state.tail[-1]
    segments = {
        name: StepSegment(each.start + each.duration, 0, 0, 0, 0, each.init, gap=True)
        for name, each in last.segments.items()
    }
    return [
        Step(
            sequence=sequence,
            epoch=last.epoch,
            discontinuity=False,
            origin_us=last.origin_us,
            segments=segments,
        )
        for sequence in range(state.next_sequence, state.opened)
    ]


def rendition_names(renditions: tuple[Rendition, ...]) -> tuple[str, ...]:
    """Return the names of all renditions of a run, including the audio that every run has."""
    return (*(rung.name for rung in renditions), AUDIO_RENDITION)
