"""An asset's own media: its packets as the top rung, and its sound, copied or transcoded.

This takes one pass through the file, on one thread, before any picture is decoded.
"""

# The library leaves the type parameter of its packets open, so pyright knows them in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from collections import deque
from typing import Final

from av.audio.stream import AudioStream
from av.packet import Packet
from av.stream import Stream

from media.hls.fmp4 import Sample, audio_init, video_init
from media.ladder import AUDIO_RENDITION
from media.ticks import AUDIO_SCALE, ORIGIN_SECONDS, VIDEO_SCALE
from transcode.engine.codec.decode import PacketData
from transcode.engine.core.reports import ReportWriter
from transcode.engine.input.container import Upload, audio_streams, video_stream
from transcode.engine.input.demux import PacketTimes, demux, packet_times
from transcode.engine.input.file_decoder import FileDecoders, sound_track
from transcode.engine.input.joined_clock import joined_times
from transcode.engine.live.audio_pipeline import AudioPipeline
from transcode.engine.output.segment_grid import Cut, SegmentGrid
from transcode.engine.output.segmenter import FileSegmenter, LiveSegmenter
from transcode.engine.vod.audio_survey import OwnAudio
from transcode.engine.vod.survey import Survey, own_config

_AAC_FRAME: Final = 1024
_FOREVER: Final = 1 << 62
_PART: Final = 100 * VIDEO_SCALE  # sound is sent in whole segments
_HOLE: Final = 10 * VIDEO_SCALE  # a longer hole in the sound is filled and sent piece by piece


def make_originals(upload: Upload, survey: Survey, reports: ReportWriter) -> tuple[str, ...]:
    """Make the top rung of the asset's own packets, if they can be used, and the sound, if any.

    Returns the names of the renditions.
    """
    picture, sounds = video_stream(upload), audio_streams(upload)
    copy = _VideoCopy(upload, survey, reports) if survey.reused is not None else None
    audio: _AudioCopy | _AudioTranscoder | None = None
    if survey.sound is not None:
        audio = _AudioCopy(survey, survey.sound, reports)
    elif survey.audible and sounds:
        audio = _AudioTranscoder(sounds, survey, reports, joined_times(survey.joins))
    streams: list[Stream] = [picture] if copy is not None and picture is not None else []
    streams += sounds if audio is not None else ()
    for packet in demux(upload, streams) if streams else ():
        if packet.stream is picture and copy is not None:
            copy.add(packet)
        elif audio is not None:
            audio.add(packet)
    if copy is not None:
        copy.close()
    if audio is not None:
        audio.close()
    reports.flush_troubles()
    reused = () if survey.reused is None else (survey.reused.name,)
    return (*reused, *(() if audio is None else (AUDIO_RENDITION,)))


class _VideoCopy:
    """The asset's own pictures, unchanged."""

    def __init__(self, upload: Upload, survey: Survey, reports: ReportWriter) -> None:
        picture, rung = video_stream(upload), survey.reused
        config = own_config(picture) if picture is not None else None
        if picture is None or rung is None or config is None:
            raise LookupError("the file's own pictures cannot be copied")
        self._offset = survey.offset
        self._decoded = iter(survey.decoded or ())
        self._cuts = _cuts_by_time(survey)
        self._end = survey.pictures_end
        self._held = survey.end - survey.pictures_end  # beyond, while sound continues
        self._waiting: Sample | None = None
        self._step = VIDEO_SCALE // 30
        self._newest = 0  # the latest presentation time
        end = survey.end if self._held else None
        self._segmenter = FileSegmenter(rung.name, end=end, send=reports.send)
        record = picture.codec_context.extradata or b""
        init = video_init(config=record, width=rung.width, height=rung.height)
        self._segmenter.describe(config.codecs, init, config)

    def add(self, packet: "Packet[Stream]") -> None:
        """Add the next packet in decode order."""
        times = packet_times(packet)
        if times is None:
            return
        dts, pts = (time + self._offset for time in times)
        dts = next(self._decoded, dts)
        if self._waiting is not None:
            dts = max(dts, self._waiting.dts + 1)
            self._put(self._waiting, dts - self._waiting.dts)
        self._waiting = Sample(dts, pts, 0, packet.is_keyframe, bytes(packet))
        self._newest = max(self._newest, pts)

    def close(self) -> None:
        """Send the remaining samples; the last one lasts to the asset's end."""
        sample = self._waiting
        if sample is not None:
            is_last = sample.pts >= self._newest
            length = max(1, self._end - sample.pts) if is_last else self._step
            self._put(sample, length + self._held)
        self._segmenter.end()

    def _put(self, sample: Sample, duration: int) -> None:
        self._step = duration
        self._segmenter.add(
            Sample(sample.dts, sample.pts, duration, sample.key, sample.data),
            self._cuts.get(sample.pts) if sample.key else None,
        )


