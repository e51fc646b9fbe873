"""Posters of a live run: from time to time one keyframe is decoded, rated and sent as JPEG.

This is independent of the renditions, whether they are decoded or not. A thread of its own, nearly
always idle, makes one poster at a time; keyframes that arrive meanwhile are ignored. Its priority
is not lower than the others': all take turns at the interpreter lock, and a thread that is
preempted while it holds the lock delays all of them.

A picture is good if it is neither dark nor plain. Times are ticks of 90 000 a second on the output
clock.
"""

import threading
from fractions import Fraction
from typing import Final

import msgspec
from av.error import FFmpegError
from av.video.frame import VideoFrame

from media.ladder import Rendition
from media.ticks import VIDEO_SCALE
from media.track import VideoTrack
from transcode.engine.codec.decode import TrackVideoDecoder
from transcode.engine.codec.jpeg import encode_jpeg
from transcode.engine.codec.scaler import Cascade
from transcode.engine.core.reports import ReportWriter
from transcode.engine.core.stage import PipelineStage
from transcode.engine.images.poster import luma_and_detail
from transcode.protocol.messages import Poster, Posters

# Rating costs the decoding of one keyframe, 10 to 20 ms at 1080p. Encoders that send only keyframes
# send 60 a second.
_STEP: Final = 1 * VIDEO_SCALE
# A logo on black, or a fade, is over by then; otherwise viewers get the best picture so far.
_PATIENCE: Final = 10 * VIDEO_SCALE
_LATER: Final = 5 * VIDEO_SCALE  # between ratings of a source that stays poor for longer
# Mean luma, from 16 to 235: night scenes have 30 and more, a title on black 18.
_DARK: Final = 24
# The mean difference of neighbours among 64 x 36 pixels: 0.3 in a plain colour with noise, 2 in
# fog, 5 to 40 in everything else.
_PLAIN: Final = 1.5


class PosterSource(msgspec.Struct, frozen=True, kw_only=True):
    """The origin of keyframes, and the renditions whose sizes the posters have.

    `aspect` is a pixel's width by its height according to the track; `every` is the time between
    posters.
    """

    track: VideoTrack
    aspect: Fraction
    rungs: tuple[Rendition, ...]
    every: int


class PictureRating(msgspec.Struct, frozen=True):
    """The quality of a picture as a poster; a `poor` one is used only if there is no other."""

    score: float
    poor: bool


def rate_picture(frame: VideoFrame) -> PictureRating:
    """Rate a picture."""
    mean, detail = luma_and_detail(frame)
    poor = mean < _DARK or detail < _PLAIN
    return PictureRating(detail / 100 if mean < _DARK else detail, poor)


class PosterSchedule:
    """Decides when a keyframe is rated, and whether it becomes the poster.

    A round begins at the first keyframe, and again `every` after a good poster. In a round,
    keyframes are rated, at most one a second, until one is good.
    """

    def __init__(self) -> None:
        self._round_start: int | None = None  # where the round began or will begin
        self._rated: int | None = None
        self._good = False  # a good one was sent
        self._best_sent = -1.0  # the highest score of the poor posters that were sent

    def is_due(self, at: int) -> bool:
        """Return whether the keyframe at that time is to be rated; if so, count it as rated."""
        start, rated = self._round_start, self._rated
        if start is None:
            start = self._round_start = at
        if at < start:
            return False
        if rated is not None:
            step = _STEP if rated - start < _PATIENCE else _LATER
            if 0 <= at - rated < step:
                return False
        self._rated = at
        return True

    @property
    def good(self) -> bool:
        """True once a good poster was sent; from then on, poor ones never are."""
        return self._good

    def should_send(self, rating: PictureRating, at: int | None, every: int = 0) -> bool:
        """Return whether to send a picture that was rated at `at` (None: no other follows).

        A good one is always sent. The best of the poor ones is sent if neither a good nor a better
        one was sent before, and the round has lasted long enough.
        """
        if not rating.poor:
            self._good, self._round_start = True, None if at is None else at + every
            return True
        if self._good or rating.score <= self._best_sent:
            return False
        if at is not None and self._round_start is not None and at - self._round_start < _PATIENCE:
            return False
        self._best_sent = rating.score
        return True


class PosterStage(PipelineStage[tuple[PosterSource, bytes, int]]):
    """Makes the posters of a run; `offer` and `finish` are called by one thread.

    `idle` is set while no poster is being made.
    """

    def __init__(self, reports: ReportWriter) -> None:
        self._reports = reports
        self._schedule = PosterSchedule()
        self.idle = threading.Event()
        self.idle.set()
        # The best of the poor pictures.
        self._best: tuple[PosterSource, VideoFrame, Fraction, PictureRating] | None = None
        super().__init__("stills", 1)

    def offer(self, source: PosterSource | None, data: bytes, at: int) -> None:
        """Use a keyframe that is shown at `at`, if one is due; never waits."""
        # The schedule belongs to the worker while it is busy, otherwise to the caller.
        if source is None or not self.idle.is_set() or not self._schedule.is_due(at):
            return
        self.idle.clear()
        self.put((source, data, at))

    def handle(self, item: tuple[PosterSource, bytes, int]) -> None:
        """Rate a keyframe, and send posters if they are due; failures are counted as troubles."""
        source, data, at = item
        try:
            self._rate(source, data, at)
        except (FFmpegError, MemoryError, ValueError) as error:
            self._reports.count_trouble("poster not made", error)
        finally:
            self.idle.set()

    def close(self) -> None:
        """Send the best picture so far, if the run ended before a good one came."""
        if self._best is None or not self._schedule.should_send(self._best[3], None):
            return
        try:
            self._send(*self._best)
        except (FFmpegError, MemoryError, ValueError) as error:
            self._reports.count_trouble("poster not made", error)

    def _rate(self, source: PosterSource, data: bytes, at: int) -> None:
        decoder = TrackVideoDecoder(source.track, order_known=True)
        frames = [*decoder.decode(data, at, at), *decoder.drain()]
        if not frames:
            return
        frame, aspect = frames[0], decoder.aspect or source.aspect
        rating = rate_picture(frame)
        candidate = (source, frame, aspect, rating)
        if rating.poor and not self._schedule.good:
            if self._best is not None and self._best[3].score >= rating.score:
                candidate = self._best
            self._best = candidate
        if self._schedule.should_send(candidate[3], at, source.every):
            self._best = None
            self._send(*candidate)

    def _send(
        self, source: PosterSource, frame: VideoFrame, aspect: Fraction, rating: PictureRating
    ) -> None:
        sizes = tuple((rung.width, rung.height) for rung in source.rungs)
        pictures = Cascade(sizes).scale(frame, aspect)
        posters = tuple(
            Poster(
                label=rung.name,
                width=picture.width,
                height=picture.height,
                data=encode_jpeg(picture),
            )
            for rung, picture in zip(source.rungs, pictures, strict=True)
        )
        self._reports.send(Posters(posters=posters, poor=rating.poor))
