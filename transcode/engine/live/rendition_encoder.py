"""One encoded rung: pictures in, samples of its track out, on a thread of its own.

A thread for each rung is the cheapest way to use all cores where there are several rungs.
"""

import time
from fractions import Fraction
from typing import Final

import msgspec
from av.error import FFmpegError
from av.video.frame import PictureType, VideoFrame

from media.codecs.avc import AvcConfig
from media.hls.fmp4 import Sample, video_init
from media.ladder import Rendition
from transcode.engine.codec.encode import PictureEncoder
from transcode.engine.core.reports import Outlet
from transcode.engine.core.stage import Worker
from transcode.engine.output.segment_grid import Cut
from transcode.engine.output.segmenter import Track

__all__ = ["Again", "Gap", "GiveUp", "Picture", "Rung"]

# Raw frames that wait: 1.4 MB each at 720p, 12 MB at 2160p. Enough to even out a slow frame.
_DEPTH: Final = 4

Picture = tuple[VideoFrame, Cut | None]


class Gap(msgspec.Struct, frozen=True, gc=False):
    """The rung does without the segment of `cut`, which begins at `start` in the others."""

    cut: Cut
    start: int


class Again(msgspec.Struct, frozen=True, gc=False):
    """The rung's newest picture is shown again at `pts`: it need not be scaled once more."""

    pts: int
    cut: Cut | None


class GiveUp(msgspec.Struct, frozen=True, gc=False):
    """The rung is not made any more, at once: what it has begun becomes a gap."""


class Rung(Worker[Picture | Again | Gap | GiveUp]):
    """Encodes the pictures of `rendition` into `track`; a picture with a cut becomes an IDR."""

    def __init__(
        self, rendition: Rendition, track: Track, outlet: Outlet, rate: Fraction | None
    ) -> None:
        self.rendition = rendition
        self.track = track
        self.end: int | None = None
        self._outlet = outlet
        self._rate = rate
        self._encoder: PictureEncoder | None = None
        self._newest: VideoFrame | None = None
        self._due: Cut | None = None
        self._cuts: dict[int, Cut] = {}
        self._cpu_ns = 0
        super().__init__(f"rung {rendition.name}", _DEPTH)

    def take(self, item: Picture | Again | Gap | GiveUp) -> None:
        """Encode one picture, or do without a segment."""
        match item:
            case Gap():
                self._leave_out(item.cut, item.start)
            case GiveUp():
                self._give_up()
            case Again():
                if self._newest is not None:
                    # The encoder has a copy of what it was given.
                    self._newest.pts = item.pts
                    self._encode(self._newest, item.cut)
            case frame, cut:
                self._newest = frame
                self._encode(frame, cut)
        self._count()

    def close(self) -> None:
        """Take out of the encoder what it still holds and close the track.

        A gap stays open: only the others know where it ends.
        """
        self._drain()
        if self._due is not None:
            self._leave_out(self._due, self._due.at)
        self._count()
        if not self.track.missing:
            self.end = self.track.end()

    def _encode(self, frame: VideoFrame, cut: Cut | None) -> None:
        if cut is not None and self._due is not None:
            self._leave_out(self._due, self._due.at)  # the encoder refused all its pictures
        # A cut whose picture the encoder refused goes to the next picture.
        self._due = cut or self._due
        encoder = self._encoder or self._open(frame)
        # Decoded frames say what they were in the source, and the encoder would obey.
        frame.pict_type = PictureType.NONE if self._due is None else PictureType.I
        try:
            samples = encoder.encode(frame)
        except FFmpegError as error:
            self._outlet.trouble("picture not encoded", error)
            return
        if self._due is not None and frame.pts is not None:
            self._cuts[frame.pts] = self._due
            self._due = None
        self._add(samples)

    def _give_up(self) -> None:
        """Free the encoder with all that it holds, segments that were to begin in it included."""
        self._encoder = None
        self.track.give_up()
        begun = sorted(self._cuts.values(), key=lambda cut: cut.sequence)
        for cut in (*begun, *([self._due] if self._due is not None else [])):
            self.track.gap(cut, cut.at)
        self._cuts.clear()
        self._due = None

    def _leave_out(self, cut: Cut, start: int) -> None:
        """Free the encoder: what comes back begins with an IDR picture in any case."""
        self._drain()
        self._due = None
        self.track.gap(cut, start)

    def _drain(self) -> None:
        encoder, self._encoder = self._encoder, None
        if encoder is not None:
            self._add(encoder.encode(None))

    def _add(self, samples: list[Sample]) -> None:
        for sample in samples:
            self.track.add(sample, self._cuts.pop(sample.pts, None))

    def _count(self) -> None:
        now = time.thread_time_ns()
        self.track.cpu_ns += now - self._cpu_ns
        self._cpu_ns = now

    def _open(self, frame: VideoFrame) -> PictureEncoder:
        encoder = PictureEncoder(self.rendition, frame, self._rate)
        size = self.rendition
        self.track.describe(
            AvcConfig.parse(encoder.config).codecs,
            video_init(config=encoder.config, width=size.width, height=size.height),
        )
        self._encoder = encoder
        return encoder
