"""Previews and poster of a recording: keyframes that the parent reads from its segments.

Each is a small fragmented MP4 of its own, so it does not matter in which epoch it was made, nor by
which encoder.
"""

import io
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from typing import Final

from av.error import FFmpegError
from av.video.frame import VideoFrame

from media.ladder import Rendition
from transcode.engine.images.image_score import ImageScorer
from transcode.engine.images.poster import scaled_posters
from transcode.engine.images.preview_sheets import Thumbnails
from transcode.engine.input.container import BadUpload, open_media, pixel_aspect, video_stream
from transcode.engine.input.demux import demux
from transcode.engine.input.whole_picture import decode_whole
from transcode.protocol.file_messages import Keyframe, PosterKeyframe, PreviewOrder
from transcode.protocol.messages import Poster, Previews, WireReader

_READ_BYTES: Final = 1 << 18
# As for posters: the sandbox ends an engine at 60 s of CPU. 400 keyframes of 360p take 3 s, of
# 1080p 9 s; a source in 2160p without a smaller rendition may reach the limit.
_CPU_SECONDS: Final = 30.0


def make_previews(
    descriptor: int, order: PreviewOrder, *, cpu_seconds: float = _CPU_SECONDS
) -> Iterator[Poster | Previews]:
    """Yield the posters of the best of the keyframes that a pipe brings for them, then previews.

    There are previews if there are two keyframes or more. Keyframes that come after `cpu_seconds`
    are left out, and those that cannot be decoded.

    Raises:
        WireError: the input is no sequence of keyframes.
    """
    started = time.process_time()
    reader: WireReader[Keyframe | PosterKeyframe] = WireReader(Keyframe | PosterKeyframe)
    thumbnails = Thumbnails(order.width, order.height)
    poster = _BestPicture()
    while data := os.read(descriptor, _READ_BYTES):
        for keyframe in reader.feed(data):
            if time.process_time() - started > cpu_seconds:
                continue
            with suppress(BadUpload, MemoryError):  # the others may be intact
                frame, aspect = _decoded(keyframe.data)
                if isinstance(keyframe, PosterKeyframe):
                    poster.judge(frame, aspect)
                else:
                    thumbnails.add(keyframe.at, frame, aspect)
    yield from poster.posters(order.rungs)
    previews = thumbnails.previews()
    if previews is not None:
        yield previews


class _BestPicture:
    """The best picture so far, and the aspect of its pixels."""

    def __init__(self) -> None:
        self._scorer = ImageScorer()
        self._best: tuple[VideoFrame, Fraction] | None = None
        self._score = -1.0

    def judge(self, frame: VideoFrame, aspect: Fraction) -> None:
        """Add a picture; one whose format cannot be read is left out."""
        try:
            score = self._scorer.score(frame)
        except FFmpegError:
            self._scorer = ImageScorer()
            return
        if score > self._score:
            self._best, self._score = (frame, aspect), score

    def posters(self, rungs: tuple[Rendition, ...]) -> list[Poster]:
        """Return the posters; none if there is no picture that can be one."""
        if self._best is None or not rungs:
            return []
        try:
            return list(scaled_posters(*self._best, rungs))
        except (FFmpegError, ValueError):
            return []


def _decoded(data: bytes) -> tuple[VideoFrame, Fraction]:
    """Return a keyframe's picture, and the aspect of its pixels.

    Raises:
        BadUpload: it cannot be decoded.
    """
    with open_media(io.BytesIO(data)) as media:
        picture = video_stream(media)
        packet = None if picture is None else next(demux(media, [picture]), None)
        if picture is None or packet is None:
            raise BadUpload("no picture")
        picture.codec_context.thread_count = 1
        # A decoder holds a picture back until it knows which one is shown before it.
        frame = decode_whole(picture, packet) or decode_whole(picture, None)
        if frame is None:
            raise BadUpload("no whole picture")
        return frame, pixel_aspect(picture)
