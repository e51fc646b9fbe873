"""The handshake: C0 C1 C2 from the peer, S0 S1 S2 from the server.

There are two forms. Simple: S2 repeats C1. With digests, as introduced by Flash Player 9: if C1's
version is not zero and C1 has a valid digest, S1 and S2 are signed, and the peer verifies that.
Only version 3 (plain) is answered: anything else is closed at its first byte without an answer.
C2 is not verified, because encoders fill it with arbitrary bytes.
Sources: RTMP 1.0, 5.2; the digests follow Flash Player and Flash Media Server.
"""

import hashlib
import hmac
from typing import Final

from ingest.rtmp.errors import HandshakeError

PACKET_BYTES: Final = 1536  # C1, C2, S1, S2
ENTROPY_BYTES: Final = 1528
_VERSION: Final = 3
_DIGEST_BYTES: Final = 32
# Public constants of the protocol, the same in every player and server; they are no secrets.
_TAIL: Final = bytes.fromhex("f0eec24a8068bee82e00d0d1029e7e576eec5d2d29806fab93b8e636cfeb31ae")
_PLAYER: Final = b"Genuine Adobe Flash Player 001"
_SERVER: Final = b"Genuine Adobe Flash Media Server 001"
# The version in a signed S1: that of a Flash Media Server with digests.
_SERVER_VERSION: Final = bytes((4, 5, 0, 1))
# The offsets of four bytes whose sum gives the digest's place, in the two schemes.
_OFFSETS: Final = (8, 772)
_SPREAD: Final = 728


class Handshake:
    """One handshake: bytes in, the answer and the remaining bytes out.

    `entropy` is at least `ENTROPY_BYTES` random bytes.
    """

    def __init__(self, entropy: bytes) -> None:
        if len(entropy) < ENTROPY_BYTES:
            raise ValueError(f"{ENTROPY_BYTES} random bytes are needed")
        self._entropy = entropy[:ENTROPY_BYTES]
        self._buffer = bytearray()
        self._answered = False
        self.done = False

    def feed(self, data: bytes | memoryview) -> tuple[bytes, bytes]:
        """Return what to write to the peer and, once `done`, the bytes after C2.

        Raises:
            HandshakeError: the peer does not speak RTMP.
        """
        buffer = self._buffer
        buffer += data
        if buffer and buffer[0] != _VERSION:
            raise HandshakeError(buffer[0])
        answer = b""
        if not self._answered and len(buffer) > PACKET_BYTES:
            self._answered = True
            answer = _answer(bytes(buffer[1 : 1 + PACKET_BYTES]), self._entropy)
        if len(buffer) <= 2 * PACKET_BYTES:
            return answer, b""
        self.done = True
        self._buffer = bytearray()
        return answer, bytes(buffer[1 + 2 * PACKET_BYTES :])


def _answer(c1: bytes, entropy: bytes) -> bytes:
    """Return S0, S1 and S2."""
    if c1[4:8] != bytes(4):
        for offset in _OFFSETS:
            place = _digest_place(c1, offset)
            digest = _digest(c1, place, _PLAYER)
            if hmac.compare_digest(digest, c1[place : place + _DIGEST_BYTES]):
                return _signed(digest, offset, entropy)
    # S1's time is 0; S2 repeats C1 with its time and random bytes.
    return bytes((_VERSION,)) + bytes(8) + entropy + c1


def _digest_place(packet: bytes, offset: int) -> int:
    return sum(packet[offset : offset + 4]) % _SPREAD + offset + 4


def _digest(packet: bytes, place: int, key: bytes) -> bytes:
    """Return the digest of a packet without the bytes of the digest itself."""
    signed = packet[:place] + packet[place + _DIGEST_BYTES :]
    return hmac.digest(key, signed, "sha256")


def _signed(peer_digest: bytes, offset: int, entropy: bytes) -> bytes:
    s1 = bytes(4) + _SERVER_VERSION + entropy
    place = _digest_place(s1, offset)
    s1 = s1[:place] + _digest(s1, place, _SERVER) + s1[place + _DIGEST_BYTES :]
    key = hmac.digest(_SERVER + _TAIL, peer_digest, "sha256")
    s2 = hashlib.shake_128(entropy).digest(PACKET_BYTES - _DIGEST_BYTES)
    return bytes((_VERSION,)) + s1 + s2 + hmac.digest(key, s2, "sha256")
