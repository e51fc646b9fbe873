"""The live video pipeline: decoder, scaling cascade, encoder stages.

The decoder and the cascade share a thread; each rendition has an encoder stage with its own. Cuts
arrive in decode order, each before the packet that caused it, and the first frame at or after a cut
opens its segment. If the decoder returns nothing for a whole segment, the last frame (a black one
before there is any) is repeated, so that every rendition has every segment. While no source is on
air the last picture is shown for some time, then a slate (see `slate`).

A rendition that a cut leaves out gets a gap instead of pictures. If a cut leaves out all of them,
nothing is decoded until the next cut that does not, which begins with an IDR picture. Load shedding
takes effect before that cut arrives, since an overloaded machine cannot wait for it; `epoch`
determines when it can.
"""

from collections import deque
from fractions import Fraction
from typing import Final

import msgspec
from av.error import FFmpegError
from av.video.frame import VideoFrame

from media.ticks import VIDEO_SCALE
from media.track import VideoTrack
from transcode.engine.codec.decode import TIME_BASE, DecoderFactory, TrackVideoDecoder, VideoDecoder
from transcode.engine.codec.scaler import Cascade
from transcode.engine.core.reports import ReportWriter
from transcode.engine.core.stage import PipelineStage
from transcode.engine.live.slate import Colours, colours_of, draw_card, fit_picture
from transcode.engine.output.decoded_frames import (
    FrameThinner,
    black_frame,
    scale_or_black,
    split_due,
)
from transcode.engine.output.part_lengths import FrameInterval
from transcode.engine.output.rendition_encoder import (
    Abandon,
    EncoderStage,
    Gap,
    HandBack,
    Repeat,
)
from transcode.engine.output.segment_grid import Cut

# Coded packets that wait: 4 s at 60 frames a second, some megabytes.
_DEPTH: Final = 240
# A decoder holds back at most 16 frames (14496-10, A.3.1); a cut that has waited for this many
# packets will not get a frame any more.
_PATIENCE: Final = 32
# The approximate interval at which a held picture is repeated: the encoders hold back a dozen
# frames, which would be a minute of a slide show, and 10 a second are cheap where nothing moves.
HELD_INTERVAL: Final = FrameInterval(Fraction(VIDEO_SCALE, 10))
# The interval of a file's frames that are behind: encoders spend hardly a bit on shorter ones.
_CATCH_UP_STEP: Final = VIDEO_SCALE // 100

CodedPicture = tuple[bytes, int, int]
"""Data, decode time, presentation time."""


class HoldUntil(msgspec.Struct, frozen=True, gc=False):
    """No picture will come for the time up to `until`: repeat the last one."""

    until: int


class Preroll(msgspec.Struct, frozen=True, gc=False):
    """The pictures that lead up to those of the source, which are shown from `until` on.

    They begin with an access point and are decoded, but not shown.
    """

    pictures: tuple[bytes, ...]
    until: int


class ShowFrom(msgspec.Struct, frozen=True, gc=False):
    """The source is shown from `at` on; its pictures before that lead up to it."""

    at: int


class EndAt(msgspec.Struct, frozen=True, gc=False):
    """The source ends at `at`: its last pictures, from there on, are not shown.

    They were decoded early, and those between them have not come.
    """

    at: int


