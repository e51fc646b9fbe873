"""A stretch of a film: decoded from the keyframe before it, encoded into its segments.

What is made on its own must fit to what others make of the same film: segments begin at the cuts
that all were given, decode times follow from the times of the pictures alone, and nothing carries
over from one stretch to the next, not even rate control: quality is what is held constant.
"""

# The library leaves the type parameter of its packets open, so pyright knows them in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

import time
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from av.error import FFmpegError
from av.video.frame import PictureType, VideoFrame
from av.video.stream import VideoStream

from media.codecs.avc import AvcConfig
from media.hls.fmp4 import Sample, video_init
from media.ladder import Rendition
from media.ticks import VIDEO_SCALE
from transcode.engine.codec.decode import TIME_BASE
from transcode.engine.codec.encode import PictureEncoder, Quality
from transcode.engine.codec.scaler import Cascade
from transcode.engine.core.reports import Outlet
from transcode.engine.core.stage import Worker
from transcode.engine.input.container import Upload, picture_of
from transcode.engine.input.demux import demuxed, times_of
from transcode.engine.input.file_decoder import Pictures
from transcode.engine.live.video_pipeline import Thinner
from transcode.engine.output.file_segmenter import Pieces
from transcode.engine.vod.survey import seek_time
from transcode.protocol.file_messages import Stretch
from transcode.vod.span_planner import GAP_TICKS

__all__ = ["Making"]

_MOST_RATE: Final = 60
_DEPTH: Final = 4  # raw pictures that wait for an encoder: 12 MB each at 2160p
_LAST: Final = VIDEO_SCALE // 25
_BRIGHT: Final = (16, 18)  # PQ and HLG, as ISO/IEC 23091-2 counts them
_BLACK: Final = (b"\x10", b"\x80", b"\x80")  # Y, U, V

_Picture = tuple[VideoFrame, bool]
"""A picture, and whether it opens a segment."""


