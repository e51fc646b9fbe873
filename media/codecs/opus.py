"""Parses and builds Opus' identification header.

The output rate of a decoder is always 48 kHz. Any bytes give a value or `CodecError`.
Sources: RFC 7845, 5.1 (identification header); RFC 6716, 3.1 (the first byte of a packet).
"""

from typing import Final

from media.codecs.bits import CodecError

RATE: Final = 48_000
_MAGIC: Final = b"OpusHead"
_HEADER_BYTES: Final = 19
_CHANNELS: Final = 9  # offset of the channel count
_FAMILY: Final = 18
# More have no defined channel layout (RFC 7845, 5.1.1.2: eight are 7.1).
_MOST_CHANNELS: Final = 8
_STEREO: Final = 0x04  # of a packet's first byte


def channels_of(header: bytes) -> int:
    """Return the number of channels of an identification header.

    Raises:
        CodecError: it is invalid, is truncated, or has more than eight channels.
    """
    if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
        raise CodecError("no OpusHead")
    if header[len(_MAGIC)] >> 4:  # the major version; readers must reject unknown ones
        raise CodecError("an OpusHead of another version")
    channels, mapped = header[_CHANNELS], header[_FAMILY] != 0
    if not 1 <= channels <= _MOST_CHANNELS or (channels > 2 and not mapped):
        raise CodecError(f"{channels} channels")
    if mapped and len(header) < _HEADER_BYTES + 2 + channels:
        raise CodecError("an OpusHead without its channel mapping")
    return channels


def header_for(packet: bytes) -> bytes:
    """Return an identification header for a packet of a stream that has none.

    Raises:
        CodecError: the packet is empty.
    """
    if not packet:
        raise CodecError("an empty packet")
    channels = 2 if packet[0] & _STEREO else 1
    return _MAGIC + bytes((1, channels, 0, 0)) + RATE.to_bytes(4, "little") + bytes(3)
