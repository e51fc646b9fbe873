"""One encoded rung: pictures in, samples of its track out, on a thread of its own.

A thread for each rung is the cheapest way to use all cores where there are several rungs.
"""

from fractions import Fraction
from typing import Final

from av.error import FFmpegError
from av.video.frame import PictureType, VideoFrame

from media.avc import AvcConfig
from media.fmp4 import Sample, video_init
from media.ladder import Rendition
from transcode.engine.cut import Track
from transcode.engine.encode import PictureEncoder
from transcode.engine.grid import Cut
from transcode.engine.outlet import Outlet
from transcode.engine.worker import Worker

__all__ = ["Picture", "Rung"]

# Raw frames that wait: 1.4 MB each at 720p, 12 MB at 2160p. Enough to even out a slow frame.
_DEPTH: Final = 4

Picture = tuple[VideoFrame, Cut | None]


class Rung(Worker[Picture]):
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
        self._due: Cut | None = None
        self._cuts: dict[int, Cut] = {}
        super().__init__(f"rung {rendition.name}", _DEPTH)

    def take(self, item: Picture) -> None:
        """Encode one picture."""
        frame, cut = item
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

    def close(self) -> None:
        """Take out of the encoder what it still holds and close the track."""
        if self._encoder is not None:
            self._add(self._encoder.encode(None))
        self.end = self.track.end()

    def _add(self, samples: list[Sample]) -> None:
        for sample in samples:
            self.track.add(sample, self._cuts.pop(sample.pts, None))

    def _open(self, frame: VideoFrame) -> PictureEncoder:
        encoder = PictureEncoder(self.rendition, frame, self._rate)
        size = self.rendition
        self.track.describe(
            AvcConfig.parse(encoder.config).codecs,
            video_init(config=encoder.config, width=size.width, height=size.height),
        )
        self._encoder = encoder
        return encoder
