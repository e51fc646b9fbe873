"""The live audio pipeline: any source's sound becomes AAC-LC, 48 kHz, stereo, without a hole.

Sound follows its own timestamps: if it is off by more than 40 ms it is stretched (at most 1 000
samples a second, about 2 %), by more than 200 ms it is cut or filled with silence. If it is
missing, silence replaces it so that the picture need not wait; sound that arrives later is trimmed
to the clock. The caller knows when sound is due (see `source`). Positions are samples at 48 kHz on
the output clock; times are ticks of 90 000 a second. Where one source follows another, the sound of
the one fades into that of the other.
"""

from collections import deque
from typing import Final

from av.audio.fifo import AudioFifo
from av.audio.frame import AudioFrame
from av.error import BlockingIOError as NothingYet
from av.error import EOFError as NothingMore
from av.error import FFmpegError
from av.filter import Graph
from av.filter.context import FilterContext

from media.codecs.aac import AudioSpecificConfig
from media.hls.fmp4 import Sample, audio_init
from media.ticks import AUDIO_SCALE, VIDEO_SCALE, rescale
from media.track import AudioTrack
from transcode.engine.codec.decode import (
    SAMPLE_BYTES,
    TIME_BASE,
    AudioDecoder,
    DecoderFactory,
    TrackAudioDecoder,
    stereo_frame,
)
from transcode.engine.codec.encode import AAC_FRAME, AUDIO_TIME_BASE, AudioEncoder
from transcode.engine.core.reports import ReportWriter
from transcode.engine.live.crossfade import LEAST_HELD, Crossfade
from transcode.engine.output.segment_grid import Cut, SegmentGrid
from transcode.engine.output.segmenter import LiveSegmenter

# How long sound may be overdue before silence replaces it. Until it comes again silence keeps up
# with the picture: low-latency viewers are hardly more than a second behind.
_PATIENCE: Final = AUDIO_SCALE
_SILENCE: Final = 4096  # samples written at a time
# `async` is the maximum of samples a second that are added or dropped. It does not align the
# beginning within `min_comp`; `AudioPipeline` does that to the sample.
_COMPENSATION: Final = {"async": "1000", "min_comp": "0.04", "min_hard_comp": "0.2"}
# An error of rounding between the scales; more is a hole or an overlap.
_ROUNDING: Final = 4


class AudioConformer:
    """Converts frames of one format to 48 kHz stereo that keeps to its timestamps."""

    def __init__(self, first: AudioFrame) -> None:
        self.format = _format(first)
        graph = Graph()
        graph.threads = 1
        self._source = graph.add(
            "abuffer",
            sample_rate=str(first.sample_rate),
            sample_fmt=first.format.name,
            channel_layout=first.layout.name,
            time_base=str(TIME_BASE),
        )
        resample = graph.add("aresample", **_COMPENSATION)
        form = graph.add(
            "aformat",
            sample_rates=str(AUDIO_SCALE),
            sample_fmts="fltp",
            channel_layouts="stereo",
        )
        self._sink: FilterContext = graph.add("abuffersink")
        graph.link_nodes(self._source, resample, form, self._sink)
        graph.configure()
        self._graph = graph  # kept: the filters live as long as it does

    def convert(self, frame: AudioFrame | None) -> list[AudioFrame]:
        """Return the frames made of a frame (None: flush), with positions as times."""
        self._source.push(frame)
        frames: list[AudioFrame] = []
        while True:
            try:
                converted = self._sink.pull()
            except (NothingYet, NothingMore):
                return frames
            if isinstance(converted, AudioFrame):
                frames.append(converted)


def _format(frame: AudioFrame) -> tuple[int, str, str]:
    return frame.sample_rate, frame.format.name, frame.layout.name


