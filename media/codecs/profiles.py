"""Display names of codecs, and the profile, level and frame rate of a video configuration.

Any bytes give a value; what cannot be read is None.
Sources: ITU-T H.264, annex A; ITU-T H.265, A.3; AV1 Bitstream & Decoding Process, A.2 and A.3;
ISO/IEC 14496-15, 8.3.3.1 (hvcC); AV1 Codec ISO Media File Format Binding, 2.3.3 (av1C).
"""

from typing import Final

import msgspec

from media.codecs.avc import AvcConfig
from media.codecs.bits import CodecError
from media.track import AudioCodec, VideoCodec, VideoTrack

VIDEO_NAMES: Final = {
    VideoCodec.AVC: "H.264",
    VideoCodec.HEVC: "HEVC",
    VideoCodec.AV1: "AV1",
    VideoCodec.VP9: "VP9",
}
AUDIO_NAMES: Final = {
    AudioCodec.AAC: "AAC",
    AudioCodec.OPUS: "Opus",
    AudioCodec.MP3: "MP3",
    AudioCodec.FLAC: "FLAC",
    AudioCodec.AC3: "AC-3",
    AudioCodec.EAC3: "E-AC-3",
}
_AVC: Final = {
    66: "Baseline", 77: "Main", 88: "Extended", 100: "High", 110: "High 10", 122: "High 4:2:2",
    244: "High 4:4:4",
}  # fmt: skip
_HEVC: Final = {1: "Main", 2: "Main 10", 3: "Main Still Picture", 4: "Range Extensions"}
_AV1: Final = {0: "Main", 1: "High", 2: "Professional"}
_HVCC_LEVEL: Final = 12  # the octet of hvcC with general_level_idc, in 30ths
_NO_LEVEL: Final = 31  # seq_level_idx of AV1: no bounds


class VideoProfile(msgspec.Struct, frozen=True, kw_only=True):
    """A video track's profile; `frame_rate` is the encoder's claim, in frames a second."""

    profile: str | None = None
    level: str | None = None
    frame_rate: float | None = None
    plays_everywhere: bool = False


def profile_of(track: VideoTrack) -> VideoProfile:
    """Return the profile of a track's configuration."""
    config = track.config
    match track.codec:
        case VideoCodec.AVC:
            return _avc(config)
        case VideoCodec.HEVC:
            if len(config) > _HVCC_LEVEL:
                level = _tenths(config[_HVCC_LEVEL] // 3)
                return VideoProfile(profile=_HEVC.get(config[1] & 0x1F), level=level)
        case VideoCodec.AV1:
            if len(config) > 1:
                index = config[1] & 0x1F
                level = None if index == _NO_LEVEL else f"{2 + (index >> 2)}.{index & 3}"
                return VideoProfile(profile=_AV1.get(config[1] >> 5), level=level)
        case VideoCodec.VP9:  # its configuration is not kept
            pass
    return VideoProfile()


def _avc(config: bytes) -> VideoProfile:
    try:
        facts = AvcConfig.parse(config)
    except CodecError:
        return VideoProfile()
    rate = facts.frame_rate
    return VideoProfile(
        profile=_AVC.get(facts.profile),
        level=_tenths(facts.level),
        frame_rate=None if rate is None else round(float(rate), 3),
        plays_everywhere=facts.plays_everywhere,
    )


def _tenths(level: int) -> str:
    return f"{level // 10}.{level % 10}"
