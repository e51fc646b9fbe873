"""The tracks of a source, with their codecs and decoder configurations."""

from enum import Enum

import msgspec

from media.ticks import MILLISECONDS


class VideoCodec(Enum):
    """A video codec, by the name of its sample entry (ISO/IEC 14496-15 and others)."""

    AVC = "avc1"
    HEVC = "hvc1"
    AV1 = "av01"
    VP9 = "vp09"


class AudioCodec(Enum):
    """An audio codec, by the name of its sample entry or Enhanced RTMP FourCC."""

    AAC = "mp4a"
    OPUS = "Opus"
    MP3 = ".mp3"
    FLAC = "fLaC"
    AC3 = "ac-3"
    EAC3 = "ec-3"


class VideoTrack(msgspec.Struct, frozen=True, kw_only=True, tag="video"):
    """A video track, as its source describes it.

    `config` is the decoder configuration record (avcC for AVC: ISO/IEC 14496-15, 5.3.3.1);
    `width` and `height` are the coded picture after cropping, in pixels.
    """

    codec: VideoCodec
    config: bytes
    width: int
    height: int
    scale: int = MILLISECONDS


class AudioTrack(msgspec.Struct, frozen=True, kw_only=True, tag="audio"):
    """An audio track, as its source describes it.

    `config` is the AudioSpecificConfig for AAC (ISO/IEC 14496-3, 1.6.2.1); `rate` is in Hz.
    """

    codec: AudioCodec
    config: bytes
    rate: int
    channels: int
    scale: int = MILLISECONDS


Track = VideoTrack | AudioTrack
