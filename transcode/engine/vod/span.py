"""The pipeline of a span: decoded from the keyframe before it, encoded into its segments.

A span is made on its own, yet must fit the others of the same asset. So segments begin at cuts that
all spans were given, decode times follow from the pictures' times alone, and nothing carries over
from one span to the next, not even rate control: the quality is held constant.
"""

# The library leaves the type parameter of its packets open, so pyright knows them in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from collections import deque
from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from av.error import FFmpegError
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from media.ladder import Rendition
from media.ticks import VIDEO_SCALE
from transcode.engine.codec.decode import TIME_BASE, PacketData
from transcode.engine.codec.encode import Quality
from transcode.engine.codec.scaler import Cascade
from transcode.engine.core.reports import ReportWriter
from transcode.engine.input.container import Upload, video_stream
from transcode.engine.input.demux import demux
from transcode.engine.input.file_decoder import FileVideoDecoder
from transcode.engine.input.joined_clock import Joins, joined_times
from transcode.engine.output.decoded_frames import (
    FrameThinner,
    black_frame,
    scale_or_black,
    split_due,
)
from transcode.engine.output.rendition_encoder import (
    DecodeTimes,
    EncoderStage,
    RenditionEncoder,
    Repeat,
)
from transcode.engine.output.segment_grid import HOLE, Cut
from transcode.engine.output.segmenter import FileSegmenter
from transcode.engine.vod.survey import seek_time
from transcode.protocol.file_messages import SpanOrder

_MOST_RATE: Final = 60
_LEAST_RATE: Final = 1  # a picture that stands is repeated
_LAST_PICTURE: Final = VIDEO_SCALE // 25  # how long the repeated picture at the asset's end lasts
_DEPTH: Final = 4  # raw pictures that wait for an encoder: 12 MB each at 2160p
_WIDE_RANGE: Final = (16, 18)  # PQ and HLG: numbers of ISO/IEC 23091-2


