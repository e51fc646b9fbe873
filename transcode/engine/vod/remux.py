"""What a film brings along: its own packets as the top rung, and its sound, kept or made.

It is done in one go through the file, on one thread, before any picture is decoded.
"""

# The library leaves the type parameter of its packets open, so pyright knows them in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from collections import deque
from typing import Final

from av.packet import Packet
from av.stream import Stream

from media.hls.fmp4 import Sample, audio_init, video_init
from media.ladder import AUDIO_RENDITION
from media.ticks import AUDIO_SCALE, ORIGIN_SECONDS, VIDEO_SCALE
from media.track import AudioCodec, AudioTrack
from transcode.engine.core.reports import Outlet
from transcode.engine.input.container import Upload, picture_of, sound_of
from transcode.engine.input.demux import demuxed, times_of
from transcode.engine.input.file_decoder import Decoders
from transcode.engine.live.audio_pipeline import Sound
from transcode.engine.output.file_segmenter import Pieces
from transcode.engine.output.segment_grid import Cut, Grid
from transcode.engine.output.segmenter import Track
from transcode.engine.vod.audio_survey import SurveyedSound
from transcode.engine.vod.survey import Survey, own_config

__all__ = ["original"]

_AAC_FRAME: Final = 1024
_EVER: Final = 1 << 62
_PART: Final = 100 * VIDEO_SCALE  # sound goes out in whole segments: nobody waits for less


def original(upload: Upload, survey: Survey, outlet: Outlet) -> tuple[str, ...]:
    """Make the top rung of the film's own packets, where they serve, and the sound.

    Returns what was made.
    """
    picture, sound = picture_of(upload), sound_of(upload)
    kept = survey.sound is not None
    copy = _Copy(upload, survey, outlet) if survey.reused is not None else None
    heard = _Kept(survey, survey.sound, outlet) if survey.sound else _Made(upload, survey, outlet)
    streams: list[Stream] = [picture] if copy is not None and picture is not None else []
    streams += [sound] if sound is not None else []
    for packet in demuxed(upload, streams) if streams else ():
        if packet.stream is not sound and copy is not None:
            copy.take(packet)
        elif packet.stream is sound:
            heard.take(packet)
    if copy is not None:
        copy.close()
    heard.close()
    if not kept:
        outlet.flush_troubles()
    own = () if survey.reused is None else (survey.reused.name,)
    return (*own, AUDIO_RENDITION)


class _Copy:
    """The film's own pictures, as they are."""

    def __init__(self, upload: Upload, survey: Survey, outlet: Outlet) -> None:
        picture, rung = picture_of(upload), survey.reused
        config = own_config(picture) if picture is not None else None
        if picture is None or rung is None or config is None:
            raise LookupError("the film's own pictures do not serve")
        self._offset = survey.offset
        self._decoded = iter(survey.decoded or ())
        self._cuts = frozenset(survey.cuts)
        self._end = survey.end
        self._held: Sample | None = None
        self._step = VIDEO_SCALE // 30
        self._pieces = Pieces(rung.name, sequence=0, end=survey.end, send=outlet.send)
        self._begun = False
        self._pieces.describe(
            config.codecs,
            video_init(
                config=picture.codec_context.extradata or b"", width=rung.width, height=rung.height
            ),
        )

    def take(self, packet: "Packet[Stream]") -> None:
        """Take the next packet in decode order."""
        times = times_of(packet)
        if times is None:
            return
        dts, pts = (time + self._offset for time in times)
        dts = next(self._decoded, dts)
        if self._held is not None:
            dts = max(dts, self._held.dts + 1)
            self._put(self._held, dts - self._held.dts)
        self._held = Sample(dts, pts, 0, packet.is_keyframe, bytes(packet))

    def close(self) -> None:
        """Send what is left."""
        if self._held is not None:
            self._put(self._held, max(self._step, self._end - self._held.pts))
        self._pieces.close()

    def _put(self, sample: Sample, duration: int) -> None:
        self._step = duration
        opens = sample.key and sample.pts in self._cuts
        self._pieces.add(
            Sample(sample.dts, sample.pts, duration, sample.key, sample.data), opens=opens
        )


class _Kept:
    """The film's own sound, as it is: each packet where it belongs by its number."""

    def __init__(self, survey: Survey, sound: SurveyedSound, outlet: Outlet) -> None:
        rate = sound.rate
        self._cuts = deque(-(-cut * rate // VIDEO_SCALE) for cut in survey.cuts)
        self._next = sound.first
        self._until = survey.end * rate // VIDEO_SCALE
        self._pieces = Pieces(
            AUDIO_RENDITION,
            sequence=0,
            end=survey.end,
            send=outlet.send,
            scale=rate,
        )
        self._pieces.describe(
            sound.codecs, audio_init(config=sound.config, rate=rate, channels=sound.channels)
        )
        self._begins = self._cuts[0] - _AAC_FRAME  # what is heard from the first cut on
        self._opened = False

    def take(self, packet: "Packet[Stream]") -> None:
        """Take the next packet."""
        at = self._next
        self._next += _AAC_FRAME
        if at <= self._begins or at >= self._until:
            return
        opens = not self._opened
        if opens:
            self._opened = True
            self._cuts.popleft()
        while self._cuts and at >= self._cuts[0]:
            self._cuts.popleft()
            opens = True
        self._pieces.add(Sample(at, at, _AAC_FRAME, True, bytes(packet)), opens=opens)

    def close(self) -> None:
        """Send what is left."""
        self._pieces.close()


class _Made:
    """Sound that is decoded, and encoded anew: 48 kHz, stereo, without a hole."""

    def __init__(self, upload: Upload, survey: Survey, outlet: Outlet) -> None:
        track = Track(AUDIO_RENDITION, AUDIO_SCALE, outlet.send)
        track.begin(epoch=0, part=_PART)
        sound = sound_of(upload)
        self._survey = survey
        self._sound = Sound(
            _track_of(upload),
            track,
            origin=ORIGIN_SECONDS * VIDEO_SCALE,
            outlet=outlet,
            decoders=Decoders(None, sound, timed=True) if sound is not None else None,
        )
        for sequence, at in enumerate(survey.cuts):
            self._sound.cut(Cut(sequence=sequence, at=at))
        self._silent = sound is None

    def take(self, packet: "Packet[Stream]") -> None:
        """Take the next packet."""
        times = times_of(packet)
        if times is None:
            return
        pts = times[1] + self._survey.offset
        if pts < self._survey.end + VIDEO_SCALE:  # what comes later is heard by nobody
            self._sound.take(bytes(packet), pts)
            self._sound.release(_EVER)

    def close(self) -> None:
        """Fill up to the picture's end, and send what is left."""
        if self._silent:
            for cut in self._survey.cuts:
                self._sound.reach(cut)
                self._sound.release(_EVER)
        grid = Grid(sequence=0, discontinuity=False, cut=1, longest=1, reuse=False)
        self._sound.finish(self._survey.end, grid)


def _track_of(upload: Upload) -> AudioTrack | None:
    sound = sound_of(upload)
    if sound is None:
        return None
    context = sound.codec_context
    return AudioTrack(
        codec=AudioCodec.AAC,  # of no use: the file has its own decoder
        config=b"",
        rate=context.sample_rate or 0,
        channels=context.channels or 0,
        scale=VIDEO_SCALE,
    )
