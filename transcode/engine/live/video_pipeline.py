"""The picture's way: decoder, cascade, rungs; decoder and cascade share a thread of their own.

Cuts come along in decode order, each before the packet that brought it about. A frame opens a
segment when it is the first at or after the cut. Where the decoder gave nothing for a whole
segment, the last frame (a black one before there is any) stands in for it, so that every rendition
has every segment.

While nobody is on air the last picture is shown for some time, then a slate (see `slate`).

A rung that a cut leaves out is told so instead of getting pictures. Where a cut leaves all of them
out, nothing is decoded up to the next one that does not, which begins with an IDR picture. What is
to be left out is given up before that cut comes by: the machine cannot wait for it.
"""

from collections import deque
from fractions import Fraction
from typing import Final

import msgspec
from av.error import FFmpegError
from av.video.frame import VideoFrame

from media.ticks import VIDEO_SCALE
from media.track import VideoTrack
from transcode.engine.codec.decode import TIME_BASE, Decoders, PictureDecoder, PictureSource
from transcode.engine.codec.scaler import Cascade
from transcode.engine.core.reports import Outlet
from transcode.engine.core.stage import Worker
from transcode.engine.live.rendition_encoder import Again, Gap, GiveUp, Rung
from transcode.engine.live.slate import Colours, card, colours_of, fitted
from transcode.engine.output.segment_grid import HOLE, Cut

__all__ = ["Coded", "Decoding", "Pictures", "Slate", "Still", "Thinner"]

# Coded packets that wait: 4 s at 60 frames a second, some megabytes.
_DEPTH: Final = 240
# A decoder holds back 16 frames at most (14496-10, A.3.1); a cut that has waited for so many
# packets will not get a frame any more.
_PATIENCE: Final = 32
_BLACK: Final = (b"\x10", b"\x80", b"\x80")  # Y, U, V
# A picture that stands still is shown again so often: the encoders hold a dozen frames back, which
# would be a minute of a slide show, and 10 a second are cheap where nothing moves.
_STILL_STEP: Final = VIDEO_SCALE // 10

_MOST_RATE: Final = 66  # frames a second: 60 with jitter, and never a true 72
_LEAST_STEP: Final = VIDEO_SCALE * 15 // 1000  # 60 a second in whole milliseconds is 16 and 17

Coded = tuple[bytes, int, int]
"""Data, decode time, presentation time."""


class Still(msgspec.Struct, frozen=True, gc=False):
    """No picture is to be waited for up to `until`: the last one is shown again and again."""

    until: int


