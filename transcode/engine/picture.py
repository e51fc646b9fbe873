"""The picture's way: decoder, cascade, rungs; decoder and cascade share a thread of their own.

Cuts come along in decode order, each before the packet that brought it about. A frame opens a
segment when it is the first at or after the cut. Where the decoder gave nothing for a whole
segment, the last frame (a black one before there is any) stands in for it, so that every rendition
has every segment.
"""

from collections import deque
from fractions import Fraction
from typing import Final

from av.error import FFmpegError
from av.video.frame import VideoFrame

from media.ticks import VIDEO_SCALE
from media.track import VideoTrack
from transcode.engine.decode import TIME_BASE, PictureDecoder
from transcode.engine.grid import Cut
from transcode.engine.outlet import Outlet
from transcode.engine.rung import Rung
from transcode.engine.scale import Cascade
from transcode.engine.worker import Worker

__all__ = ["Coded", "Decoding", "Thinner"]

# Coded packets that wait: 4 s at 60 frames a second, some megabytes.
_DEPTH: Final = 240
# A decoder holds back 16 frames at most (14496-10, A.3.1); a cut that has waited for so many
# packets will not get a frame any more.
_PATIENCE: Final = 32
_BLACK: Final = (b"\x10", b"\x80", b"\x80")  # Y, U, V

_MOST_RATE: Final = 66  # frames a second: 60 with jitter, and never a true 72
_LEAST_STEP: Final = VIDEO_SCALE * 15 // 1000  # 60 a second in whole milliseconds is 16 and 17

Coded = tuple[bytes, int, int]
"""Data, decode time, presentation time."""


class Thinner:
    """Says which frames of a source with more than 60 a second are left out.

    It looks at the last whole second: a few frames that a network bunched together stay.
    """

    def __init__(self, rate: Fraction | None) -> None:
        self._fast = rate is not None and rate > _MOST_RATE
        self._from: int | None = None
        self._count = 0
        self._kept: int | None = None

    def keeps(self, pts: int) -> bool:
        """Take the next frame's time, in showing order; False where it is one too many."""
        if self._from is None:
            self._from = pts
        elif pts - self._from >= VIDEO_SCALE:
            self._fast = self._count > _MOST_RATE
            self._from, self._count = pts, 0
        self._count += 1
        if self._fast and self._kept is not None and pts - self._kept < _LEAST_STEP:
            return False
        self._kept = pts
        return True


class Decoding(Worker[Coded | Cut]):
    """Decodes `track` and feeds `rungs`, largest first; owns the rungs and ends them.

    `heir` is the top rung that joins them at the cut that says so (`Cut.takeover`).
    """

    def __init__(
        self,
        track: VideoTrack,
        *,
        order_known: bool,
        aspect: Fraction,
        rate: Fraction | None,
        rungs: list[Rung],
        heir: Rung | None,
        outlet: Outlet,
    ) -> None:
        self.rungs = rungs
        self._track = track
        self._order_known = order_known
        self._aspect = aspect
        self._heir = heir
        self._outlet = outlet
        self._decoder = self._opened()
        self._cascade = self._cascade_of_rungs()
        self._thinner = Thinner(rate)
        self._cuts: deque[tuple[int, Cut]] = deque()
        self._packets = 0
        self._shown: VideoFrame | None = None
        self._last: int | None = None
        super().__init__("decoding", _DEPTH)

    def take(self, item: Coded | Cut) -> None:
        """Decode one packet, or note a cut."""
        if isinstance(item, Cut):
            self._cuts.append((self._packets, item))
            return
        self._packets += 1
        if self._decoder is not None:
            try:
                frames = self._decoder.decode(*item)
            except FFmpegError as error:
                self._outlet.trouble("picture not decoded", error)
            else:
                self._show_all(frames)
        while self._cuts and self._packets - self._cuts[0][0] > _PATIENCE:
            self._hold(self._cuts.popleft()[1])

    def close(self) -> None:
        """Take out of the decoder what it still holds, then end the rungs."""
        if self._decoder is not None:
            try:
                self._show_all(self._decoder.drain())
            except FFmpegError as error:
                self._outlet.trouble("picture not decoded", error)
        while self._cuts:
            self._hold(self._cuts.popleft()[1])
        for rung in self.rungs:
            rung.finish()
        if self._heir is not None:
            self._heir.finish()

    def _opened(self) -> PictureDecoder | None:
        try:
            return PictureDecoder(self._track, order_known=self._order_known)
        except FFmpegError as error:
            self._outlet.trouble("picture decoder not opened", error)
            return None

    def _cascade_of_rungs(self) -> Cascade:
        sizes = tuple((rung.rendition.width, rung.rendition.height) for rung in self.rungs)
        return Cascade(sizes)

    def _show_all(self, frames: list[VideoFrame]) -> None:
        for frame in frames:
            if frame.pts is None or (self._last is not None and frame.pts <= self._last):
                self._outlet.trouble("picture out of order", frame.pts)
            else:
                self._show(frame, frame.pts)

    def _show(self, frame: VideoFrame, pts: int) -> None:
        """Pass a frame on, as the first of a segment where a cut is due."""
        due: Cut | None = None
        while self._cuts and pts >= self._cuts[0][1].at:
            if due is not None:
                self._hold(due)
            due = self._cuts.popleft()[1]
        self._shown, self._last = frame, pts
        if self._thinner.keeps(pts) or due is not None:
            self._pass(frame, due)

    def _hold(self, cut: Cut) -> None:
        """Open a segment with the last frame again: it has none of its own."""
        self._outlet.trouble("picture missing", f"segment {cut.sequence}")
        frame = self._shown or self._black()
        frame.pts, frame.time_base = cut.at, TIME_BASE
        self._last = cut.at
        self._pass(frame, cut)

    def _pass(self, frame: VideoFrame, cut: Cut | None) -> None:
        if cut is not None and cut.takeover and self._heir is not None:
            self.rungs.insert(0, self._heir)
            self._heir = None
            self._cascade = self._cascade_of_rungs()
        if not self.rungs:
            return
        try:
            pictures = self._cascade.scale(frame, self._aspect_of_pixels())
        except FFmpegError as error:
            self._outlet.trouble("picture not scaled", error)
            if cut is None:
                return
            black = self._black()
            black.pts, black.time_base = frame.pts, TIME_BASE
            pictures = self._cascade.scale(black, Fraction(1))
        for rung, picture in zip(self.rungs, pictures, strict=True):
            rung.put((picture, cut))

    def _aspect_of_pixels(self) -> Fraction:
        """What the decoder knows by now goes before what the configuration said."""
        found = self._decoder.aspect if self._decoder is not None else None
        return found or self._aspect

    def _black(self) -> VideoFrame:
        size = (max(2, self._track.width // 2 * 2), max(2, self._track.height // 2 * 2))
        frame = VideoFrame(*size, "yuv420p")
        for plane, level in zip(frame.planes, _BLACK, strict=True):
            plane.update(level * plane.buffer_size)
        return frame
