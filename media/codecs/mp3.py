"""Parses the frame header of MPEG audio layer III.

Any bytes give a value or `CodecError`. `rate` in Hz.
Sources: ISO/IEC 11172-3, 2.4.1.3 and 13818-3, 2.4.2.3 (half rates); MPEG 2.5 is a common extension.
"""

from typing import Final

import msgspec

from media.codecs.bits import CodecError

_HEADER_BYTES: Final = 4
_SYNC: Final = 0x7FF
_LAYER_III: Final = 1
_RATES: Final = (44_100, 48_000, 32_000)
# Version -> how often the rates are halved; 1 is reserved.
_HALVED: Final = {3: 0, 2: 1, 0: 2}
_MONO: Final = 3


class Mp3Frame(msgspec.Struct, frozen=True, kw_only=True):
    """The header of a frame."""

    rate: int
    channels: int

    @classmethod
    def parse(cls, data: bytes) -> "Mp3Frame":
        """Parse the header of a frame.

        Raises:
            CodecError: there is none, it is truncated, or has a reserved value.
        """
        if len(data) < _HEADER_BYTES:
            raise CodecError("cut off")
        head = int.from_bytes(data[:_HEADER_BYTES], "big")
        halved = _HALVED.get(head >> 19 & 3)
        if head >> 21 != _SYNC or halved is None or head >> 17 & 3 != _LAYER_III:
            raise CodecError("no frame of layer III")
        code = head >> 10 & 3
        if code == len(_RATES) or head >> 12 & 15 == 15:
            raise CodecError("a reserved rate")
        return cls(rate=_RATES[code] >> halved, channels=1 if head >> 6 & 3 == _MONO else 2)
