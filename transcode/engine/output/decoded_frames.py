"""Prepares decoded frames for the encoders, live or from a file.

Of more than 66 frames a second at most 60 are kept. Frames are matched with the cuts that they have
reached, and replaced by a black picture where they cannot be scaled. Times are ticks of 90 000 a
second.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from av.error import FFmpegError
from av.video.frame import VideoFrame

from media.ticks import VIDEO_SCALE
from transcode.engine.codec.decode import TIME_BASE
from transcode.engine.codec.scaler import Cascade
from transcode.engine.core.reports import ReportWriter
from transcode.engine.output.segment_grid import HOLE, Cut

_MOST_RATE: Final = 66  # frames a second: 60 with jitter, and never a true 72
_LEAST_STEP: Final = VIDEO_SCALE * 15 // 1000  # 60 a second in whole milliseconds is 16 and 17
_BLACK: Final = (b"\x10", b"\x80", b"\x80")  # Y, U, V


class FrameThinner:
    """Decides which frames of a source with more than 60 a second are left out.

    `rate` is the rate that the source declares. From the second second on the rate that was
    measured in the last whole second counts, so a few frames that a network bunched together stay.
    """

    def __init__(self, rate: Fraction | None) -> None:
        self._fast = rate is not None and rate > _MOST_RATE
        self._window_start: int | None = None
        self._count = 0
        self._last_kept: int | None = None

    def keeps(self, pts: int) -> bool:
        """Record the next frame's time, in presentation order; return False to leave it out."""
        if self._window_start is None:
            self._window_start = pts
        elif pts - self._window_start >= VIDEO_SCALE:
            self._fast = self._count > _MOST_RATE
            self._window_start, self._count = pts, 0
        self._count += 1
        if self._fast and self._last_kept is not None and pts - self._last_kept < _LEAST_STEP:
            return False
        self._last_kept = pts
        return True


def split_due(due: Sequence[Cut], pts: int) -> tuple[Sequence[Cut], Cut | None]:
    """Return the cuts that a repeated picture opens, and the one that the picture at `pts` opens.

    `due` are the cuts at or before `pts`, in order. A picture opens only the newest of them, and
    none if it is more than `HOLE` late.
    """
    if not due or pts - due[-1].at > HOLE:
        return due, None
    return due[:-1], due[-1]


def scale_or_black(
    cascade: Cascade,
    frame: VideoFrame,
    aspect: Fraction,
    *,
    black_size: tuple[int, int] | None,
    reports: ReportWriter,
) -> list[VideoFrame]:
    """Return a frame in all sizes of the cascade.

    If it cannot be scaled, return a black picture of `black_size` instead, or nothing if that is
    None.
    """
    try:
        return cascade.scale(frame, aspect)
    except FFmpegError as error:
        reports.count_trouble("picture not scaled", error)
    if black_size is None:
        return []
    black = black_frame(*black_size)
    black.pts, black.time_base = frame.pts, TIME_BASE
    return cascade.scale(black, Fraction(1))


def black_frame(width: int, height: int) -> VideoFrame:
    """Return a black picture in 4:2:0; the sides are even."""
    frame = VideoFrame(width, height, "yuv420p")
    for plane, level in zip(frame.planes, _BLACK, strict=True):
        plane.update(level * plane.buffer_size)
    return frame
