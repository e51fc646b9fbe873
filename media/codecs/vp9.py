"""The bit syntax of VP9 that a taker of streams needs: keyframes and their size.

Not a decoder: of a frame the uncompressed header's first bytes are read. A superframe begins with
its first frame, so it is read like a frame. Any bytes give a value or `Vp9Error`.
Source: VP9 Bitstream & Decoding Process, 6.2 (uncompressed header), 6.2.2 (colour), 6.2.3 (size).
"""

from typing import Final

from media.codecs.bits import BitReader
from media.codecs.sps import MAX_SIDE

__all__ = ["Vp9Error", "is_keyframe", "keyframe_size"]

_MARKER: Final = 2
_SYNC: Final = 0x49_83_42
_RGB: Final = 7  # color_space


class Vp9Error(ValueError):
    """The bytes are no VP9 keyframe of the expected form: the source's fault."""


def is_keyframe(frame: bytes) -> bool:
    """Say whether a decoder can begin with a frame; what is broken says no."""
    if not frame or frame[0] >> 6 != _MARKER:
        return False
    # Profile 3 has a reserved bit between the profile and what follows it.
    place = 1 if frame[0] & 0x30 == 0x30 else 2
    return frame[0] >> place & 3 == 0  # neither show_existing_frame nor a frame_type of 1


def keyframe_size(frame: bytes) -> tuple[int, int]:
    """Return the width and height of a keyframe's picture.

    Raises:
        Vp9Error: it is no keyframe, is cut off, or its picture is out of bounds.
    """
    if not is_keyframe(frame):
        raise Vp9Error("no keyframe")
    bits = BitReader(frame[:32], Vp9Error, start=2)
    profile = bits.u(1) | bits.u(1) << 1
    bits.u(5 if profile == 3 else 4)
    if bits.u(24) != _SYNC:
        raise Vp9Error("a keyframe without its sync code")
    if profile >= 2:
        bits.flag()
    if bits.u(3) == _RGB:
        bits.u(profile & 1)
    else:
        bits.u(4 if profile & 1 else 1)
    width, height = bits.u(16) + 1, bits.u(16) + 1
    if width > MAX_SIDE or height > MAX_SIDE:
        raise Vp9Error(f"a picture of {width} x {height}")
    return width, height
