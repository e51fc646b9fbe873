"""Parses the frame headers of AC-3 and Enhanced AC-3.

Any bytes give a value or `CodecError`. `rate` in Hz.
Source: ATSC A/52, 5.3.1 and 5.3.2 (AC-3), E.2.2 (Enhanced AC-3), table 5.8 (channels).
"""

from typing import Final

import msgspec

from media.codecs.bits import BitReader, CodecError

_SYNC: Final = 0x0B77
_RATES: Final = (48_000, 44_100, 32_000)
_CHANNELS: Final = (2, 1, 2, 3, 3, 4, 4, 5)  # by acmod, without the LFE channel
_BSID_OFFSET: Final = 5  # of the byte whose first five bits are bsid, in both formats
_LAST_AC3, _LAST = 10, 16  # bsid
_FULL_RATE_BSID: Final = 8  # bsid above which AC-3 halves its rates


class Ac3Frame(msgspec.Struct, frozen=True, kw_only=True):
    """The header of a packet's first frame; further substreams may add channels."""

    enhanced: bool
    rate: int
    channels: int

    @classmethod
    def parse(cls, data: bytes) -> "Ac3Frame":
        """Parse the header of a frame.

        Raises:
            CodecError: there is none, it is truncated, or has a reserved value.
        """
        if len(data) <= _BSID_OFFSET or int.from_bytes(data[:2], "big") != _SYNC:
            raise CodecError("no sync word")
        bsid = data[_BSID_OFFSET] >> 3
        if bsid > _LAST:
            raise CodecError(f"bit stream {bsid}")
        bits = BitReader(data[:8], start=32)
        return _plain(bits, bsid) if bsid <= _LAST_AC3 else _enhanced(bits)


def _plain(bits: BitReader, bsid: int) -> Ac3Frame:
    code = bits.u(2)
    if code == len(_RATES):
        raise CodecError("a reserved rate")
    bits.u(14)
    mode = bits.u(3)
    if mode & 1 and mode != 1:
        bits.u(2)  # centre
    if mode & 4:
        bits.u(2)  # surround
    if mode == 2:
        bits.u(2)  # Dolby Surround
    rate = _RATES[code] >> max(bsid - _FULL_RATE_BSID, 0)
    return Ac3Frame(enhanced=False, rate=rate, channels=_CHANNELS[mode] + bits.u(1))


def _enhanced(bits: BitReader) -> Ac3Frame:
    code, blocks = bits.u(2), bits.u(2)
    if code == len(_RATES) == blocks:
        raise CodecError("a reserved rate")
    # If the first code is 3, the second selects a half rate.
    rate = _RATES[blocks] // 2 if code == len(_RATES) else _RATES[code]
    return Ac3Frame(enhanced=True, rate=rate, channels=_CHANNELS[bits.u(3)] + bits.u(1))