class Pictures(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What pictures a source sends: the decoder's work from here on.

    `order_known` says that it tells how far it reorders them, `aspect` is a pixel's width by its
    height, `rate` the frames a second, where they are known.
    """

    track: VideoTrack
    order_known: bool
    aspect: Fraction
    rate: Fraction | None


class Slate(msgspec.Struct, frozen=True, gc=False):
    """The source is gone: up to `since` its last picture is shown, then this one (None: the card).

    How far it is shown, `Still` says.
    """

    since: int
    picture: VideoFrame | None


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


class Decoding(Worker[Coded | Cut | Still | Slate | Pictures]):
    """Decodes `pictures` (None: there are none as yet) and feeds `rungs`, largest first.

    It owns the rungs and ends them.

    `heir` is the top rung that joins them at the cut that says so (`Cut.takeover`).
    """

    def __init__(
        self,
        pictures: Pictures | None,
        *,
        rungs: list[Rung],
        heir: Rung | None,
        outlet: Outlet,
        decoders: Decoders | None = None,
    ) -> None:
        self._decoders = decoders
        self._rungs = rungs
        self._pictures = pictures
        self._aspect = pictures.aspect if pictures is not None else Fraction(1)
        self._heir = heir
        self._outlet = outlet
        self._decoder: PictureSource | None = None
        self._asleep = True
        self._made: list[Rung] = []
        # What is not to be made up to the cut of that number; set by another thread in one step.
        self._given_up: tuple[frozenset[str], int] = (frozenset(), 0)
        self._noted = self._arranged = -1  # the newest cut that was put, and that was come by
        self._skipped: list[Coded] = []  # what nobody wanted, lest decoding is to go on behind it
        self._cascade: Cascade | None = None
        self._thinner = Thinner(pictures.rate if pictures is not None else None)
        self._slate: Slate | None = None  # what is to be shown, or is
        self._slated: Slate | None = None  # the one that `_shown` comes from
        self._colours = Colours()
        self._cuts: deque[tuple[int, Cut]] = deque()
        self._packets = 0
        self._shown: VideoFrame | None = None
        self._passed: VideoFrame | None = None  # what the rungs had last
        self._last: int | None = None
        super().__init__("decoding", _DEPTH)

    def take(self, item: Coded | Cut | Still | Slate | Pictures) -> None:
        """Decode one packet, note a cut, let the picture stand still, or change the source."""
        match item:
            case Cut():
                self._note(item)
            case Still():
                self._stand_still(item.until)
            case Slate():
                self._change(None)
                self._slate = item
            case Pictures():
                self._change(item)
            case data, dts, pts:
                self._decode(data, dts, pts)

    def give_up(self, names: frozenset[str], until: int) -> None:
        """Make these rungs no more, at once, until the cut of that number says what is made.

        Another thread than this worker's own calls it, and puts that cut later.
        """
        if names or until == self._given_up[1]:
            self._given_up = (names, until)

    def close(self) -> None:
        """Take out of the decoder what it still holds, then end the rungs."""
        self._drain()
        for rung in self._rungs:
            rung.finish()
        if self._heir is not None:
            self._heir.finish()

    # -- packets and cuts -------------------------------------------------------------------------

    def _note(self, cut: Cut) -> None:
        self._noted = cut.sequence
        skipped, self._skipped = self._skipped, []
        if cut.decoded:
            if cut.sequence < self._given_up[1]:
                self._skipped = skipped
            else:
                for coded in skipped:
                    self._decode(*coded)
            self._cuts.append((self._packets, cut))
            return
        self._drain()
        self._arrange(cut, cut.at)
        self._decoder, self._shown, self._asleep = None, None, True

    def _decode(self, data: bytes, dts: int, pts: int) -> None:
        if self._gives_all_up():
            self._skipped.append((data, dts, pts))
            return
        if self._asleep:
            self._decoder, self._asleep = self._opened(), False
        self._packets += 1
        if self._decoder is not None:
            try:
                frames = self._decoder.decode(data, dts, pts)
            except FFmpegError as error:
                self._outlet.trouble("picture not decoded", error)
            else:
                self._show_all(frames)
        while self._cuts and self._packets - self._cuts[0][0] > _PATIENCE:
            self._hold(self._cuts.popleft()[1])

    def _stand_still(self, until: int) -> None:
        """Show the last picture again up to a time; what comes for before it comes too late."""
        while self._cuts and self._cuts[0][1].at <= until:
            cut = self._cuts.popleft()[1]
            if self._slate is None:
                self._hold(cut)
            else:
                self._open(cut)
        while self._last is not None and (self._shown is not None or self._slate is not None):
            if self._last + _STILL_STEP > until:
                return
            self._last += _STILL_STEP
            self._repeat(self._standing(self._last), self._last, None)

    def _change(self, pictures: Pictures | None) -> None:
        """Take what the old source's decoder still holds; the new one's is opened when needed."""
        if pictures is not None:
            self._drain()
            self._pictures, self._aspect = pictures, pictures.aspect
            self._thinner = Thinner(pictures.rate)
        else:  # what is not shown yet, the last picture and the slate will open
            self._drain_decoder()
        self._skipped = []
        self._decoder, self._asleep = None, True
        self._slate = None

    def _drain(self) -> None:
        self._drain_decoder()
        while self._cuts:
            self._hold(self._cuts.popleft()[1])

    def _drain_decoder(self) -> None:
        if self._decoder is not None:
            try:
                self._show_all(self._decoder.drain())
            except FFmpegError as error:
                self._outlet.trouble("picture not decoded", error)

    def _opened(self) -> PictureSource | None:
        pictures = self._pictures
        try:
            if self._decoders is not None:
                return self._decoders.picture()
            if pictures is None:
                return None
            return PictureDecoder(pictures.track, order_known=pictures.order_known)
        except FFmpegError as error:
            self._outlet.trouble("picture decoder not opened", error)
            return None

    # -- frames -----------------------------------------------------------------------------------

    def _show_all(self, frames: list[VideoFrame]) -> None:
        for frame in frames:
            if frame.pts is None or (self._last is not None and frame.pts <= self._last):
                self._outlet.trouble("picture out of order", frame.pts)
                self._shown = frame  # the newest there is, should it be shown again
            else:
                self._show(frame, frame.pts)

    def _show(self, frame: VideoFrame, pts: int) -> None:
        """Pass a frame on, as the first of a segment where a cut is due."""
        due: Cut | None = None
        while self._cuts and pts >= self._cuts[0][1].at:
            if due is not None:
                self._hold(due)
            due = self._cuts.popleft()[1]
        if due is not None and pts - due.at > HOLE:
            self._hold(due)
            due = None
        self._shown, self._last = frame, pts
        if self._thinner.keeps(pts) or due is not None:
            self._pass(frame, pts, due)

    def _hold(self, cut: Cut) -> None:
        """Open a segment with the last frame again: it has none of its own."""
        self._outlet.trouble("picture missing", f"segment {cut.sequence}")
        self._open(cut)

    def _open(self, cut: Cut) -> None:
        self._last = cut.at
        self._repeat(self._standing(cut.at), cut.at, cut)

    def _standing(self, at: int) -> VideoFrame:
        """Return what is shown at a time for want of a picture of its own."""
        slate = self._slate
        begun = slate is not None and (at >= slate.since or self._shown is None)
        if slate is not None and begun and self._slated is not slate:
            self._slated, self._shown = slate, self._slate_picture(slate)
        return self._shown or self._black()

    def _slate_picture(self, slate: Slate) -> VideoFrame:
        size, self._aspect = self._size(), Fraction(1)
        try:
            if slate.picture is not None:
                return fitted(slate.picture, size, self._colours)
        except FFmpegError as error:
            self._outlet.trouble("slate not scaled", error)
        return card(size, self._colours)

    def _repeat(self, frame: VideoFrame, pts: int, cut: Cut | None) -> None:
        if cut is not None:
            self._arrange(cut, pts)
        if frame is self._passed:
            for rung in self._made:
                rung.put(Again(pts, cut))
            return
        frame.pts, frame.time_base = pts, TIME_BASE
        self._scale(frame, pts, cut)

    def _pass(self, frame: VideoFrame, pts: int, cut: Cut | None) -> None:
        if cut is not None:
            self._arrange(cut, pts)
        self._scale(frame, pts, cut)

    def _scale(self, frame: VideoFrame, pts: int, cut: Cut | None) -> None:
        self._passed = None
        if self._cascade is None:
            return
        try:
            pictures = self._cascade.scale(frame, self._aspect_of_pixels())
        except FFmpegError as error:
            self._outlet.trouble("picture not scaled", error)
            if cut is None:
                return
            black = self._black()
            black.pts, black.time_base = pts, TIME_BASE
            pictures = self._cascade.scale(black, Fraction(1))
        if self._slate is None:
            self._colours = colours_of(pictures[0])
        for rung, picture in zip(self._made, pictures, strict=True):
            rung.put((picture, cut))
        self._passed = frame

    def _gives_all_up(self) -> bool:
        """Give up what is not wanted any more; True where nobody is left who wants a picture."""
        names, until = self._given_up
        if not names or self._arranged >= until:
            return False
        gone = [rung for rung in self._made if rung.rendition.name in names]
        for rung in gone:
            rung.put(GiveUp())
        if gone:
            self._make([rung for rung in self._made if rung not in gone])
        if self._noted >= until or any(rung.rendition.name not in names for rung in self._rungs):
            return False
        while self._cuts and self._cuts[0][1].sequence < until:
            cut = self._cuts.popleft()[1]
            self._arrange(cut, cut.at)
        return not self._cuts

    def _arrange(self, cut: Cut, start: int) -> None:
        """Set which rungs are made from a cut on; the others have a gap."""
        names, until = self._given_up
        off = cut.off | names if cut.sequence < until else cut.off
        self._arranged = cut.sequence
        if cut.takeover and self._heir is not None:
            self._rungs.insert(0, self._heir)
            self._heir = None
        for rung in self._rungs:
            if rung.rendition.name in off:
                rung.put(Gap(cut, start))
        self._make([rung for rung in self._rungs if rung.rendition.name not in off])

    def _make(self, made: list[Rung]) -> None:
        if made != self._made:
            self._made, self._passed = made, None
            sizes = tuple((rung.rendition.width, rung.rendition.height) for rung in made)
            self._cascade = Cascade(sizes) if made else None

    def _aspect_of_pixels(self) -> Fraction:
        """What the decoder knows by now goes before what the configuration said."""
        if self._decoder is not None and (found := self._decoder.aspect):
            self._aspect = found
        return self._aspect

    def _size(self) -> tuple[int, int]:
        """Return the largest rung's size."""
        top = (self._heir or self._rungs[0]).rendition
        return top.width, top.height

    def _black(self) -> VideoFrame:
        frame = VideoFrame(*self._size(), "yuv420p")
        for plane, level in zip(frame.planes, _BLACK, strict=True):
            plane.update(level * plane.buffer_size)
        return frame
