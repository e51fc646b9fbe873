"""Parses the parts of VP9 needed at ingest: keyframes and their size.

Not a decoder: only the first bytes of a frame's uncompressed header are read. A superframe begins
with its first frame, so it is read like one. Any bytes give a value or `CodecError`.
Source: VP9 Bitstream & Decoding Process, 6.2 (uncompressed header), 6.2.2 (colour), 6.2.3 (size).
"""

from typing import Final

from media.codecs.bits import BitReader, CodecError
from media.codecs.sps import MAX_SIDE

_MARKER: Final = 2
_SYNC: Final = 0x49_83_42
_RGB: Final = 7  # color_space


def is_keyframe(frame: bytes) -> bool:
    """Return whether decoding can begin with a frame; False if it is invalid."""
    if not frame or frame[0] >> 6 != _MARKER:
        return False
    # Profile 3 is followed by a reserved bit.
    place = 1 if frame[0] & 0x30 == 0x30 else 2
    return frame[0] >> place & 3 == 0  # neither show_existing_frame nor a frame_type of 1


def keyframe_size(frame: bytes) -> tuple[int, int]:
    """Return the width and height of a keyframe's picture.

    Raises:
        CodecError: it is not a keyframe, is truncated, or its picture size is out of bounds.
    """
    if not is_keyframe(frame):
        raise CodecError("no keyframe")
    bits = BitReader(frame[:32], start=2)
    profile = bits.u(1) | bits.u(1) << 1
    bits.u(5 if profile == 3 else 4)
    if bits.u(24) != _SYNC:
        raise CodecError("a keyframe without its sync code")
    if profile >= 2:
        bits.flag()
    if bits.u(3) == _RGB:
        bits.u(profile & 1)
    else:
        bits.u(4 if profile & 1 else 1)
    width, height = bits.u(16) + 1, bits.u(16) + 1
    if width > MAX_SIDE or height > MAX_SIDE:
        raise CodecError(f"a picture of {width} x {height}")
    return width, height