class Making:
    """Makes the renditions of `stretch`; `made` is how many of its pictures are through.

    `decoded` are the packets' decode times where the file leaves some out.
    """

    def __init__(self, upload: Upload, stretch: Stretch, outlet: Outlet) -> None:
        self._upload = upload
        self._stretch = stretch
        self._outlet = outlet
        self.made = 0
        self._rungs = [_Rung(each, stretch, outlet) for each in stretch.rungs]
        self._cascade = Cascade(tuple((each.width, each.height) for each in stretch.rungs))
        self._cuts = deque(stretch.cuts)
        self._shown: VideoFrame | None = None
        self._given = False
        rate = Fraction(stretch.rate, 1000) if stretch.rate else None
        self._thinner = Thinner(rate)
        self._crew = _crew(self._rungs, stretch.threads)

    @property
    def rung_cpu_ms(self) -> dict[str, int]:
        """What encoding each rung has cost so far, in ms of CPU."""
        return {rung.rendition.name: rung.cpu_ns // 1_000_000 for rung in self._rungs}

    @property
    def is_blank(self) -> bool:
        """Whether no picture could be decoded."""
        return not self._given

    def run(self) -> None:
        """Make all of it."""
        picture = picture_of(self._upload)
        if picture is None:
            raise LookupError("no picture")
        aspect = Fraction(1)
        for frame, aspect in self._frames(picture):
            self._place(frame, aspect)
            self.made += 1
        while self._cuts:
            self._hold(self._cuts.popleft(), aspect, picture)
        self._stay(aspect)
        for each in self._crew:
            each.finish()

    # -- from the file to pictures ----------------------------------------------------------------

    def _frames(self, picture: VideoStream) -> Iterator[tuple[VideoFrame, Fraction]]:
        """Yield the stretch's frames in showing order, with their pixels' aspect."""
        stretch = self._stretch
        decoder = Pictures(picture, timed=True)
        last = stretch.before
        for frame in self._decoded(picture, decoder):
            if frame.pts is None or frame.pts <= last:
                if frame.pts is not None and frame.pts <= stretch.before:
                    self._come_by(frame, decoder.aspect)
                else:
                    self._outlet.trouble("picture out of order", frame.pts)
                continue
            if frame.pts >= stretch.until:
                continue
            last = frame.pts
            if not self._given and int(frame.color_trc) in _BRIGHT:
                self._outlet.trouble("tone-mapped")
            if frame.is_corrupt:
                self._outlet.trouble("picture damaged", frame.pts)
            self._given = True
            yield frame, decoder.aspect

    def _come_by(self, frame: VideoFrame, aspect: Fraction) -> None:
        """Note a picture from before the stretch: keyframes tell how the others are turned."""
        self._shown = frame
        if frame.key_frame:
            try:
                self._cascade.scale(frame, aspect)
            except FFmpegError as error:
                self._outlet.trouble("picture not scaled", error)

    def _decoded(self, picture: VideoStream, decoder: Pictures) -> Iterator[VideoFrame]:
        stretch = self._stretch
        left = stretch.pictures
        if stretch.sequence:
            base = picture.time_base or TIME_BASE
            self._upload.seek(seek_time(stretch, base), stream=picture)
        first = stretch.cuts[0]
        for packet in demuxed(self._upload, [picture]):
            times = times_of(packet)
            if times is None:
                continue
            dts, pts = (each + stretch.offset for each in times)
            yield from self._tried(decoder, bytes(packet), dts, pts)
            left -= first <= pts < stretch.until
            if not left:
                break
        else:
            self._outlet.trouble("pictures missing", left)
        yield from self._tried(decoder, None, 0, 0)

    def _tried(self, decoder: Pictures, data: bytes | None, dts: int, pts: int) -> list[VideoFrame]:
        try:
            return decoder.drain() if data is None else decoder.decode(data, dts, pts)
        except FFmpegError as error:
            self._outlet.trouble("picture not decoded", error)
            return []

    # -- from pictures to segments ----------------------------------------------------------------

    def _place(self, frame: VideoFrame, aspect: Fraction) -> None:
        """Encode a picture, as the first of a segment where a cut is due."""
        pts = frame.pts or 0
        opens = False
        while self._cuts and pts >= self._cuts[0]:
            cut = self._cuts.popleft()
            opens = pts - cut <= GAP_TICKS and not (self._cuts and pts >= self._cuts[0])
            if not opens:
                self._hold(cut, aspect, None)
        self._shown = frame
        if self._thinner.keeps(pts) or opens:
            self._pass(frame, aspect, opens=opens)

    def _hold(self, cut: int, aspect: Fraction, picture: VideoStream | None) -> None:
        """Open a segment with the last picture again: it has none of its own."""
        self._outlet.trouble("picture missing", cut)
        frame = self._shown or _black(picture or picture_of(self._upload))
        frame.pts, frame.time_base = cut, TIME_BASE
        self._pass(frame, aspect, opens=True)

    def _stay(self, aspect: Fraction) -> None:
        """Show the last picture again at the film's end, where its sound goes on without it."""
        stretch, frame = self._stretch, self._shown
        if frame is None or frame.pts is None or stretch.end != stretch.until:
            return
        if stretch.end - frame.pts > GAP_TICKS:
            frame.pts, frame.time_base = stretch.end - _LAST, TIME_BASE
            self._pass(frame, aspect, opens=False)

    def _pass(self, frame: VideoFrame, aspect: Fraction, *, opens: bool) -> None:
        try:
            pictures = self._cascade.scale(frame, aspect)
        except FFmpegError as error:
            self._outlet.trouble("picture not scaled", error)
            if not opens:
                return
            black = _black(picture_of(self._upload))
            black.pts, black.time_base = frame.pts, TIME_BASE
            pictures = self._cascade.scale(black, Fraction(1))
        for each in self._crew:
            each.put([(picture, opens) for picture in pictures])


class _Rung:
    """One encoded rendition of the stretch."""

    def __init__(self, rendition: Rendition, stretch: Stretch, outlet: Outlet) -> None:
        self.rendition = rendition
        self.cpu_ns = 0
        self._outlet = outlet
        self._rate = Fraction(min(stretch.rate, _MOST_RATE * 1000), 1000) if stretch.rate else None
        self._pieces = Pieces(
            rendition.name, sequence=stretch.sequence, end=stretch.end, send=outlet.send
        )
        self._encoder: PictureEncoder | None = None
        self._times = [stretch.before]  # of the pictures, from the newest decode time on
        self._opening: set[int] = set()
        self._due = False

    def take(self, frame: VideoFrame, *, opens: bool) -> None:
        """Encode a picture."""
        begun = time.thread_time_ns()
        self._due = self._due or opens
        encoder = self._encoder or self._opened(frame)
        frame.pict_type = PictureType.I if self._due else PictureType.NONE
        try:
            samples = encoder.encode(frame)
        except FFmpegError as error:
            self._outlet.trouble("picture not encoded", error)
        else:
            if frame.pts is not None:
                self._times.append(frame.pts)
                if self._due:
                    self._opening.add(frame.pts)
            self._due = False
            self._add(samples)
        self.cpu_ns += time.thread_time_ns() - begun

    def close(self) -> None:
        """Take out of the encoder what it still holds."""
        begun = time.thread_time_ns()
        if self._encoder is not None:
            self._add(self._encoder.encode(None))
        self._pieces.close()
        self.cpu_ns += time.thread_time_ns() - begun

    def _add(self, samples: list[Sample]) -> None:
        """Send samples; each is decoded when the picture before it in showing order is shown."""
        for sample in samples:
            place = bisect_left(self._times, sample.pts)
            if place == len(self._times) or self._times[place] != sample.pts:
                self._outlet.trouble("picture with another time", sample.pts)
                continue
            dts, follows = self._times[:2]
            del self._times[0]
            opens = sample.pts in self._opening
            self._opening.discard(sample.pts)
            self._pieces.add(
                Sample(dts, sample.pts, follows - dts, sample.key, sample.data), opens=opens
            )

    def _opened(self, frame: VideoFrame) -> PictureEncoder:
        size = self.rendition
        encoder = PictureEncoder(size, frame, self._rate, quality=Quality.FILE)
        self._pieces.describe(
            AvcConfig.parse(encoder.config).codecs,
            video_init(config=encoder.config, width=size.width, height=size.height),
        )
        self._encoder = encoder
        return encoder


class _Crew:
    """Encodes some of the rungs, by their places in the ladder, on the calling thread."""

    def __init__(self, places: list[int], rungs: list[_Rung]) -> None:
        self._work = [(place, rungs[place]) for place in places]

    def put(self, pictures: list[_Picture]) -> None:
        """Encode a picture in all of its sizes."""
        for place, rung in self._work:
            picture, opens = pictures[place]
            rung.take(picture, opens=opens)

    def finish(self) -> None:
        """Close the rungs."""
        for _, rung in self._work:
            rung.close()


class _Threaded(Worker[list[_Picture]]):
    """A crew on a thread of its own."""

    def __init__(self, name: str, crew: _Crew) -> None:
        self._crew = crew
        super().__init__(name, _DEPTH)

    def take(self, item: list[_Picture]) -> None:
        """Encode a picture in all of its sizes."""
        self._crew.put(item)

    def close(self) -> None:
        """Close the rungs."""
        self._crew.finish()


def _crew(rungs: list[_Rung], threads: int) -> "list[_Crew | _Threaded]":
    """Share the rungs among the threads that are left besides the one that decodes."""
    if threads < 2:
        return [_Crew(list(range(len(rungs))), rungs)]
    loads: list[tuple[int, list[int]]] = [(0, []) for _ in range(min(threads - 1, len(rungs)))]
    for place, rung in enumerate(rungs):
        lightest = min(range(len(loads)), key=lambda number: loads[number][0])
        load, places = loads[lightest]
        size = rung.rendition.width * rung.rendition.height
        loads[lightest] = load + size, [*places, place]
    return [
        _Threaded(f"rungs {number}", _Crew(places, rungs))
        for number, (_, places) in enumerate(loads)
    ]


def _black(picture: VideoStream | None) -> VideoFrame:
    width, height = (picture.width, picture.height) if picture is not None else (2, 2)
    frame = VideoFrame(max(2, width // 2 * 2), max(2, height // 2 * 2), "yuv420p")
    for plane, level in zip(frame.planes, _BLACK, strict=True):
        plane.update(level * plane.buffer_size)
    return frame
