"""The encoder stage: scaled pictures in, samples to a segmenter out, live or from a file.

`RenditionEncoder` makes one rendition; `EncoderStage` runs one or more of them on a thread. A live
ladder uses a thread for each rendition, which is the cheapest way to use all cores; a span shares
its renditions among the threads that it is given.
"""

import threading
import time
from bisect import bisect_left
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import msgspec
from av.error import FFmpegError
from av.video.frame import PictureType, VideoFrame

from media.codecs.avc import AvcConfig
from media.hls.fmp4 import Sample, video_init
from media.ladder import Rendition
from media.ticks import VIDEO_SCALE
from transcode.engine.codec.encode import Quality, VideoEncoder
from transcode.engine.core.reports import ReportWriter
from transcode.engine.core.stage import PipelineStage
from transcode.engine.output.segment_grid import HOLE, Cut
from transcode.engine.output.segmenter import Segmenter

_LEAD: Final = VIDEO_SCALE // 25


class DecodeTimes:
    """Decode times that follow from the pictures' times alone, so that spans fit together.

    Each sample is decoded when the picture before it in presentation order is shown, or if that
    stands for long, just before it is shown itself, if it is an IDR picture: a segment then lasts
    as long as its samples. `before` is the time of the picture that precedes the first one. `end`
    is where the asset's last picture ends, None if others follow, the first at `following`.
    """

    def __init__(self, before: int, end: int | None = None, following: int | None = None) -> None:
        self._times = [before]
        self._decoded: list[int] = []  # when the pictures after `_times[0]` are decoded
        self._end = end
        self._following = following
        self._closed = False

    def expect(self, pts: int, *, entry: bool = False) -> None:
        """Record the time of the next picture, in presentation order; is it an `entry` (IDR)?"""
        before = self._times[-1]
        self._decoded.append(pts - _LEAD if entry and pts - before > HOLE else before)
        self._times.append(pts)

    def close(self) -> None:
        """Record that no further picture is expected."""
        if self._following is not None:
            self.expect(self._following, entry=True)
        self._closed = True

    def stamp(self, sample: Sample) -> Sample | None:
        """Return a sample with its decode time and duration; None if no picture had its time."""
        times = self._times
        index = bisect_left(times, sample.pts)
        if index == len(times) or times[index] != sample.pts:
            return None
        dts, *later = self._decoded[:2]
        duration = (later[0] if later else times[1]) - dts
        del times[0], self._decoded[0]
        if self._closed and self._end is not None and len(times) == 1:
            duration = max(1, self._end - sample.pts)
        return Sample(dts, sample.pts, duration, sample.key, sample.data)