class _AudioCopy:
    """The asset's own sound, unchanged: each packet is placed by its number."""

    def __init__(self, survey: Survey, sound: OwnAudio, reports: ReportWriter) -> None:
        rate = sound.rate
        # Where each segment begins, in samples.
        self._cuts = deque(
            (-(-cut.at * rate // VIDEO_SCALE), cut) for cut in _cuts_by_time(survey).values()
        )
        self._next = sound.first
        self._until = survey.end * rate // VIDEO_SCALE
        self._segmenter = FileSegmenter(AUDIO_RENDITION, end=None, send=reports.send, scale=rate)
        self._segmenter.describe(
            sound.codecs, audio_init(config=sound.config, rate=rate, channels=sound.channels)
        )
        self._begins = self._cuts[0][0] - _AAC_FRAME  # of a packet that ends at the first cut
        self._opened = False

    def add(self, packet: "Packet[Stream]") -> None:
        """Add the next packet."""
        at = self._next
        self._next += _AAC_FRAME
        if at <= self._begins or at >= self._until:
            return
        cut: Cut | None = None
        if not self._opened:
            self._opened = True
            cut = self._cuts.popleft()[1]
        while self._cuts and at >= self._cuts[0][0]:
            cut = self._cuts.popleft()[1]
        self._segmenter.add(Sample(at, at, _AAC_FRAME, True, bytes(packet)), cut)

    def close(self) -> None:
        """Send the remaining samples."""
        self._segmenter.end()


class _AudioTranscoder:
    """The sound decoded and encoded anew: 48 kHz, stereo, without a hole."""

    def __init__(
        self,
        sounds: tuple[AudioStream, ...],
        survey: Survey,
        reports: ReportWriter,
        times_of: PacketTimes,
    ) -> None:
        self._times_of = times_of
        self._is_heard = False  # the newest packet
        track = LiveSegmenter(AUDIO_RENDITION, AUDIO_SCALE, reports.send)
        track.begin(epoch=0, part=_PART)
        self._survey = survey
        self._sound = AudioPipeline(
            sound_track(sounds[0]),
            track,
            origin=ORIGIN_SECONDS * VIDEO_SCALE,
            reports=reports,
            decoders=FileDecoders(None, sounds, timed=True),
        )
        for cut in _cuts_by_time(survey).values():
            self._sound.add_cut(cut)

    def add(self, packet: "Packet[Stream]") -> None:
        """Add the next packet."""
        times = self._times_of(packet)
        if times is None:
            # A track that begins late in a MPEG-TS: the library tells the first time of several
            # packets that were sent together.
            if self._is_heard:
                self._sound.decode(PacketData(packet), None)
            return
        pts = times[1] + self._survey.offset
        self._is_heard = pts < self._survey.end + VIDEO_SCALE  # later sound is not used
        if self._is_heard:
            self._fill_to(pts)
            self._sound.decode(PacketData(packet), pts)
            self._sound.release(_FOREVER)

    def close(self) -> None:
        """Fill up to the picture's end, and send the remaining samples."""
        self._fill_to(self._survey.end)
        grid = SegmentGrid(sequence=0, discontinuity=False, cut=1, longest=1, reuse=False)
        self._sound.finish(self._survey.end, grid)

    def _fill_to(self, pts: int) -> None:
        """Fill all but the end of a long hole before `pts`: there may be hours of it."""
        while pts - self._sound.end > 2 * _HOLE:
            self._sound.fill_to(self._sound.end + _HOLE)
            self._sound.release(_FOREVER)


def _cuts_by_time(survey: Survey) -> dict[int, Cut]:
    return {at: Cut(sequence=sequence, at=at) for sequence, at in enumerate(survey.cuts)}
