"""The bodies of audio and video messages: FLV tags of H.264 and AAC become tracks and packets.

Of other codecs, and of Enhanced RTMP's headers, the name is read, and the peer is told that it is
not supported. Data stays as it came: H.264 with length prefixes, AAC raw.
Sources: Adobe Flash Video File Format 10.1, annex E.4; Enhanced RTMP v2 (for the names).
"""

from collections.abc import Iterator
from typing import Final

from ingest.rtmp.clock import Clock, Verdict
from ingest.rtmp.errors import MalformedMedia, MessageError, UnsupportedMedia
from ingest.rtmp.events import ClockJumped, Event, PacketIn, TrackFound
from ingest.rtmp.messages import MessageType
from media.aac import AacError, AudioSpecificConfig
from media.avc import AvcConfig, AvcError
from media.packet import MediaPacket
from media.track import AudioCodec, AudioTrack, Track, VideoCodec, VideoTrack

__all__ = ["FlvReader", "tags"]

_VIDEO, _AUDIO = int(MessageType.VIDEO), int(MessageType.AUDIO)
_AVC, _AAC = 7, 10
_CONFIGURATION, _CODED = 0, 1  # AVCPacketType, AACPacketType
_KEYFRAME, _GENERATED_KEYFRAME, _COMMAND_FRAME = 1, 4, 5
_VIDEO_HEADER, _AUDIO_HEADER = 5, 2  # bytes before the data
# Real configurations are below 1 KiB; parameter sets cannot make them much longer.
_MAX_CONFIGURATION: Final = 64 << 10

_ENHANCED_VIDEO: Final = 0x80  # IsExVideoHeader
_ENHANCED_AUDIO: Final = 9  # SoundFormat ExHeader
_VIDEO_MULTITRACK, _AUDIO_MULTITRACK = 6, 5  # packet types of Enhanced RTMP v2
_VIDEO_NAMES: Final = {
    2: "Sorenson H.263", 3: "Screen Video", 4: "VP6", 5: "VP6 with alpha", 6: "Screen Video 2",
    8: "H.263", 9: "MPEG-4 Part 2", 12: "HEVC", 13: "AV1", 14: "VP9",
}  # fmt: skip
_AUDIO_NAMES: Final = {
    0: "PCM", 1: "ADPCM", 2: "MP3", 3: "PCM", 4: "Nellymoser", 5: "Nellymoser", 6: "Nellymoser",
    7: "G.711 A-law", 8: "G.711 mu-law", 11: "Speex", 13: "Opus", 14: "MP3",
}  # fmt: skip
_FOURCC_NAMES: Final = {
    b"avc1": "Enhanced RTMP H.264", b"hvc1": "HEVC", b"vvc1": "VVC", b"av01": "AV1",
    b"vp08": "VP8", b"vp09": "VP9", b"mp4a": "Enhanced RTMP AAC", b"Opus": "Opus",
    b".mp3": "MP3", b"fLaC": "FLAC", b"ac-3": "AC-3", b"ec-3": "E-AC-3",
}  # fmt: skip


def tags(timestamp: int, body: memoryview) -> Iterator[tuple[int, int, memoryview]]:
    """Split an aggregate message into (type, timestamp, body) of each tag in it.

    The first tag's time is the message's own; the others keep their distance (RTMP 1.0, 7.1.6).

    Raises:
        MessageError: a tag is cut off.
    """
    at = 0
    first: int | None = None
    while at < len(body):
        end = at + 11 + int.from_bytes(body[at + 1 : at + 4], "big")
        if at + 11 > len(body) or end > len(body):
            raise MessageError(MessageType.AGGREGATE, "cut off")
        stamp = int.from_bytes(body[at + 4 : at + 7], "big") | body[at + 7] << 24
        first = stamp if first is None else first
        yield body[at], (timestamp + stamp - first) & 0xFFFF_FFFF, body[at + 11 : end]
        at = end + 4  # the length of the tag once more


