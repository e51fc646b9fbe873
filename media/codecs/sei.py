"""Parses H.264's supplemental information (SEI): display orientation and recovery points.

Sources: ISO/IEC 14496-10, 7.3.2.3 (SEI), D.1.8 and D.2.8 (recovery point), D.1.27 and D.2.27
(display orientation).
"""

from collections.abc import Iterator
from typing import Final

from media.codecs.avc import leading_units, nal_units
from media.codecs.bits import BitReader, CodecError

_SEI: Final = 6  # nal_unit_type
_RECOVERY_POINT: Final = 6  # payloadType, D.1.1
_DISPLAY_ORIENTATION: Final = 47
_MOST_RECOVERED: Final = (1 << 16) - 1  # MaxFrameNum - 1
# Of a unit, where it is read for each keyframe: encoders send a recovery point among the first
# messages.
_MOST_BYTES: Final = 4096
_MORE: Final = 0xFF  # a byte of a type or a size that continues in the next


def is_rotated(data: bytes, length_size: int) -> bool:
    """Return whether a keyframe is to be rotated or mirrored for display.

    Browsers ignore that and show it as coded. `data` is an access unit with length prefixes. A
    truncated SEI gives False.

    Raises:
        CodecError: a NAL unit's length exceeds the data.
    """
    return any(
        _requests_rotation(unit) for unit in nal_units(data, length_size) if unit[0] & 0x1F == _SEI
    )


def recovery_pictures(data: bytes, length_size: int) -> int:
    """Return how many pictures from an access unit on are decoded wrongly if decoding begins there.

    So it says itself (D.2.8) if it belongs to an intra refresh, which has no IDR pictures; 0
    otherwise. No more is read than by `leading_units`.
    """
    for start, end in leading_units(data, length_size):
        if data[start] & 0x1F != _SEI:
            continue
        for kind, payload in _messages(data[start : min(end, start + _MOST_BYTES)]):
            if kind == _RECOVERY_POINT:
                try:
                    return BitReader(payload).ue(_MOST_RECOVERED)
                except CodecError:
                    break
    return 0


def _requests_rotation(unit: bytes) -> bool:
    for kind, payload in _messages(unit):
        if kind == _DISPLAY_ORIENTATION and len(payload) >= 3:
            # cancel flag, mirrored across, mirrored down, 16 bits of angle, and more
            bits = int.from_bytes(payload[:3], "big")
            cancelled, rest = bits >> 23, bits >> 5 & 0x3FFFF
            return not cancelled and rest != 0
    return False


def _messages(unit: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the type and the payload of each message; that of the last one may be cut off."""
    data, place = unit.replace(b"\x00\x00\x03", b"\x00\x00"), 1
    while place < len(data):
        kind, place = _read_number(data, place)
        size, place = _read_number(data, place)
        yield kind, data[place : place + size]
        place += size


def _read_number(unit: bytes, place: int) -> tuple[int, int]:
    """Return a type or a size, and the offset after it."""
    number = 0
    while place < len(unit) and unit[place] == _MORE:
        number += _MORE
        place += 1
    return number + (unit[place] if place < len(unit) else 0), place + 1
