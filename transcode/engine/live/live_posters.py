"""Posters of a live run: now and then one keyframe is decoded by itself, judged, and sent as JPEG.

It works beside the making of the renditions, whether anything is decoded for them or not. A thread
of its own, idle nearly always, makes one poster at a time; what comes meanwhile is passed over. It
has no lower priority than the others: it takes turns with them at the interpreter, and who is
preempted while it is its turn holds all of them up.

Good is what is neither black nor plain. Times are ticks of 90 000 a second on the output clock.
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
from transcode.engine.codec.decode import PictureDecoder
from transcode.engine.codec.jpeg import jpeg
from transcode.engine.codec.scaler import Cascade
from transcode.engine.core.reports import Outlet
from transcode.engine.core.stage import Worker
from transcode.engine.images.poster import measured
from transcode.protocol.messages import Poster, Posters

__all__ = ["Look", "Rhythm", "Source", "Stills", "look_at"]

# A look costs the decoding of one keyframe, 10 to 20 ms at 1080p. Encoders that make nothing but
# keyframes send 60 a second.
_STEP: Final = 1 * VIDEO_SCALE
# A logo on black, or a fade, is over by then; else viewers get the best of what there was.
_PATIENCE: Final = 10 * VIDEO_SCALE
_LATER: Final = 5 * VIDEO_SCALE  # between looks at what shows nothing for longer than that
# Of luma that goes from 16 to 235: night scenes have 30 and more, a title on black 18.
_DARK: Final = 24
# By how much neighbours among 64 x 36 pixels differ: 0.3 in a plain colour with noise, 2 in fog,
# 5 to 40 in all else.
_PLAIN: Final = 1.5


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """Where keyframes come from and what is made of them.

    `aspect` is a pixel's width by its height as the track has it; `every` the time between posters.
    """

    track: VideoTrack
    aspect: Fraction
    rungs: tuple[Rendition, ...]
    every: int


class Look(msgspec.Struct, frozen=True):
    """How good a picture is as a poster: `poor` ones are shown where there is no other."""

    score: float
    poor: bool


def look_at(frame: VideoFrame) -> Look:
    """Judge a picture."""
    mean, detail = measured(frame)
    poor = mean < _DARK or detail < _PLAIN
    return Look(detail / 100 if mean < _DARK else detail, poor)


class Rhythm:
    """When a keyframe is looked at, and whether it becomes the poster.

    A round begins at the first keyframe and again each `every` after a good poster. In a round
    keyframes are looked at, at most one a second, until one is good.
    """

    def __init__(self) -> None:
        self._from: int | None = None  # where the round began, or is to begin
        self._looked: int | None = None
        self._good = False  # whether a good one was sent
        self._sent = -1.0  # the score of the best that was sent

    def is_due(self, at: int) -> bool:
        """Say whether the keyframe at that time is to be looked at, and take it as looked at."""
        start, looked = self._from, self._looked
        if start is None:
            start = self._from = at
        if at < start:
            return False
        if looked is not None:
            step = _STEP if looked - start < _PATIENCE else _LATER
            if 0 <= at - looked < step:
                return False
        self._looked = at
        return True

    @property
    def good(self) -> bool:
        """Whether a good one was sent: a poor one never is from then on."""
        return self._good

    def shows(self, look: Look, at: int | None, every: int = 0) -> bool:
        """Take what was seen at a time (None: nothing follows); True where it is to be sent.

        A good one always is; the best of the poor ones where nothing good and nothing better was
        sent before, and the round has gone on for long enough.
        """
        if not look.poor:
            self._good, self._from = True, None if at is None else at + every
            return True
        if self._good or look.score <= self._sent:
            return False
        if at is not None and self._from is not None and at - self._from < _PATIENCE:
            return False
        self._sent = look.score
        return True


class Stills(Worker[tuple[Source, bytes, int]]):
    """Makes the posters of a run; `offer` and `finish` are called by one thread.

    `idle` is set while nothing is being made.
    """

    def __init__(self, outlet: Outlet) -> None:
        self._outlet = outlet
        self._rhythm = Rhythm()
        self.idle = threading.Event()
        self.idle.set()
        self._best: tuple[Source, VideoFrame, Fraction, Look] | None = None  # of poor ones
        super().__init__("stills", 1)

    def offer(self, source: Source, data: bytes, at: int) -> None:
        """Take a keyframe that is shown at `at`, if it is time for one; never waits."""
        # The rhythm is the worker's while that is at work, else the caller's.
        if not self.idle.is_set() or not self._rhythm.is_due(at):
            return
        self.idle.clear()
        self.put((source, data, at))

    def take(self, item: tuple[Source, bytes, int]) -> None:
        """Look at a keyframe, and send posters where that is due; what fails is a trouble."""
        source, data, at = item
        try:
            self._look(source, data, at)
        except (FFmpegError, MemoryError, ValueError) as error:
            self._outlet.trouble("poster not made", error)
        finally:
            self.idle.set()

    def close(self) -> None:
        """Send the best there was, where a run is over before anything good came."""
        if self._best is None or not self._rhythm.shows(self._best[3], None):
            return
        try:
            self._send(*self._best)
        except (FFmpegError, MemoryError, ValueError) as error:
            self._outlet.trouble("poster not made", error)

    def _look(self, source: Source, data: bytes, at: int) -> None:
        decoder = PictureDecoder(source.track, order_known=True)
        frames = [*decoder.decode(data, at, at), *decoder.drain()]
        if not frames:
            return
        frame, aspect = frames[0], decoder.aspect or source.aspect
        found = look_at(frame)
        seen = (source, frame, aspect, found)
        if found.poor and not self._rhythm.good:
            if self._best is not None and self._best[3].score >= found.score:
                seen = self._best
            self._best = seen
        if self._rhythm.shows(seen[3], at, source.every):
            self._best = None
            self._send(*seen)

    def _send(self, source: Source, frame: VideoFrame, aspect: Fraction, look: Look) -> None:
        sizes = tuple((rung.width, rung.height) for rung in source.rungs)
        made = Cascade(sizes).scale(frame, aspect)
        posters = tuple(
            Poster(label=rung.name, width=still.width, height=still.height, data=jpeg(still))
            for rung, still in zip(source.rungs, made, strict=True)
        )
        self._outlet.send(Posters(posters=posters, poor=look.poor))