class RenditionEncoder:
    """Encodes the pictures of `rendition` and passes the samples to `segmenter`.

    A picture with a cut becomes an IDR picture and opens that segment. From a `still` one on
    pictures are not reordered, which would save nothing: so segments last as long as their samples,
    also the first one, whose decode times must not precede it. The encoder's own decode
    times are used unless there are `decode_times`. `end` is where the rendition ended, in ticks of
    90 000 a second; it is None until `close`, and if it ended in a gap.
    """

    def __init__(
        self,
        rendition: Rendition,
        segmenter: Segmenter,
        reports: ReportWriter,
        rate: Fraction | None,
        *,
        quality: Quality = Quality.LIVE,
        decode_times: DecodeTimes | None = None,
    ) -> None:
        self.rendition = rendition
        self.segmenter = segmenter
        self.end: int | None = None
        self._reports = reports
        self._rate = rate
        self._quality = quality
        self._decode_times = decode_times
        self._encoder: VideoEncoder | None = None
        self._in_order = False
        self._newest: VideoFrame | None = None
        self._pending_cut: Cut | None = None  # no picture has opened it yet
        self._cuts: dict[int, Cut] = {}  # by the time of the picture that opens the segment

    def encode(self, frame: VideoFrame, cut: Cut | None, *, entry: bool = False) -> None:
        """Encode a picture, as the first of a segment if there is a cut.

        It becomes an IDR picture also if it is an `entry`.
        """
        self._newest = frame
        if cut is not None and self._pending_cut is not None:
            # The encoder refused all of its pictures.
            self.leave_gap(self._pending_cut, self._pending_cut.at)
        if cut is not None and cut.still:
            self._flush()
            self._in_order = True
        # If the encoder refuses the picture of a cut, the next picture opens the segment.
        self._pending_cut = cut or self._pending_cut
        encoder = self._encoder or self._open(frame)
        # Decoded frames carry their type in the source, which the encoder would obey.
        entry = entry or self._pending_cut is not None
        frame.pict_type = PictureType.I if entry else PictureType.NONE
        try:
            samples = encoder.encode(frame)
        except FFmpegError as error:
            self._reports.count_trouble("picture not encoded", error)
            return
        if frame.pts is not None:
            if self._decode_times is not None:
                self._decode_times.expect(frame.pts, entry=entry)
            if self._pending_cut is not None:
                self._cuts[frame.pts] = self._pending_cut
                self._pending_cut = None
        self._add(samples)

    def repeat(self, pts: int, cut: Cut | None, *, entry: bool = False) -> None:
        """Encode the newest picture once more, shown at `pts` (see `encode`)."""
        if self._newest is not None:
            # The encoder has copied the picture, so its time can be changed.
            self._newest.pts = pts
            self.encode(self._newest, cut, entry=entry)

    def leave_gap(self, cut: Cut, start: int) -> None:
        """Make the segment of `cut` a gap that begins at `start`, and free the encoder.

        The picture after the gap is an IDR picture in any case.
        """
        self._flush()
        self._pending_cut = None
        self.segmenter.gap(cut, start)

    def abandon(self) -> None:
        """Free the encoder with all that it holds; segments that would begin in it become gaps."""
        self._encoder = None
        self.segmenter.discard()
        begun = sorted(self._cuts.values(), key=lambda cut: cut.sequence)
        for cut in (*begun, *([self._pending_cut] if self._pending_cut is not None else [])):
            self.segmenter.gap(cut, cut.at)
        self._cuts.clear()
        self._pending_cut = None

    def hand_back(self) -> None:
        """Flush the encoder: something else continues the segment."""
        self._flush()
        if self._pending_cut is not None:
            self.leave_gap(self._pending_cut, self._pending_cut.at)

    def close(self) -> None:
        """Flush the encoder and end the last segment.

        A gap stays open, since only the other renditions determine where it ends.
        """
        if self._decode_times is not None:
            self._decode_times.close()
        self._flush()
        if self._pending_cut is not None:
            self.leave_gap(self._pending_cut, self._pending_cut.at)
        if not self.segmenter.is_gap:
            self.end = self.segmenter.end()

    def _flush(self) -> None:
        encoder, self._encoder = self._encoder, None
        if encoder is not None:
            self._add(encoder.encode(None))

    def _add(self, samples: list[Sample]) -> None:
        for sample in samples:
            stamped = sample if self._decode_times is None else self._decode_times.stamp(sample)
            if stamped is None:
                self._reports.count_trouble("picture with another time", sample.pts)
            else:
                self.segmenter.add(stamped, self._cuts.pop(sample.pts, None))

    def _open(self, frame: VideoFrame) -> VideoEncoder:
        size = self.rendition
        encoder = VideoEncoder(
            size, frame, self._rate, quality=self._quality, in_order=self._in_order
        )
        config = AvcConfig.parse(encoder.config)
        init = video_init(config=encoder.config, width=size.width, height=size.height)
        self.segmenter.describe(config.codecs, init, config)
        self._encoder = encoder
        return encoder


Pictures = tuple[Sequence[VideoFrame], Cut | None]
"""A picture in the size of each encoder of a stage, and the cut that it is the first of."""


class Repeat(msgspec.Struct, frozen=True, gc=False):
    """Show the newest picture again at `pts`; it need not be scaled once more."""

    pts: int
    cut: Cut | None
    entry: bool = False


class Gap(msgspec.Struct, frozen=True, gc=False):
    """Leave out the segment of `cut`, which begins at `start` in the other renditions."""

    cut: Cut
    start: int


class Abandon(msgspec.Struct, frozen=True, gc=False):
    """Stop at once; the segment that was begun becomes a gap."""


class HandBack(msgspec.Struct, frozen=True, gc=False):
    """Encode no more for now; `free` is set once the segmenter is no longer used."""

    free: threading.Event


class EncoderStage(PipelineStage[Pictures | Repeat | Gap | Abandon | HandBack]):
    """Runs `encoders` on one thread and closes them at the end.

    At most `depth` pictures wait in each size; with a depth of 0 the calling thread encodes.
    """

    def __init__(self, name: str, encoders: Sequence[RenditionEncoder], depth: int) -> None:
        self._encoders = encoders
        super().__init__(name, depth)

    @property
    def encoder(self) -> RenditionEncoder:
        """The encoder of a stage that has just one."""
        (encoder,) = self._encoders
        return encoder

    def handle(self, item: Pictures | Repeat | Gap | Abandon | HandBack) -> None:
        """Apply an item to each encoder."""
        for number, encoder in enumerate(self._encoders):
            started_ns = time.thread_time_ns()
            match item:
                case Gap():
                    encoder.leave_gap(item.cut, item.start)
                case Abandon():
                    encoder.abandon()
                case HandBack():
                    encoder.hand_back()
                case Repeat():
                    encoder.repeat(item.pts, item.cut, entry=item.entry)
                case frames, cut:
                    encoder.encode(frames[number], cut)
            encoder.segmenter.cpu_ns += time.thread_time_ns() - started_ns
        if isinstance(item, HandBack):
            item.free.set()

    def close(self) -> None:
        """Flush the encoders and end their segments."""
        for encoder in self._encoders:
            started_ns = time.thread_time_ns()
            encoder.close()
            encoder.segmenter.cpu_ns += time.thread_time_ns() - started_ns
