"""Puts an H.264 track's parameter sets before its keyframes, beside those in its init section.

Players that use FFmpeg (mpv, yt-dlp and streamlink among them) read the first init section of a
rendition only. Where the source's packets and an encoder's follow each other, they find the other
one's parameter sets in band or decode it with the wrong ones. The sample entry stays `avc1`, which
formally has none in band: MediaMTX does the same, and players accept it.
Sources: ISO/IEC 14496-10, 7.3.2 (identifiers) and 7.4.1.2.3 (order of NAL units); 14496-15, 5.3.2.
"""

from collections.abc import Iterable
from typing import Final

from media.codecs.avc import PPS, AvcConfig, nal_units
from media.codecs.bits import BitReader, CodecError
from media.codecs.sps import SPS

_DELIMITER: Final = 9  # nal_unit_type; it comes before everything else in an access unit
# Of all sets of a track: encoders need 30 to 100. A hostile one could make its configuration of
# megabytes, which would be sent with every keyframe.
_MOST_BYTES: Final = 4_096
# Where the identifiers begin: after the header, and in a sequence parameter set after the profile,
# its constraints and the level.
_ID_BITS: Final = {SPS: 32, PPS: 8}
_MOST_ID: Final = {SPS: 31, PPS: 255}

_Sets = dict[tuple[int, int], bytes]  # by nal_unit_type and identifier


class ParameterSets:
    """The parameter sets in force in a track: those of `config`, until others come in band."""

    def __init__(self, config: AvcConfig) -> None:
        self._length_size = config.length_size
        # The length prefixes of some tracks have one byte only.
        self._most = min(_MOST_BYTES, 256**config.length_size - 1)
        try:
            self._sets = _by_identifier((*config.sps, *config.pps))
        except CodecError:
            self._sets: _Sets = {}

    def complete(self, data: bytes) -> bytes:
        """Return a keyframe with all sets in force before its first slice, each of them once.

        The sets in `data` replace those with their identifiers. A keyframe that has all of them, or
        cannot be parsed, and one with too large sets, are returned as they are.
        """
        try:
            units = nal_units(data, self._length_size)
            own = _by_identifier(units)
        except CodecError:
            return data
        sets = self._sets | own
        if sum(map(len, sets.values())) > self._most:
            return data
        self._sets = sets
        if not units or len(own) == len(sets):
            return data
        rest = [unit for unit in units if unit[0] & 0x1F not in _ID_BITS]
        first = 1 if rest and rest[0][0] & 0x1F == _DELIMITER else 0
        ordered = [sets[key] for key in sorted(sets)]  # a PPS refers to an SPS
        whole = (*rest[:first], *ordered, *rest[first:])
        return b"".join(len(unit).to_bytes(self._length_size, "big") + unit for unit in whole)


def _by_identifier(units: Iterable[bytes]) -> _Sets:
    """Return the parameter sets among NAL units.

    Raises:
        CodecError: one of them has no valid identifier.
    """
    sets: _Sets = {}
    for unit in units:
        kind = unit[0] & 0x1F
        if kind in _ID_BITS:
            bits = BitReader(unit[:16], start=_ID_BITS[kind])
            sets[kind, bits.ue(_MOST_ID[kind])] = unit
    return sets
