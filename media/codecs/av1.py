"""Parses the parts of AV1 needed at ingest: configurations, sizes, random access points.

Not a decoder: only the first bits of a frame header are read. Temporal units are in the
low-overhead format: consecutive OBUs, of which the last may omit its size. Any bytes give a value
or `CodecError`.
Sources: AV1 Bitstream & Decoding Process, 5.3 (OBU header), 5.5 (sequence header), 5.9.2 (frame
header); AV1 Codec ISO Media File Format Binding, 2.3 (av1C).
"""

from collections.abc import Iterator
from typing import Final

from media.codecs.bits import BitReader, CodecError
from media.codecs.sps import MAX_SIDE

_SEQUENCE_HEADER, _FRAME_HEADER, _FRAME = 1, 3, 6  # obu_type, 6.2.2
_CONFIG_BYTES: Final = 4  # of av1C before its OBUs
_MARKER: Final = 0x81  # of av1C: marker and version 1
_KEY_AND_SHOWN: Final = 0b0001  # show_existing_frame, frame_type (2 bits), show_frame
# The frame or sequence header follows a delimiter and a few OBUs of metadata. A hostile temporal
# unit may have millions of empty OBUs.
_MOST_UNITS: Final = 64
_TIER_FROM_LEVEL: Final = 8  # seq_level_idx from which there is a tier


def config_size(data: bytes) -> tuple[int, int] | None:
    """Return the width and height of an AV1CodecConfigurationRecord; None if it has none.

    Raises:
        CodecError: it is not such a record, or its sequence header is invalid.
    """
    if len(data) < _CONFIG_BYTES or data[0] != _MARKER:
        raise CodecError("no av1C record of version 1")
    return sequence_size(data[_CONFIG_BYTES:])


def sequence_size(data: bytes) -> tuple[int, int] | None:
    """Return the largest width and height of the sequence header among OBUs, if there is one.

    Raises:
        CodecError: an OBU or the sequence header is invalid.
    """
    for kind, start, end in _units(data):
        if kind == _SEQUENCE_HEADER:
            return _size(BitReader(data[start:end]))
    return None


def is_random_access(data: bytes) -> bool:
    """Return whether a temporal unit begins with a shown keyframe; False if it is invalid."""
    try:
        for kind, start, end in _units(data):
            if kind in (_FRAME_HEADER, _FRAME):
                return start < end and data[start] >> 4 == _KEY_AND_SHOWN
    except CodecError:
        pass
    return False


def _units(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield type, start and end of the first OBUs' payloads."""
    place, total = 0, len(data)
    for _ in range(_MOST_UNITS):
        if place >= total:
            return
        head = data[place]
        if head & 0x80:
            raise CodecError("an OBU that begins with the forbidden bit")
        place += 2 if head & 4 else 1
        size = total - place
        if head & 2:
            size, place = _leb128(data, place)
        end = place + size
        if size < 0 or end > total:
            raise CodecError("an OBU is cut off")
        yield head >> 3 & 15, place, end
        place = end


def _leb128(data: bytes, place: int) -> tuple[int, int]:
    """Return a number of 7 bits a byte, least significant first, and its end (4.10.5)."""
    value = 0
    for index in range(8):
        if place >= len(data):
            break
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, place
    raise CodecError("an OBU's size is cut off")


def _size(bits: BitReader) -> tuple[int, int]:
    bits.u(4)
    if bits.flag():  # reduced_still_picture_header
        bits.u(5)
    else:
        _skip_operating_points(bits)
    across, down = bits.u(4) + 1, bits.u(4) + 1
    width, height = bits.u(across) + 1, bits.u(down) + 1
    if width > MAX_SIDE or height > MAX_SIDE:
        raise CodecError(f"a picture of {width} x {height}")
    return width, height


def _skip_operating_points(bits: BitReader) -> None:
    """Skip timing, decoder model and operating points (5.5.1)."""
    delay_bits = 0
    if bits.flag():
        bits.u(64)
        if bits.flag():
            bits.ue((1 << 32) - 1)
        if bits.flag():
            delay_bits = bits.u(5) + 1
            bits.u(42)
    delays = bits.flag()
    for _ in range(bits.u(5) + 1):
        bits.u(12)
        if bits.u(5) >= _TIER_FROM_LEVEL:
            bits.flag()
        if delay_bits and bits.flag():
            bits.u(2 * delay_bits + 1)
        if delays and bits.flag():
            bits.u(4)
