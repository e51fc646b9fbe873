"""What is made of a film in one piece, and what is planned of the rest: values, and their rules.

Pure.
"""

from typing import Final

import msgspec

from media.ladder import STANDARD_LABELS, Ladder, Rendition, ladder_for
from media.ticks import MICROSECONDS, VIDEO_SCALE, rescale
from storage.catalog.records.transcoding import MadeSubtitles, VideoWork
from storage.job_leases import HEARTBEAT_SECONDS, HeldJob, HeldSpan, PlannedSpan
from transcode.protocol.file_messages import Film, Stretch
from transcode.protocol.messages import Probed
from transcode.vod.rendition_store import MadePiece

__all__ = [
    "Original",
    "Pace",
    "eta_of",
    "folder_of",
    "folders_of",
    "length_of",
    "order_for",
    "planned",
]


# Of what the container claims; less is worth a warning.
_WHOLE: Final = 0.95
_ROUNDING_US: Final = 100_000  # to whole frames of sound and pictures
# Decoding a picture that comes before a stretch costs a fifth of making one.
_EARLY: Final = 5


class Original(msgspec.Struct, frozen=True, kw_only=True):
    """What was made of a film in one piece, as its job remembers it until its stretches are done.

    `reused` is the rung that the film's own packets make, `length_us` what the container claims.
    `advance` is the bytes of the playlists that let it play before all was there.
    """

    ladder: Ladder | None
    piece: MadePiece
    length_us: int
    reused: str | None = None
    mono: bool = False
    advance: int = 0
    posters: str | None = None
    poster_labels: tuple[str, ...] = ()
    poster_size: int = 0
    previews: str | None = None
    preview_size: int = 0
    subtitles: tuple[MadeSubtitles, ...] = ()

    @property
    def rungs(self) -> tuple[Rendition, ...]:
        """The rungs of its picture."""
        return self.ladder.renditions if self.ladder is not None else ()


class Pace:
    """How far an engine is and what is left; a change is worth writing once a second."""

    def __init__(self, length_us: int, begun: float) -> None:
        self._length_us = length_us
        self._begun = self._written = begun
        self._first: tuple[float, float] | None = None
        self._percent = 0

    def told(self, made_ms: int, now: float) -> tuple[int, int] | None:
        """Return percent and seconds left where they are worth writing down."""
        if not self._length_us:
            return None
        done = min(1.0, made_ms * 1000 / self._length_us)
        # Before the first picture it starts, looks at the file and makes the sound: only once.
        if self._first is None and done:
            self._first = done, now
        percent = int(done * 100)
        if percent == self._percent and now - self._written < HEARTBEAT_SECONDS:
            return None
        self._percent, self._written = percent, now
        return percent, self._eta(done, now)

    def _eta(self, done: float, now: float) -> int:
        first, since = self._first or (0.0, now)
        if done > first:
            return eta_of(done - first, now - since, 1 - done)
        return eta_of(done, now - self._begun, 1 - done)


def eta_of(done: float, elapsed: float, left: float) -> int:
    """Return how many seconds the part `left` will take; `done` is what took `elapsed` seconds."""
    return round(elapsed * left / done) if done > 0 and left > 0 else 0


def folders_of(work: VideoWork, held: HeldJob) -> tuple[str, str, str]:
    """Return the folders of an attempt's media, posters and previews, below the video's own."""
    attempt = f"{work.generation}-{held.attempt}"
    return attempt, f"poster-{attempt}", f"previews-{attempt}"


def folder_of(held: HeldSpan) -> str:
    """Return the folder of what an attempt makes of a stretch, below the video's own."""
    return f"{held.generation}-s{held.job}-{held.number}-{held.attempt}"


def order_for(found: Probed) -> Film:
    """Return what is to be made of a file: the standard rungs, none above the source."""
    if not found.width:
        return Film(ladder=None)
    upright = (found.width, found.height) == (found.codec_width, found.codec_height)
    return Film(
        ladder=ladder_for(found.width, found.height, STANDARD_LABELS),
        reuse=upright and not found.rotation,
    )


def planned(stretches: tuple[Stretch, ...]) -> list[PlannedSpan]:
    """Return stretches as spans of a job; what they cost is counted in pictures."""
    found: list[PlannedSpan] = []
    for number, each in enumerate(stretches, 1):
        early = max(0, each.cuts[0] - each.key) * each.rate // (VIDEO_SCALE * 1000)
        cost = each.pictures + early // _EARLY
        facts = msgspec.json.encode(each).decode()
        found.append(PlannedSpan(number=number, cost=max(1, cost), facts=facts))
    return found


def length_of(claimed_us: int, ticks: int) -> tuple[int, list[str]]:
    """Return a video's length, and a sentence where it is not what the file claims."""
    made_us = rescale(ticks, VIDEO_SCALE, MICROSECONDS)
    if not claimed_us:
        return made_us, []
    if abs(made_us - claimed_us) < _ROUNDING_US:
        return claimed_us, []
    if made_us >= claimed_us * _WHOLE or claimed_us - made_us < MICROSECONDS:
        return made_us, []
    claimed, there = claimed_us / MICROSECONDS, made_us / MICROSECONDS
    return made_us, [
        f"The file claims {claimed:.1f} s, but ends after {there:.1f} s: it may be cut off."
    ]
