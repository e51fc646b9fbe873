"""Access points: the pictures where decoding a source can begin, and where its packets can be used.

Pure. An access point is an IDR picture in H.264, a random access point in HEVC, and whatever the
source declares a keyframe in other codecs. Access units have length prefixes.
"""

from enum import Enum, auto
from typing import Final

from media.codecs.avc import AvcConfig, is_idr, nal_units
from media.codecs.bits import CodecError
from media.codecs.hevc import is_random_access
from media.codecs.sps import SPS, Sps, parse_sps
from media.track import VideoCodec, VideoTrack

_HEVC_LENGTH: Final = 21  # the octet of hvcC with the length prefixes' size (14496-15, 8.3.3.1)


class AccessPoint(Enum):
    """The use of a picture for a decoder that starts with it.

    Every entry other than an H.264 IDR picture may be followed by pictures that are shown before it
    and depend on pictures before it; a decoder that starts at the entry leaves them out.
    """

    ENTRY = auto()
    KEY = auto()  # a keyframe of H.264 but no IDR picture: decoding can begin there if need be
    OTHER = auto()


class AccessPointParser:
    """Classifies the pictures of one track; `config` is its parsed configuration if it is H.264."""

    def __init__(self, track: VideoTrack, config: AvcConfig | None) -> None:
        self._config = config
        self._hevc: int | None = None
        if track.codec is VideoCodec.HEVC and len(track.config) > _HEVC_LENGTH:
            self._hevc = (track.config[_HEVC_LENGTH] & 3) + 1

    def classify(self, data: bytes, *, key: bool) -> AccessPoint:
        """Return the kind of a picture; `key` is the source's flag, for codecs that are not parsed.

        Raises:
            CodecError: H.264 with a length that leads past the end.
        """
        entry = key
        if self._hevc is not None:
            entry = is_random_access(data, self._hevc)
        elif self._config is not None:
            entry = is_idr(data, self._config.length_size)
            if key and not entry:
                return AccessPoint.KEY
        return AccessPoint.ENTRY if entry else AccessPoint.OTHER


def fits_config(data: bytes, config: AvcConfig) -> bool:
    """Return whether an H.264 picture can be decoded with a configuration.

    An encoder that changes its picture without a new configuration sends a different sequence
    parameter set before an IDR picture.
    """
    try:
        sets = [unit for unit in nal_units(data, config.length_size) if unit[0] & 0x1F == SPS]
        return all(unit in config.sps or _is_like(parse_sps(unit), unit, config) for unit in sets)
    except CodecError:
        return False


def same_parameter_sets(one: AvcConfig | None, other: AvcConfig | None) -> bool:
    """Return whether packets of both configurations can share one init section."""
    if one is None or other is None:
        return False
    sets = (one.length_size, frozenset(one.sps), frozenset(one.pps))
    return sets == (other.length_size, frozenset(other.sps), frozenset(other.pps))


def _is_like(sps: Sps, unit: bytes, config: AvcConfig) -> bool:
    return (unit[1], sps.width, sps.height, sps.chroma_format, sps.bit_depth) == (
        *(config.profile, config.width, config.height),
        *(config.chroma_format, config.bit_depth),
    ) and sps.interlaced == config.interlaced
