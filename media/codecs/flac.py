"""Parses FLAC's STREAMINFO: rate, channels, and the decoder configuration.

Any bytes give a value or `CodecError`.
Source: RFC 9639, 8.2 (STREAMINFO), 8.1 (the header of a metadata block).
"""

from typing import Final

import msgspec

from media.codecs.bits import CodecError

_MAGIC: Final = b"fLaC"
_BLOCK_HEADER_BYTES: Final = 4
_STREAMINFO_BYTES: Final = 34
_MOST_CHANNELS_BITS: Final = 7


class FlacInfo(msgspec.Struct, frozen=True, kw_only=True):
    """`rate` in Hz, `channels`, and `config`: a STREAMINFO that is constant for the stream.

    `config` lacks the fields that are known only at the end (frame sizes, number of samples,
    checksum): ffmpeg sends these in a second header, which does not begin another stream.
    """

    rate: int
    channels: int
    config: bytes

    @classmethod
    def parse(cls, data: bytes) -> "FlacInfo":
        """Parse a STREAMINFO, alone or after "fLaC" and the block header.

        Raises:
            CodecError: it is missing or truncated, or has no rate.
        """
        if data.startswith(_MAGIC):
            data = data[len(_MAGIC) + _BLOCK_HEADER_BYTES :]
        if len(data) < _STREAMINFO_BYTES:
            raise CodecError("no STREAMINFO")
        packed = int.from_bytes(data[10:18], "big")
        rate = packed >> 44
        if not rate:
            raise CodecError("a rate of 0 Hz")
        constant = (packed >> 36 << 36).to_bytes(8, "big")
        return cls(
            rate=rate,
            channels=(packed >> 41 & _MOST_CHANNELS_BITS) + 1,
            config=data[:4] + bytes(6) + constant + bytes(16),
        )