class AudioPipeline:
    """Encodes an epoch's sound, of `source` (None: silence), into `track` from `origin` on."""

    def __init__(
        self,
        source: AudioTrack | None,
        track: LiveSegmenter,
        *,
        origin: int,
        reports: ReportWriter,
        decoders: DecoderFactory | None = None,
    ) -> None:
        self._track = track
        self._reports = reports
        self._decoders = decoders
        self._first = rescale(origin, VIDEO_SCALE, AUDIO_SCALE)
        self._written = self._first
        self._encoded = self._first
        self._decoder = self._open_decoder(source)
        self._is_missing = False  # silence has replaced the sound since its newest packet
        self._conformer: AudioConformer | None = None
        self._fifo = AudioFifo()
        self._fade: Crossfade | None = None  # the end of the source before
        self._silence = stereo_frame(_SILENCE, (bytes(_SILENCE * SAMPLE_BYTES),) * 2, AUDIO_SCALE)
        self._encoder = self._open_encoder()
        self._unsent: deque[Sample] = deque()
        self._cuts: deque[Cut] = deque()

    @property
    def end(self) -> int:
        """The end of the sound so far, in ticks of 90 000 a second."""
        return rescale(self._written, AUDIO_SCALE, VIDEO_SCALE)

    def splice(self, source: AudioTrack | None) -> None:
        """Continue seamlessly with another source's sound, or with silence."""
        self._drain_decoder()
        self._drain()
        self._decoder = self._open_decoder(source)
        self._is_missing = False
        self._end_fade()
        if (held := self._fifo.read()) is not None:
            self._fade = Crossfade(held, self._written)

    def decode(self, data: bytes, pts: int | None) -> None:
        """Decode one packet; `pts` is its time on the output clock, None: it follows the last."""
        if self._decoder is None:
            return
        self._is_missing = False
        try:
            for frame in self._decoder.decode(data, pts):
                self._conform(frame)
        except FFmpegError as error:
            self._reports.count_trouble("sound not decoded", error)

    def fill_to(self, due: int) -> None:
        """Fill missing sound up to `due` with silence once it is overdue for too long."""
        position = rescale(due, VIDEO_SCALE, AUDIO_SCALE)
        is_awaited = self._decoder is not None and not self._is_missing
        if position - self._written > (_PATIENCE if is_awaited else 0):
            if is_awaited:
                self._is_missing = True
                self._reports.count_trouble("sound missing")
            self._drain()
            self._fill(position - self._written)

    def add_cut(self, cut: Cut) -> None:
        """Record where a segment begins: with the first frame at or after the cut."""
        self._cuts.append(cut)

    def release(self, settled: int) -> None:
        """Send what is at or before `settled`: no later cut can come before it."""
        while self._unsent and rescale(self._unsent[0].pts, AUDIO_SCALE, VIDEO_SCALE) <= settled:
            self._send(self._unsent.popleft())

    def cut_by(self, grid: SegmentGrid) -> None:
        """Send all samples, with cuts by their own times, for a source without a picture."""
        while self._unsent:
            sample = self._unsent.popleft()
            self._cuts += grid.add_picture(rescale(sample.pts, AUDIO_SCALE, VIDEO_SCALE), idr=True)
            self._send(sample)

    def finish(self, end: int | None, grid: SegmentGrid) -> int | None:
        """Make the sound as long as the picture, which ends at `end`, and close the track.

        Without a picture it ends with its own last sample. Returns where it ended.
        """
        self._drain_decoder()
        self._drain()
        stop = self._written if end is None else rescale(end, VIDEO_SCALE, AUDIO_SCALE)
        frames = -(-(stop - self._first) // AAC_FRAME)
        if self._cuts:  # the last segment needs a frame of sound too, however short it is
            last = rescale(self._cuts[-1].at, VIDEO_SCALE, AUDIO_SCALE)
            frames = max(frames, -(-(last - self._first) // AAC_FRAME) + 1)
        stop = self._first + frames * AAC_FRAME
        self._fill(stop - self._written)
        self._end_fade()
        self._encode(held=0)
        self._hold(self._encoder.encode(None))
        while self._unsent and self._unsent[-1].pts >= stop:
            self._unsent.pop()
        if end is None:
            self.cut_by(grid)
        while self._unsent:
            self._send(self._unsent.popleft())
        return self._track.end()

    # -- source to samples ------------------------------------------------------------------------

    def _open_decoder(self, source: AudioTrack | None) -> AudioDecoder | None:
        if source is None:
            return None
        try:
            return TrackAudioDecoder(source) if self._decoders is None else self._decoders.audio()
        except FFmpegError as error:
            self._reports.count_trouble("sound decoder not opened", error)
            return None

    def _conform(self, frame: AudioFrame) -> None:
        if self._conformer is not None and self._conformer.format != _format(frame):
            self._drain()
        if self._conformer is None:
            self._conformer = AudioConformer(frame)
        self._write_all(self._conformer.convert(frame))

    def _drain_decoder(self) -> None:
        if self._decoder is None:
            return
        try:
            for frame in self._decoder.drain():
                self._conform(frame)
        except FFmpegError as error:
            self._reports.count_trouble("sound not decoded", error)

    def _drain(self) -> None:
        conformer, self._conformer = self._conformer, None
        if conformer is not None:
            self._write_all(conformer.convert(None))

    def _write_all(self, frames: list[AudioFrame]) -> None:
        """Write frames at their positions: after silence if early, trimmed if late."""
        for frame in frames:
            early = frame.pts - self._written if frame.pts is not None else 0
            if self._fade is not None:
                self._fade.mix(frame, self._written + early)
            if early > _ROUNDING:
                self._fill(early)
            if early >= -_ROUNDING:
                self._write(frame)
            elif frame.samples > -early:
                self._write(_tail(frame, -early))

    def _fill(self, samples: int) -> None:
        while samples > 0:
            length = min(samples, _SILENCE)
            is_full = length == _SILENCE
            self._write(self._silence if is_full else _tail(self._silence, _SILENCE - length))
            samples -= length

    def _write(self, frame: AudioFrame) -> None:
        self._end_fade()
        self._written += frame.samples
        self._put(frame)
        self._encode(held=LEAST_HELD)

    def _end_fade(self) -> None:
        fade, self._fade = self._fade, None
        if fade is not None:
            self._put(fade.frame())

    def _put(self, frame: AudioFrame) -> None:
        frame.pts, frame.time_base = None, AUDIO_TIME_BASE
        self._fifo.write(frame)

    def _encode(self, *, held: int) -> None:
        """Encode all but the last samples, at least `held` of them."""
        while self._fifo.samples >= AAC_FRAME + held:
            block = self._fifo.read(AAC_FRAME)
            if block is None:
                return
            block.pts, block.time_base = self._encoded, AUDIO_TIME_BASE
            self._encoded += AAC_FRAME
            self._hold(self._encoder.encode(block))

    # -- samples to segments ----------------------------------------------------------------------

    def _open_encoder(self) -> AudioEncoder:
        encoder = AudioEncoder()
        self._track.describe(
            AudioSpecificConfig.parse(encoder.config).codecs,
            audio_init(config=encoder.config, rate=AUDIO_SCALE, channels=2),
        )
        return encoder

    def _hold(self, samples: list[Sample]) -> None:
        # The first one primes a decoder with the time before the beginning and is never played.
        self._unsent += [sample for sample in samples if sample.pts >= self._first]

    def _send(self, sample: Sample) -> None:
        cut: Cut | None = None
        while self._cuts and sample.pts >= rescale(self._cuts[0].at, VIDEO_SCALE, AUDIO_SCALE):
            cut = self._cuts.popleft()
        self._track.add(sample, cut)


def _tail(frame: AudioFrame, skip: int) -> AudioFrame:
    """Return a frame without its first `skip` samples."""
    area = slice(skip * SAMPLE_BYTES, frame.samples * SAMPLE_BYTES)
    planes = tuple(bytes(plane)[area] for plane in frame.planes)
    return stereo_frame(frame.samples - skip, planes, AUDIO_SCALE)
