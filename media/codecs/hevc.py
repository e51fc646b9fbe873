"""Parses the parts of H.265 needed at ingest: configurations, sizes, random access points.

Not a decoder: slices are never read. Access units have length prefixes, never start codes. Any
bytes give a value or `CodecError`.
Sources: ISO/IEC 14496-15, 8.3.3.1 (hvcC); ITU-T H.265, 7.3.1.2 (NAL units), 7.3.2.2 (SPS), 7.3.3
(profile, tier and level), table 7-1 (types).
"""

from typing import Final

import msgspec

from media.codecs.bits import BitReader, CodecError
from media.codecs.sps import MAX_SIDE, SUBSAMPLING

_SPS: Final = 33
_FIRST_IRAP, _LAST_IRAP = 16, 21  # BLA, IDR and CRA: random access points
_FIRST_OTHER: Final = 32  # types from here on are not slices
# Slices follow a delimiter, parameter sets and a few messages. A hostile access unit may have a
# million of those.
_MOST_UNITS: Final = 64
_RECORD_BYTES: Final = 23  # before the arrays of parameter sets
# As for H.264: scaling lists and reference picture sets are the longest parts.
_MAX_SPS: Final = 4_096


class HevcConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A decoder configuration record (hvcC) with the picture size of its first SPS.

    `width` and `height` are pixels after cropping; `length_size` is the size of a NAL unit's length
    prefix in bytes.
    """

    length_size: int
    width: int
    height: int

    @classmethod
    def parse(cls, data: bytes) -> "HevcConfig":
        """Parse an HEVCDecoderConfigurationRecord.

        Raises:
            CodecError: it is invalid, has no SPS, or its picture size is out of bounds.
        """
        # Version 0 predates the standard; some encoders still write it.
        if len(data) < _RECORD_BYTES or data[0] > 1:
            raise CodecError("no hvcC record of version 1")
        length_size = (data[21] & 3) + 1
        if length_size == 3:
            raise CodecError("NAL unit lengths of 3 bytes")
        width, height = _size(_first_sps(data))
        return cls(length_size=length_size, width=width, height=height)


def is_random_access(data: bytes, length_size: int) -> bool:
    """Return whether decoding can begin with an access unit; False if it is invalid."""
    place, total = 0, len(data)
    for _ in range(_MOST_UNITS):
        if place + length_size >= total:
            break
        start = place + length_size
        place = start + int.from_bytes(data[place:start], "big")
        kind = data[start] >> 1 & 0x3F
        # All slices of a picture have the same type, so the first decides (7.4.2.2).
        if place > start and kind < _FIRST_OTHER:
            return _FIRST_IRAP <= kind <= _LAST_IRAP
    return False


def _first_sps(data: bytes) -> bytes:
    place = _RECORD_BYTES
    for _ in range(data[22]):
        kind = data[place] & 0x3F if place < len(data) else 0
        count = int.from_bytes(data[place + 1 : place + 3], "big")
        place += 3
        for _ in range(count):
            start = place + 2
            place = start + int.from_bytes(data[place:start], "big")
            if place > len(data):
                raise CodecError("the record ends within a parameter set")
            if kind == _SPS:
                return data[start:place]
    raise CodecError("a record without a sequence parameter set")


def _size(unit: bytes) -> tuple[int, int]:
    """Return the cropped width and height of an SPS."""
    if not 4 <= len(unit) <= _MAX_SPS or unit[0] >> 1 & 0x3F != _SPS:
        raise CodecError("no sequence parameter set")
    # Emulation prevention (7.4.2): encoders insert a 3 after two zeros.
    bits = BitReader(unit.replace(b"\x00\x00\x03", b"\x00\x00"), start=16)
    bits.u(4)
    layers = bits.u(3)
    bits.flag()
    _skip_profile(bits, layers)
    bits.ue(15)
    chroma = bits.ue(3)
    planes_apart = chroma == 3 and bits.flag()
    width, height = bits.ue(MAX_SIDE), bits.ue(MAX_SIDE)
    if bits.flag():
        left, right, top, bottom = (bits.ue(MAX_SIDE) for _ in range(4))
        across, down = SUBSAMPLING[0 if planes_apart else chroma]
        width -= across * (left + right)
        height -= down * (top + bottom)
    if width <= 0 or height <= 0:
        raise CodecError(f"a picture of {width} x {height}")
    return width, height


def _skip_profile(bits: BitReader, layers: int) -> None:
    """Skip profile_tier_level; `layers` is sps_max_sub_layers_minus1."""
    bits.u(96)
    present = [(bits.flag(), bits.flag()) for _ in range(layers)]
    if layers:
        bits.u(2 * (8 - layers))
    for profile, level in present:
        bits.u(88 * profile + 8 * level)
