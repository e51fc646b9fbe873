"""The plan of a VOD asset: what is made in one piece, the spans that follow, and their folders.

Pure: values and rules.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from media.ladder import STANDARD_LABELS, Ladder, Rendition, ladder_for
from media.ticks import MICROSECONDS, ORIGIN_SECONDS, VIDEO_SCALE, rescale
from storage.catalog.records.transcoding import MadeSubtitles, PlannedSpan, SpanWork, VideoWork
from storage.leases import HEARTBEAT_SECONDS, Lease
from transcode.protocol.file_messages import AssetOrder, SpanOrder
from transcode.protocol.messages import Probed
from transcode.vod.rendition_store import MadePiece, MadeRendition

# Of the length that the container claims; a shorter video gets a warning.
_WHOLE: Final = 0.95
_ROUNDING_US: Final = 100_000  # to whole frames of sound and pictures
# Decoding a frame that comes before a span costs a fifth of encoding one.
_DECODED_PER_ENCODED: Final = 5


class Original(msgspec.Struct, frozen=True, kw_only=True):
    """What was made in one piece, as the job keeps it until the spans are done.

    Stored as JSON. `audible` is True if there is an audio rendition. `reused` names the rung made
    of the file's own packets, `length_us` is what the container claims (0: nothing), `reached` how
    far the times in it go, in ticks of 90 000 a second (0: unknown), and `advance` is the size
    in bytes of the playlists that let it play early.
    """

    ladder: Ladder | None
    piece: MadePiece
    length_us: int
    reached: int = 0
    reused: str | None = None
    audible: bool = True
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
        """The video rungs."""
        return self.ladder.renditions if self.ladder is not None else ()


class AssetProgress:
    """The progress of an engine over a file of `length_us` (0: unknown), and the time left."""

    def __init__(self, length_us: int, started: float) -> None:
        self._length_us = length_us
        self._started = self._reported = started
        self._first: tuple[float, float] | None = None
        self._percent = 0

    def update(self, made_ms: int, now: float) -> tuple[int, int] | None:
        """Return percent and seconds left if they should be recorded again, else None."""
        if not self._length_us:
            return None
        done = min(1.0, made_ms * 1000 / self._length_us)
        # The start of the process, the survey and the sound before the first frame come only once.
        if self._first is None and done:
            self._first = done, now
        percent = int(done * 100)
        if percent == self._percent and now - self._reported < HEARTBEAT_SECONDS:
            return None
        self._percent, self._reported = percent, now
        return percent, self._eta(done, now)

    def _eta(self, done: float, now: float) -> int:
        first, since = self._first or (0.0, now)
        if done > first:
            return seconds_left(done - first, now - since, 1 - done)
        return seconds_left(done, now - self._started, 1 - done)


def seconds_left(done: float, elapsed: float, left: float) -> int:
    """Return the seconds that the part `left` will take if the part `done` took `elapsed` s."""
    return round(elapsed * left / done) if done > 0 and left > 0 else 0


def attempt_folders(work: VideoWork, job: Lease) -> tuple[str, str, str]:
    """Return the folders of an attempt's media, posters and previews, below the video's folder."""
    attempt = f"{work.generation}-{job.attempt}"
    return attempt, f"poster-{attempt}", f"previews-{attempt}"


def span_folder(work: SpanWork, span: Lease) -> str:
    """Return the folder of an attempt at a span, below the video's folder."""
    return f"{work.generation}-s{span.job}-{span.part}-{span.attempt}"


def order_for(probed: Probed) -> AssetOrder:
    """Return the engine's order for a file: the standard rungs, none larger than the source."""
    if not probed.width:
        return AssetOrder(ladder=None)
    upright = (probed.width, probed.height) == (probed.codec_width, probed.codec_height)
    return AssetOrder(
        ladder=ladder_for(probed.width, probed.height, STANDARD_LABELS),
        reuse=upright and not probed.rotation,
    )


def planned_spans(spans: tuple[SpanOrder, ...]) -> list[PlannedSpan]:
    """Return the spans to queue for a job; their costs are counted in frames."""
    planned: list[PlannedSpan] = []
    for number, span in enumerate(spans, 1):
        frames_before = max(0, span.cuts[0] - span.key) * span.rate // (VIDEO_SCALE * 1000)
        cost = span.pictures + frames_before // _DECODED_PER_ENCODED
        order = msgspec.json.encode(span).decode()
        planned.append(PlannedSpan(number=number, cost=max(1, cost), order=order))
    return planned


def playing_ticks(made: Iterable[MadeRendition], spans: Sequence[SpanOrder]) -> int:
    """Return how long what is made and what the spans make play; 0 if there is nothing of it."""
    lengths = [sum(each.duration for each in one.segments) for one in made]
    if spans:
        lengths.append(spans[-1].end - ORIGIN_SECONDS * VIDEO_SCALE)
    return max(lengths, default=0)


def length_and_warnings(claimed_us: int, ticks: int, reached: int = 0) -> tuple[int, list[str]]:
    """Return a video's length in microseconds, and a warning if the file claims a longer one.

    `reached` is how far the times in the file go, 0 if unknown. Where they go as far as it claims,
    nothing is cut off: a track that is not used is longer, or what comes before the first picture.
    """
    made_us = rescale(ticks, VIDEO_SCALE, MICROSECONDS)
    if not claimed_us:
        return made_us, []
    if abs(made_us - claimed_us) < _ROUNDING_US:
        return claimed_us, []
    there_us = max(made_us, rescale(reached, VIDEO_SCALE, MICROSECONDS))
    if there_us >= claimed_us * _WHOLE or claimed_us - there_us < MICROSECONDS:
        return made_us, []
    claimed, actual = claimed_us / MICROSECONDS, made_us / MICROSECONDS
    return made_us, [
        f"The file claims {claimed:.1f} s, but ends after {actual:.1f} s: it may be cut off."
    ]
