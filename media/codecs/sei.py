"""Parses the display orientation in H.264's supplemental information (SEI).

Sources: ISO/IEC 14496-10, 7.3.2.3 (SEI), D.1.27 and D.2.27 (display orientation).
"""

from typing import Final

from media.codecs.avc import nal_units

_SEI: Final = 6  # nal_unit_type
_DISPLAY_ORIENTATION: Final = 47  # payloadType
_MORE: Final = 0xFF  # a byte of a type or a size that continues in the next


def is_rotated(data: bytes, length_size: int) -> bool:
    """Return whether a keyframe is to be rotated or mirrored for display.

    Browsers ignore that and show it as coded. `data` is an access unit with length prefixes. A
    truncated SEI gives False.

    Raises:
        CodecError: a NAL unit's length exceeds the data.
    """
    return any(
        _requests_rotation(unit.replace(b"\x00\x00\x03", b"\x00\x00"))
        for unit in nal_units(data, length_size)
        if unit[0] & 0x1F == _SEI
    )


def _requests_rotation(unit: bytes) -> bool:
    place = 1
    while place < len(unit):
        kind, place = _read_number(unit, place)
        size, place = _read_number(unit, place)
        if kind == _DISPLAY_ORIENTATION and place + 3 <= len(unit):
            # cancel flag, mirrored across, mirrored down, 16 bits of angle, and more
            bits = int.from_bytes(unit[place : place + 3], "big")
            cancelled, rest = bits >> 23, bits >> 5 & 0x3FFFF
            return not cancelled and rest != 0
        place += size
    return False


def _read_number(unit: bytes, place: int) -> tuple[int, int]:
    """Return a type or a size, and the offset after it."""
    number = 0
    while place < len(unit) and unit[place] == _MORE:
        number += _MORE
        place += 1
    return number + (unit[place] if place < len(unit) else 0), place + 1