class VideoFormat(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The pictures of a source, which the pipeline decodes from here on.

    `order_known` is True if the source declares how far it reorders them. `aspect` is a pixel's
    width by its height, and `rate` the frames a second, if known.
    """

    track: VideoTrack
    order_known: bool
    aspect: Fraction
    rate: Fraction | None


class StartSlate(msgspec.Struct, frozen=True, gc=False):
    """The source has ended: show its last picture up to `since`, then `picture` (None: the card).

    `HoldUntil` determines how long it is shown.
    """

    since: int
    picture: VideoFrame | None


_Item = (
    CodedPicture
    | Cut
    | EndAt
    | HandBack
    | HoldUntil
    | Preroll
    | ShowFrom
    | StartSlate
    | VideoFormat
)


class VideoPipeline(PipelineStage[_Item]):
    """Decodes pictures of `video` (None: there are none yet) and feeds `stages`, largest first.

    It owns the stages and finishes them. `successor` is the stage of the top rung if the source's
    own packets make that for now; it joins the others at the cut with `Cut.takeover`, and leaves
    them with a `HandBack`. `part` is the
    part target in ticks of 90 000 a second, which held pictures divide evenly.
    """

    def __init__(
        self,
        video: VideoFormat | None,
        *,
        stages: list[EncoderStage],
        successor: EncoderStage | None,
        reports: ReportWriter,
        part: int,
        decoders: DecoderFactory | None = None,
    ) -> None:
        self._hold_step = part // max(1, round(part / HELD_INTERVAL.ticks))
        self._decoders = decoders
        self._stages = stages
        self._video = video
        self._aspect = video.aspect if video is not None else Fraction(1)
        self._successor = successor
        self._reports = reports
        self._decoder: VideoDecoder | None = None
        self._decoder_closed = True
        self._active: list[EncoderStage] = []
        # The renditions to abandon up to the cut of that number, and whether the successor has
        # none of the cuts before it; another thread replaces the three in one step.
        self._abandoned: tuple[frozenset[str], int, bool] = (frozenset(), 0, True)
        self._newest_cut = -1  # the newest that was put
        self._applied_cut = -1  # the newest that has taken effect
        self._takes_over = False  # a cut waits at which the successor takes over
        self._skipped: list[CodedPicture] = []  # needed if decoding continues after the next cut
        self._cascade: Cascade | None = None
        self._thinner = FrameThinner(video.rate if video is not None else None)
        self._slate: StartSlate | None = None  # is shown, or will be
        self._drawn_slate: StartSlate | None = None  # the one that `_shown` was made from
        self._colours = Colours()
        self._cuts: deque[tuple[int, Cut]] = deque()  # with the number of packets before it
        self._packets = 0
        self._shown: VideoFrame | None = None
        self._scaled: VideoFrame | None = None  # the frame that the stages have, scaled
        self._last: int | None = None
        self._shown_from: int | None = None  # after a preroll
        self._ends_at: int | None = None  # the present source, if its last pictures are left out
        self._leads_up = False  # the source sends its preroll itself, with times
        self._skips = False  # pictures that no other needs
        self._is_behind = False  # the last frame was shown later than its file says
        super().__init__("decoding", _DEPTH)

    def handle(self, item: _Item) -> None:
        """Decode a packet, record a cut, hold the picture, or change the source."""
        match item:
            case Cut():
                self._add_cut(item)
            case HoldUntil():
                self._hold_until(item.until)
            case EndAt():
                self._ends_at = item.at
            case HandBack():
                self._hand_back(item)
            case Preroll():
                self._lead_up(item)
            case ShowFrom():
                self._shown_from, self._leads_up = item.at, True
            case StartSlate():
                self._change_source(None)
                self._slate = item
            case VideoFormat():
                self._change_source(item)
            case data, dts, pts:
                self._decode(data, dts, pts)

    def abandon(self, names: frozenset[str], until: int, *, reuses: bool) -> None:
        """Stop making these renditions at once, until the cut with that number takes effect.

        Called by the thread that puts the items, before it puts that cut. `reuses` is False once it
        has put the cut with which the successor takes over.
        """
        if names or until == self._abandoned[1]:
            self._abandoned = (names, until, reuses)

    def close(self) -> None:
        """Flush the decoder, then finish the encoder stages."""
        self._drain()
        for stage in self._stages:
            stage.finish()
        if self._successor is not None:
            self._successor.finish()

    # -- packets and cuts -------------------------------------------------------------------------

    def _hand_back(self, item: HandBack) -> None:
        """Make the top rung no more: the source's own packets do, from the next picture on.

        That is an IDR picture, so nothing before it is still to come.
        """
        self._drain()
        self._decoder, self._decoder_closed = None, True
        if self._successor is None:
            self._successor = self._stages.pop(0)
        top = self._successor
        self._activate([stage for stage in self._active if stage is not top])
        top.put(item)

    def _add_cut(self, cut: Cut) -> None:
        self._newest_cut = cut.sequence
        skipped, self._skipped = self._skipped, []
        self._takes_over = self._takes_over or cut.takeover
        if cut.decoded:
            if cut.sequence < self._abandoned[1] and not cut.takeover:
                self._skipped = skipped
            else:
                for coded in skipped:
                    self._decode(*coded)
            self._cuts.append((self._packets, cut))
            return
        self._drain()
        self._apply(cut, cut.at)
        self._decoder, self._shown, self._decoder_closed = None, None, True

    def _decode(self, data: bytes, dts: int, pts: int) -> None:
        if self._abandon_all():
            self._skipped.append((data, dts, pts))
            return
        if self._decoder_closed:
            self._decoder, self._decoder_closed = self._open_decoder(), False
            self._skips = False
        if self._leads_up:
            self._skip_unreferenced(pts)
        self._packets += not self._skips  # a cut waits for pictures that are shown
        if self._decoder is not None:
            try:
                frames = self._decoder.decode(data, dts, pts)
            except FFmpegError as error:
                self._reports.count_trouble("picture not decoded", error)
            else:
                self._show_all(frames)
        while self._cuts and self._packets - self._cuts[0][0] > _PATIENCE:
            self._open_with_repeat(self._cuts.popleft()[1])

    def _lead_up(self, preroll: Preroll) -> None:
        """Decode what the pictures after a preroll refer to."""
        self._decoder, self._decoder_closed = self._open_decoder(), False
        self._shown_from = preroll.until
        decoder = self._decoder
        if not isinstance(decoder, TrackVideoDecoder):
            return
        decoder.skip_unreferenced(on=True)
        # Their own times do not count: a decoder returns pictures in the order that the codec says.
        first = preroll.until - len(preroll.pictures)
        for at, data in enumerate(preroll.pictures, first):
            try:
                self._show_all(decoder.decode(data, at, at))
            except FFmpegError as error:
                self._reports.count_trouble("picture not decoded", error)
        decoder.skip_unreferenced(on=False)

    def _skip_unreferenced(self, pts: int) -> None:
        """Leave out a picture that is not shown itself and that no other needs."""
        skips = self._is_before(pts)
        if skips is not self._skips and isinstance(self._decoder, TrackVideoDecoder):
            self._decoder.skip_unreferenced(on=skips)
        self._skips = skips

    def _hold_until(self, until: int) -> None:
        """Repeat the last picture up to `until`; a frame for an earlier time is late afterwards."""
        while self._cuts and self._cuts[0][1].at <= until:
            cut = self._cuts.popleft()[1]
            if self._slate is None:
                self._open_with_repeat(cut)
            else:
                self._repeat_at_cut(cut)
        while self._last is not None and (self._shown is not None or self._slate is not None):
            if self._last + self._hold_step > until:
                return
            self._last += self._hold_step
            self._repeat(self._held_picture(self._last), self._last, None)

    def _change_source(self, video: VideoFormat | None) -> None:
        """Flush the old source's decoder; the new one's is opened when it is needed."""
        if video is not None:
            self._drain()
            self._video, self._aspect = video, video.aspect
            self._thinner = FrameThinner(video.rate)
        else:  # the last picture and the slate will open the cuts that wait
            self._drain_decoder()
        self._skipped = []
        self._decoder, self._decoder_closed = None, True
        self._slate = self._ends_at = None
        self._leads_up = self._skips = False

    def _drain(self) -> None:
        self._drain_decoder()
        while self._cuts and not self._is_left_out(self._cuts[0][1].at):
            self._open_with_repeat(self._cuts.popleft()[1])

    def _drain_decoder(self) -> None:
        if self._decoder is not None:
            try:
                self._show_all(self._decoder.drain())
            except FFmpegError as error:
                self._reports.count_trouble("picture not decoded", error)

    def _open_decoder(self) -> VideoDecoder | None:
        video = self._video
        try:
            if self._decoders is not None:
                return self._decoders.video()
            if video is None:
                return None
            return TrackVideoDecoder(video.track, order_known=video.order_known)
        except FFmpegError as error:
            self._reports.count_trouble("picture decoder not opened", error)
            return None

    # -- frames -----------------------------------------------------------------------------------

    def _show_all(self, frames: list[VideoFrame]) -> None:
        for frame in frames:
            if self._decoders is not None:
                self._catch_up(frame)
            if self._is_left_out(frame.pts):
                continue
            if self._is_before(frame.pts):
                # Until its turn comes, another source's last picture is the one to be held.
                self._shown = self._shown if self._leads_up and self._shown is not None else frame
            elif frame.pts is None or (self._last is not None and frame.pts <= self._last):
                self._reports.count_trouble("picture out of order", frame.pts)
                self._shown = frame  # still the newest, if it has to be repeated
            else:
                self._show(frame, frame.pts)

    def _catch_up(self, frame: VideoFrame) -> None:
        """Show a file's frame after the one before, though the file places it earlier.

        A decoder knows the order better than a file that was put together carelessly.
        """
        if self._last is None or frame.pts is None:
            return
        least = self._last + (_CATCH_UP_STEP if self._is_behind else 1)
        self._is_behind = frame.pts < least
        if self._is_behind:
            frame.pts = self._last + _CATCH_UP_STEP

    def _is_before(self, pts: int | None) -> bool:
        """Return whether a picture belongs to a preroll, or to the time before it ends."""
        return self._shown_from is not None and (pts or 0) < self._shown_from

    def _is_left_out(self, pts: int | None) -> bool:
        """Return whether a time is one that the present source does not reach."""
        return self._ends_at is not None and (pts or 0) >= self._ends_at

    def _show(self, frame: VideoFrame, pts: int) -> None:
        """Pass a frame on, as the first of a segment if it has reached a cut."""
        due: list[Cut] = []
        while self._cuts and pts >= self._cuts[0][1].at:
            due.append(self._cuts.popleft()[1])
        repeated, opens = split_due(due, pts)
        for cut in repeated:
            self._open_with_repeat(cut)
        self._shown, self._last = frame, pts
        if self._thinner.keeps(pts) or opens is not None:
            self._pass(frame, pts, opens)

    def _open_with_repeat(self, cut: Cut) -> None:
        """Open a segment with the last frame again, since it has none of its own."""
        self._reports.count_trouble("picture missing", f"segment {cut.sequence}")
        self._repeat_at_cut(cut)

    def _repeat_at_cut(self, cut: Cut) -> None:
        self._last = cut.at
        self._repeat(self._held_picture(cut.at), cut.at, cut)

    def _held_picture(self, at: int) -> VideoFrame:
        """Return the picture that is shown at a time for which the source has none."""
        slate = self._slate
        slate_has_begun = slate is not None and (at >= slate.since or self._shown is None)
        if slate is not None and slate_has_begun and self._drawn_slate is not slate:
            self._drawn_slate, self._shown = slate, self._draw_slate(slate)
        return self._shown or black_frame(*self._size())

    def _draw_slate(self, slate: StartSlate) -> VideoFrame:
        size, self._aspect = self._size(), Fraction(1)
        try:
            if slate.picture is not None:
                return fit_picture(slate.picture, size, self._colours)
        except FFmpegError as error:
            self._reports.count_trouble("slate not scaled", error)
        return draw_card(size, self._colours)

    def _repeat(self, frame: VideoFrame, pts: int, cut: Cut | None) -> None:
        if cut is not None:
            self._apply(cut, pts)
        if frame is self._scaled:
            for stage in self._active:
                stage.put(Repeat(pts, cut))
            return
        frame.pts, frame.time_base = pts, TIME_BASE
        self._scale(frame, cut)

    def _pass(self, frame: VideoFrame, pts: int, cut: Cut | None) -> None:
        if cut is not None:
            self._apply(cut, pts)
        self._scale(frame, cut)

    def _scale(self, frame: VideoFrame, cut: Cut | None) -> None:
        self._scaled = None
        if self._cascade is None:
            return
        pictures = scale_or_black(
            self._cascade,
            frame,
            self._pixel_aspect(),
            black_size=None if cut is None else self._size(),
            reports=self._reports,
        )
        if not pictures:
            return
        if self._slate is None:
            self._colours = colours_of(pictures[0])
        for stage, picture in zip(self._active, pictures, strict=True):
            stage.put(((picture,), cut))
        self._scaled = frame

    def _abandon_all(self) -> bool:
        """Abandon the renditions that are shed; return True if no other one needs decoding."""
        names, until, reuses = self._abandoned
        if not names or self._applied_cut >= until:
            return False
        abandoned = [stage for stage in self._active if stage.encoder.rendition.name in names]
        for stage in abandoned:
            stage.put(Abandon())
        if abandoned:
            self._activate([stage for stage in self._active if stage not in abandoned])
        # The successor may have to take over among the cuts that wait, and may have handed back
        # since.
        takes_over = self._takes_over or not reuses
        waiting = (self._successor,) if takes_over and self._successor is not None else ()
        any_kept = any(
            stage.encoder.rendition.name not in names for stage in (*self._stages, *waiting)
        )
        if self._newest_cut >= until or any_kept:
            return False
        while self._cuts and self._cuts[0][1].sequence < until:
            cut = self._cuts.popleft()[1]
            self._apply(cut, cut.at)
        return not self._cuts

    def _apply(self, cut: Cut, start: int) -> None:
        """Set which renditions are made from a cut on; the others get a gap."""
        names, until, _ = self._abandoned
        off = cut.off | names if cut.sequence < until else cut.off
        self._applied_cut = cut.sequence
        if cut.takeover:
            self._takes_over = False
        if cut.takeover and self._successor is not None:
            self._stages.insert(0, self._successor)
            self._successor = None
        active: list[EncoderStage] = []
        for stage in self._stages:
            if stage.encoder.rendition.name in off:
                stage.put(Gap(cut, start))
            else:
                active.append(stage)
        self._activate(active)

    def _activate(self, active: list[EncoderStage]) -> None:
        if active != self._active:
            self._active, self._scaled = active, None
            renditions = [stage.encoder.rendition for stage in active]
            sizes = tuple((each.width, each.height) for each in renditions)
            self._cascade = Cascade(sizes) if active else None

    def _pixel_aspect(self) -> Fraction:
        """Return the aspect that the decoder reports, or else that of the configuration."""
        if self._decoder is not None and (aspect := self._decoder.aspect):
            self._aspect = aspect
        return self._aspect

    def _size(self) -> tuple[int, int]:
        """Return the largest rendition's size."""
        top = (self._successor or self._stages[0]).encoder.rendition
        return top.width, top.height