class FlvReader:
    """One publisher's media: knows its tracks and its clock."""

    def __init__(self) -> None:
        self._clock = Clock()
        self._video: VideoTrack | None = None
        self._audio: AudioTrack | None = None

    def video(self, stamp: int, body: memoryview, found: list[Event]) -> bool:
        """Read a video tag; append what it says and return whether it said anything.

        Raises:
            RtmpError: its codec is not supported, or its configuration is broken.
        """
        if len(body) == 0:
            return False
        first = body[0]
        if first & _ENHANCED_VIDEO:
            return _enhanced("video", body, first & 15 == _VIDEO_MULTITRACK)
        frame = first >> 4
        if frame == _COMMAND_FRAME:
            return False
        if first & 15 != _AVC:
            raise UnsupportedMedia("video", _VIDEO_NAMES.get(first & 15, f"codec {first & 15}"))
        if len(body) <= _VIDEO_HEADER:
            return False
        if body[1] == _CONFIGURATION:
            return self._new_video(bytes(body[_VIDEO_HEADER:]), found)
        if body[1] != _CODED or self._video is None:
            return False
        # Composition time: signed 24 bits, negative where an encoder delays decode times.
        offset = ((body[2] << 16 | body[3] << 8 | body[4]) ^ 0x80_0000) - 0x80_0000
        key = frame in (_KEYFRAME, _GENERATED_KEYFRAME)
        data = bytes(body[_VIDEO_HEADER:])
        return self._packet(self._video, stamp, offset, found, data, key=key)

    def audio(self, stamp: int, body: memoryview, found: list[Event]) -> bool:
        """Read an audio tag; append what it says and return whether it said anything.

        Raises:
            RtmpError: its codec is not supported, or its configuration is broken.
        """
        if len(body) == 0:  # "silence" to some encoders
            return False
        form = body[0] >> 4
        if form == _ENHANCED_AUDIO:
            return _enhanced("audio", body, body[0] & 15 == _AUDIO_MULTITRACK)
        if form != _AAC:
            raise UnsupportedMedia("audio", _AUDIO_NAMES.get(form, f"format {form}"))
        if len(body) <= _AUDIO_HEADER:
            return False
        data = bytes(body[_AUDIO_HEADER:])
        if body[1] == _CONFIGURATION:
            return self._new_audio(data, found)
        if body[1] != _CODED or self._audio is None:
            return False
        return self._packet(self._audio, stamp, 0, found, data, key=True)

    def _packet(
        self, track: Track, stamp: int, offset: int, found: list[Event], data: bytes, *, key: bool
    ) -> bool:
        clock = self._clock
        reading = clock.read(_VIDEO if track is self._video else _AUDIO, stamp)
        if reading.verdict is Verdict.STALE:
            return False
        time = reading.time
        if reading.verdict is Verdict.JUMPS:
            found.append(ClockJumped(epoch=clock.epoch, newest=clock.ended_at, start=time))
        packet = MediaPacket(track=track, dts=time, pts=time + offset, key=key, data=data)
        found.append(PacketIn(packet))
        return True

    def _new_video(self, config: bytes, found: list[Event]) -> bool:
        if self._video is not None and self._video.config == config:
            return True
        _check_size("video", config)
        try:
            facts = AvcConfig.parse(config)
        except AvcError as error:
            raise MalformedMedia("video", str(error)) from error
        self._video = VideoTrack(
            codec=VideoCodec.AVC, config=config, width=facts.width, height=facts.height
        )
        found.append(TrackFound(self._video))
        return True

    def _new_audio(self, config: bytes, found: list[Event]) -> bool:
        if self._audio is not None and self._audio.config == config:
            return True
        _check_size("audio", config)
        try:
            facts = AudioSpecificConfig.parse(config)
        except AacError as error:
            raise MalformedMedia("audio", str(error)) from error
        self._audio = AudioTrack(
            codec=AudioCodec.AAC, config=config, rate=facts.rate, channels=facts.channels
        )
        found.append(TrackFound(self._audio))
        return True


def _check_size(kind: str, config: bytes) -> None:
    if len(config) > _MAX_CONFIGURATION:
        raise MalformedMedia(kind, f"a configuration of {len(config)} bytes")


def _enhanced(kind: str, body: memoryview, is_multitrack: bool) -> bool:
    """Name the codec of an Enhanced RTMP tag; pass over tracks beside the first.

    OBS sends further sound tracks that way next to its ordinary AAC, which is taken.
    """
    if is_multitrack:
        return False
    fourcc = bytes(body[1:5])
    raise UnsupportedMedia(kind, _FOURCC_NAMES.get(fourcc, f"FourCC {fourcc.hex()}"))
