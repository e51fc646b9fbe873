"""The bit syntax of H.265 that a taker of streams needs: configurations, sizes, where to begin.

Not a decoder: slices are never read. Access units have length prefixes, never start codes. Any
bytes give a value or `HevcError`.
Sources: ISO/IEC 14496-15, 8.3.3.1 (hvcC); ITU-T H.265, 7.3.1.2 (NAL units), 7.3.2.2 (SPS), 7.3.3
(profile, tier and level), table 7-1 (types).
"""

from typing import Final

import msgspec

from media.codecs.bits import BitReader
from media.codecs.sps import MAX_SIDE

__all__ = ["HevcConfig", "HevcError", "is_random_access"]

_SPS: Final = 33
_FIRST_IRAP, _LAST_IRAP = 16, 21  # BLA, IDR and CRA: a decoder can begin there
_FIRST_OTHER: Final = 32  # from here on: no slices
# Slices come behind a delimiter, parameter sets and a few messages. A stranger's access unit may
# have a million of those.
_MOST_UNITS: Final = 64
_RECORD_BYTES: Final = 23  # before the arrays of parameter sets
# As H.264's: scaling lists and reference picture sets make it long, and nothing makes it longer.
_MAX_SPS: Final = 4_096
# chroma_format_idc -> luma columns and rows that one chroma sample covers (table 6-1).
_SUBSAMPLING: Final = {0: (1, 1), 1: (2, 2), 2: (2, 1), 3: (1, 1)}


class HevcError(ValueError):
    """The bytes are no H.265 of the expected form: the source's fault."""


class HevcConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A decoder configuration record (hvcC) and what its first SPS says.

    `width` and `height` are pixels after cropping; `length_size` is the bytes of each NAL unit's
    length prefix.
    """

    length_size: int
    width: int
    height: int

    @classmethod
    def parse(cls, data: bytes) -> "HevcConfig":
        """Read an HEVCDecoderConfigurationRecord.

        Raises:
            HevcError: it is none, has no SPS, or its picture is out of bounds.
        """
        # Version 0 is from before the standard was done; some encoders still write it.
        if len(data) < _RECORD_BYTES or data[0] > 1:
            raise HevcError("no hvcC record of version 1")
        length_size = (data[21] & 3) + 1
        if length_size == 3:
            raise HevcError("NAL unit lengths of 3 bytes")
        width, height = _size(_first_sps(data))
        return cls(length_size=length_size, width=width, height=height)


def is_random_access(data: bytes, length_size: int) -> bool:
    """Say whether a decoder can begin with an access unit; what is broken says no."""
    place, total = 0, len(data)
    for _ in range(_MOST_UNITS):
        if place + length_size >= total:
            break
        start = place + length_size
        place = start + int.from_bytes(data[place:start], "big")
        kind = data[start] >> 1 & 0x3F
        # A picture's slices are all of one kind, so the first decides (7.4.2.2).
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
                raise HevcError("the record ends within a parameter set")
            if kind == _SPS:
                return data[start:place]
    raise HevcError("a record without a sequence parameter set")


def _size(unit: bytes) -> tuple[int, int]:
    """Return the cropped width and height that an SPS gives."""
    if not 4 <= len(unit) <= _MAX_SPS or unit[0] >> 1 & 0x3F != _SPS:
        raise HevcError("no sequence parameter set")
    # Emulation prevention (7.4.2): after two zeros an encoder puts a 3 that is no part of the data.
    bits = BitReader(unit.replace(b"\x00\x00\x03", b"\x00\x00"), HevcError, start=16)
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
        across, down = _SUBSAMPLING[0 if planes_apart else chroma]
        width -= across * (left + right)
        height -= down * (top + bottom)
    if width <= 0 or height <= 0:
        raise HevcError(f"a picture of {width} x {height}")
    return width, height


def _skip_profile(bits: BitReader, layers: int) -> None:
    """Read past profile_tier_level; `layers` is sps_max_sub_layers_minus1."""
    bits.u(96)
    present = [(bits.flag(), bits.flag()) for _ in range(layers)]
    if layers:
        bits.u(2 * (8 - layers))
    for profile, level in present:
        bits.u(88 * profile + 8 * level)
