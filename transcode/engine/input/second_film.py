"""Whether another film follows in an MP4 or MOV: the library reads the index of the first alone.

Only the headers of the outermost boxes are read (ISO/IEC 14496-12, 4.2).
"""

import os
import struct
from typing import Final

__all__ = ["has_second_film"]

_MOST_BOXES: Final = 1_000  # a film in one piece has a dozen
_LARGE: Final = 1  # instead of a size, which follows in 64 bits
_HEADER: Final = struct.Struct(">I4sQ")
_LEAST: Final = 8  # octets of a header


def has_second_film(descriptor: int) -> bool:
    """Return whether a second index follows a second beginning; not in fragments, which go on."""
    at = begins = indices = 0
    for _ in range(_MOST_BOXES):
        try:
            data = os.pread(descriptor, _HEADER.size, at)
        except (OSError, OverflowError):  # of the disk, which other reads report; of absurd sizes
            return False
        if len(data) < _LEAST:
            return False
        size, kind, large = _HEADER.unpack(data.ljust(_HEADER.size, b"\0"))
        size = large if size == _LARGE else size
        if size < _LEAST or kind == b"moof":
            return False
        begins += kind == b"ftyp"
        indices += kind == b"moov"
        if min(begins, indices) > 1:
            return True
        at += size
    return False
