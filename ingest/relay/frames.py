"""Frames on the connection between two hosts: a length of four bytes, then as many bytes.

The length is big-endian and does not count itself. Sans-IO.
"""

from collections.abc import Iterator
from typing import Final

HEADER_BYTES: Final = 4
# An RTMP message has at most 16 MiB (its length has 24 bits), and so has a packet; a decoder
# configuration and the fields around it are a few hundred bytes.
MAX_FRAME_BYTES: Final = (16 << 20) + (4 << 10)


class RelayProtocolError(Exception):
    """The other host broke the protocol: the connection must be closed."""


class FrameReader:
    """Cuts what is received into frames; holds at most one that is not complete."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def receive(self, data: bytes | memoryview) -> Iterator[bytes]:
        """Yield the contents of the frames that `data` completes.

        Raises:
            RelayProtocolError: a frame is longer than `MAX_FRAME_BYTES`.
        """
        buffer = self._buffer
        buffer += data
        start = 0
        try:
            while len(buffer) - start >= HEADER_BYTES:
                begin = start + HEADER_BYTES
                length = int.from_bytes(buffer[start:begin])
                if length > MAX_FRAME_BYTES:
                    raise RelayProtocolError(f"a frame of {length} bytes")
                if len(buffer) - begin < length:
                    break
                start = begin + length
                yield bytes(memoryview(buffer)[begin:start])
        finally:
            del buffer[:start]