class SpanPipeline:
    """Makes the renditions of `span`; `made` counts the pictures that are done.

    `joins` are those of the file's parts if the order's times are joined.
    """

    def __init__(
        self, upload: Upload, span: SpanOrder, reports: ReportWriter, joins: Joins
    ) -> None:
        self._upload = upload
        self._times_of = joined_times(joins)
        self._span = span
        self._reports = reports
        self.made = 0
        self._encoders = [_encoder(each, span, reports) for each in span.rungs]
        self._stages = _stages(self._encoders, span.threads)
        self._cascade = Cascade(tuple((each.width, each.height) for each in span.rungs))
        self._cuts = deque(
            Cut(sequence=sequence, at=at) for sequence, at in enumerate(span.cuts, span.sequence)
        )
        self._shown: VideoFrame | None = None
        self._is_passed = False  # the encoders have what is shown
        self._newest = span.before  # the time of what they have
        self._step = 0  # between the last two pictures
        self._decoded_any = False
        self._thinner = FrameThinner(Fraction(span.rate, 1000) if span.rate else None)

    @property
    def rung_cpu_ms(self) -> dict[str, int]:
        """The CPU time in ms that encoding has cost so far, by rendition."""
        return {
            encoder.rendition.name: encoder.segmenter.cpu_ns // 1_000_000
            for encoder in self._encoders
        }

    @property
    def is_blank(self) -> bool:
        """True if no picture could be decoded."""
        return not self._decoded_any

    def run(self) -> None:
        """Make the whole span."""
        picture = video_stream(self._upload)
        if picture is None:
            raise LookupError("no picture")
        aspect = Fraction(1)
        for frame, aspect in self._frames(picture):
            self._show(frame, aspect)
            self.made += 1
        while self._cuts:
            self._open_with_repeat(self._cuts.popleft(), aspect)
        self._hold_last(aspect)
        for _, stage in self._stages:
            stage.finish()

    # -- from the file to frames ------------------------------------------------------------------

    def _frames(self, picture: VideoStream) -> Iterator[tuple[VideoFrame, Fraction]]:
        """Yield the span's frames in presentation order, with the aspect of their pixels."""
        span = self._span
        decoder = FileVideoDecoder(picture, timed=span.timed)
        last = span.before
        for frame in self._decoded(picture, decoder):
            if frame.pts is None or frame.pts <= last:
                if frame.pts is not None and frame.pts <= span.before:
                    self._note_earlier(frame, decoder.aspect_of(frame))
                else:
                    self._reports.count_trouble("picture out of order", frame.pts)
                continue
            if frame.pts >= span.until:
                continue
            if span.wait and frame.pts == span.cuts[0] + span.wait:
                frame.pts = span.cuts[0]
            last = frame.pts
            if not self._decoded_any and int(frame.color_trc) in _WIDE_RANGE:
                self._reports.count_trouble("tone-mapped")
            if frame.is_corrupt:
                self._reports.count_trouble("picture damaged", frame.pts)
            self._decoded_any = True
            yield frame, decoder.aspect_of(frame)

    def _note_earlier(self, frame: VideoFrame, aspect: Fraction) -> None:
        """Keep a frame from before the span; the cascade reads the rotation off its keyframes."""
        self._shown = frame
        if frame.key_frame:
            try:
                self._cascade.scale(frame, aspect)
            except FFmpegError as error:
                self._reports.count_trouble("picture not scaled", error)

    def _decoded(self, picture: VideoStream, decoder: FileVideoDecoder) -> Iterator[VideoFrame]:
        span = self._span
        remaining = span.pictures
        if span.sequence:
            base = picture.time_base or TIME_BASE
            self._upload.seek(seek_time(span, base), stream=picture)
        first = span.cuts[0]
        for packet in demux(self._upload, [picture]):
            times = self._times_of(packet)
            if times is None:
                continue
            dts, pts = (each + span.offset for each in times)
            yield from self._decode(decoder, PacketData(packet), dts, pts)
            remaining -= first <= pts < span.until and not packet.is_discard
            if not remaining:
                break
        else:
            self._reports.count_trouble("pictures missing", remaining)
        yield from self._decode(decoder, None, 0, 0)

    def _decode(
        self, decoder: FileVideoDecoder, data: bytes | None, dts: int, pts: int
    ) -> list[VideoFrame]:
        try:
            return decoder.drain() if data is None else decoder.decode(data, dts, pts)
        except FFmpegError as error:
            self._reports.count_trouble("picture not decoded", error)
            return []

    # -- from frames to segments ------------------------------------------------------------------

    def _show(self, frame: VideoFrame, aspect: Fraction) -> None:
        """Encode a frame, as the first of a segment if it has reached a cut."""
        pts = frame.pts or 0
        due: list[Cut] = []
        while self._cuts and pts >= self._cuts[0].at:
            due.append(self._cuts.popleft())
        repeated, opens = split_due(due, pts)
        for cut in repeated:
            self._open_with_repeat(cut, aspect)
        if self._shown is not None:
            self._step = pts - (self._shown.pts or 0)
        self._shown, self._is_passed = frame, False
        if self._thinner.keeps(pts) or opens is not None:
            self._pass(frame, aspect, opens)

    def _open_with_repeat(self, cut: Cut, aspect: Fraction) -> None:
        """Open a segment with the last frame again, since it has none of its own."""
        self._reports.count_trouble("picture missing", cut.at)
        self._repeat(cut.at, aspect, cut)

    def _hold_last(self, aspect: Fraction) -> None:
        """Repeat the last frame at the asset's end, if it stands there."""
        span = self._span
        left = span.end - self._newest
        if span.end == span.until and (
            left > HOLE or (left > 2 * _LAST_PICTURE and self._step > HOLE)
        ):
            self._repeat(span.end - _LAST_PICTURE, aspect, None)

    def _repeat(self, at: int, aspect: Fraction, cut: Cut | None) -> None:
        """Show the last frame again, or black if there was none."""
        if self._is_passed:
            self._newest = at
            for _, stage in self._stages:
                stage.put(Repeat(at, cut, entry=True))
            return
        frame = self._shown or black_frame(*self._size())
        frame.pts, frame.time_base = at, TIME_BASE
        self._pass(frame, aspect, cut)

    def _pass(self, frame: VideoFrame, aspect: Fraction, cut: Cut | None) -> None:
        pictures = scale_or_black(
            self._cascade,
            frame,
            aspect,
            black_size=None if cut is None else self._size(),
            reports=self._reports,
        )
        if not pictures:
            return
        self._is_passed, self._newest = True, frame.pts or 0
        for places, stage in self._stages:
            stage.put(([pictures[place] for place in places], cut))

    def _size(self) -> tuple[int, int]:
        """Return the coded size of the file's pictures, in even numbers."""
        picture = video_stream(self._upload)
        width, height = (picture.width, picture.height) if picture is not None else (2, 2)
        return max(2, width // 2 * 2), max(2, height // 2 * 2)


def _encoder(rendition: Rendition, span: SpanOrder, reports: ReportWriter) -> RenditionEncoder:
    is_last = span.end == span.until
    rate = min(max(span.rate, _LEAST_RATE * 1000), _MOST_RATE * 1000)
    return RenditionEncoder(
        rendition,
        FileSegmenter(rendition.name, end=span.end, send=reports.send),
        reports,
        Fraction(rate, 1000) if span.rate else None,
        quality=Quality.FILE,
        decode_times=DecodeTimes(
            span.before, span.end if is_last else None, None if is_last else span.end
        ),
    )


def _stages(encoders: list[RenditionEncoder], threads: int) -> list[tuple[list[int], EncoderStage]]:
    """Share the encoders among the threads other than the one that decodes.

    Each stage comes with the places of its encoders in the ladder. The largest rendition left goes
    to the stage with the fewest pixels.
    """
    if threads < 2:
        return [(list(range(len(encoders))), EncoderStage("encoding", encoders, depth=0))]
    loads: list[tuple[int, list[int]]] = [(0, []) for _ in range(min(threads - 1, len(encoders)))]
    for index, encoder in enumerate(encoders):
        lightest = min(range(len(loads)), key=lambda number: loads[number][0])
        load, places = loads[lightest]
        size = encoder.rendition.width * encoder.rendition.height
        loads[lightest] = load + size, [*places, index]
    return [
        (places, EncoderStage(f"encoding {number}", [encoders[index] for index in places], _DEPTH))
        for number, (_, places) in enumerate(loads)
    ]
