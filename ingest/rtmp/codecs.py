"""The accepted codecs, and how their tracks are described by configurations or packets.

Codecs are identified by Enhanced RTMP's FourCCs; FLV's codec numbers are in `flv`. A track's
`config` is what FFmpeg's decoder of the codec expects as extradata.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from media.codecs import av1, hevc, opus, vp9
from media.codecs.aac import AudioSpecificConfig
from media.codecs.ac3 import Ac3Frame
from media.codecs.avc import AvcConfig
from media.codecs.bits import CodecError
from media.codecs.flac import FlacInfo
from media.codecs.hevc import HevcConfig
from media.codecs.mp3 import Mp3Frame
from media.track import AudioCodec, AudioTrack, VideoCodec, VideoTrack

VIDEO_FOURCCS: Final = {codec.value.encode(): codec for codec in VideoCodec}
AUDIO_FOURCCS: Final = {codec.value.encode(): codec for codec in AudioCodec}

# Real configurations are below 3 KiB (x265 writes its settings into hvcC), and parameter sets are
# bounded.
_MAX_CONFIGURATION: Final = 64 << 10


class UnreadableConfiguration(Exception):
    """A decoder configuration that cannot be read: a readable one may follow."""


class VideoTrackState:
    """The codec, configuration and track of a publisher's video."""

    def __init__(self) -> None:
        self.track: VideoTrack | None = None
        self._codec: VideoCodec | None = None
        self._config = b""
        self._length_size = 4  # of HEVC's NAL units

    def configure(self, codec: VideoCodec, config: bytes) -> VideoTrack | None:
        """Apply a configuration; return the track if it has changed.

        Raises:
            UnreadableConfiguration: the former track stays.
        """
        if codec is self._codec and config == self._config:
            return None
        _check_size(config)
        if codec is VideoCodec.VP9:
            self._switch(codec)  # vpcC has no size, and the decoder does not need it
            return None
        try:
            size = self._configured_size(codec, config)
        except CodecError as error:
            raise UnreadableConfiguration(str(error)) from error
        self._codec, self._config, self.track = codec, config, None
        return self._set_track(codec, size) if size is not None else None

    def inspect(self, codec: VideoCodec, data: bytes) -> tuple[VideoTrack | None, bool]:
        """Inspect a packet of another codec than AVC.

        Return the track if the packet shows a new one, and whether decoding can begin with it.
        """
        if codec is VideoCodec.VP9:
            self._switch(codec)
            return self._inspect_vp9(data)
        if codec is not self._codec:
            return None, False
        if codec is VideoCodec.AV1:
            begins = av1.is_random_access(data)
            return self._inspect_av1(data) if self.track is None and begins else None, begins
        return None, hevc.is_random_access(data, self._length_size)

    def awaits_keyframe(self, codec: VideoCodec) -> bool:
        """Return whether a keyframe is to show the track of this codec (AV1, VP9)."""
        return codec is self._codec and self.track is None

    def _switch(self, codec: VideoCodec) -> None:
        if codec is not self._codec:
            self._codec, self._config, self.track = codec, b"", None

    def _configured_size(self, codec: VideoCodec, config: bytes) -> tuple[int, int] | None:
        match codec:
            case VideoCodec.AVC:
                avc = AvcConfig.parse(config)
                return avc.width, avc.height
            case VideoCodec.HEVC:
                facts = HevcConfig.parse(config)
                self._length_size = facts.length_size
                return facts.width, facts.height
            case VideoCodec.AV1:
                return av1.config_size(config)
            case VideoCodec.VP9:
                return None

    def _inspect_vp9(self, data: bytes) -> tuple[VideoTrack | None, bool]:
        if not vp9.is_keyframe(data):
            return None, False
        try:
            size = vp9.keyframe_size(data)
        except CodecError:
            return None, False
        track = self.track
        is_unchanged = track is not None and (track.width, track.height) == size
        return None if is_unchanged else self._set_track(VideoCodec.VP9, size), True

    def _inspect_av1(self, data: bytes) -> VideoTrack | None:
        """Return the track of a keyframe, for configurations without a sequence header."""
        try:
            size = av1.sequence_size(data)
        except CodecError:
            return None
        return self._set_track(VideoCodec.AV1, size) if size is not None else None

    def _set_track(self, codec: VideoCodec, size: tuple[int, int]) -> VideoTrack:
        width, height = size
        self.track = VideoTrack(codec=codec, config=self._config, width=width, height=height)
        return self.track


class _Facts(msgspec.Struct, frozen=True):
    rate: int
    channels: int
    config: bytes


class AudioTrackState:
    """The codec, configuration and track of a publisher's audio."""

    def __init__(self) -> None:
        self.track: AudioTrack | None = None

    def configure(self, codec: AudioCodec, config: bytes) -> AudioTrack | None:
        """Apply a configuration; return the track if it has changed.

        Raises:
            UnreadableConfiguration: the former track stays.
        """
        track = self.track
        if track is not None and codec is track.codec and config == track.config:
            return None
        _check_size(config)
        read = _CONFIG_READERS.get(codec)
        if read is None:
            return None  # described by its packets
        try:
            return self._set_track(codec, read(config))
        except CodecError as error:
            raise UnreadableConfiguration(str(error)) from error

    def inspect(self, codec: AudioCodec, data: bytes) -> AudioTrack | None:
        """Inspect a packet of another codec than AAC; return the track if it has changed.

        A packet whose header cannot be read is ignored.
        """
        track = self.track
        is_same_codec = track is not None and codec is track.codec
        read_header = _PACKET_READERS.get(codec)
        if read_header is None or (is_same_codec and codec is AudioCodec.OPUS):
            return None
        try:
            return self._set_track(codec, read_header(data))
        except CodecError:
            return None

    def _set_track(self, codec: AudioCodec, facts: _Facts) -> AudioTrack | None:
        track = AudioTrack(
            codec=codec, config=facts.config, rate=facts.rate, channels=facts.channels
        )
        if track == self.track:
            return None
        self.track = track
        return track


def _facts(
    header: AudioSpecificConfig | FlacInfo | Ac3Frame | Mp3Frame, config: bytes = b""
) -> _Facts:
    return _Facts(header.rate, header.channels, config)


def _opus(config: bytes) -> _Facts:
    return _Facts(opus.RATE, opus.channels_of(config), config)


_Reader = Callable[[bytes], _Facts]
_CONFIG_READERS: Final[dict[AudioCodec, _Reader]] = {
    AudioCodec.AAC: lambda config: _facts(AudioSpecificConfig.parse(config), config),
    AudioCodec.OPUS: _opus,
    AudioCodec.FLAC: lambda config: _facts(info := FlacInfo.parse(config), info.config),
}
_PACKET_READERS: Final[dict[AudioCodec, _Reader]] = {
    AudioCodec.OPUS: lambda data: _opus(opus.header_for(data)),
    AudioCodec.AC3: lambda data: _facts(Ac3Frame.parse(data)),
    AudioCodec.EAC3: lambda data: _facts(Ac3Frame.parse(data)),
    AudioCodec.MP3: lambda data: _facts(Mp3Frame.parse(data)),
}


def _check_size(config: bytes) -> None:
    if not config:
        raise UnreadableConfiguration("it is empty")
    if len(config) > _MAX_CONFIGURATION:
        raise UnreadableConfiguration(f"more than {_MAX_CONFIGURATION} bytes")
