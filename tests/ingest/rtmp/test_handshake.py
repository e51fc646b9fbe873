"""The handshake (RTMP 1.0, 5.2), simple and signed."""

import hmac
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.rtmp.errors import HandshakeError
from ingest.rtmp.handshake import Handshake

ENTROPY = bytes(i * 7 % 256 for i in range(1536))
C1 = bytes(8) + bytes(i * 5 % 251 for i in range(1528))
C2 = bytes(i * 3 % 241 for i in range(1536))

PLAYER = b"Genuine Adobe Flash Player 001"
SERVER = b"Genuine Adobe Flash Media Server 001"
TAIL = bytes.fromhex("f0eec24a8068bee82e00d0d1029e7e576eec5d2d29806fab93b8e636cfeb31ae")


def place_of(packet: bytes, offset: int) -> int:
    return sum(packet[offset : offset + 4]) % 728 + offset + 4


def digest_at(packet: bytes, offset: int, key: bytes) -> bytes:
    return hmac.digest(key, packet[:offset] + packet[offset + 32 :], "sha256")


def signed_c1(offset: int) -> bytes:
    c1 = bytes(4) + bytes((9, 0, 124, 2)) + C1[8:]
    position = place_of(c1, offset)
    return c1[:position] + digest_at(c1, position, PLAYER) + c1[position + 32 :]


def test_a_simple_opening_repeats_c1() -> None:
    handshake = Handshake(ENTROPY)
    answer, rest = handshake.feed(b"\x03" + C1 + C2 + b"more")
    assert len(answer) == 1 + 1536 + 1536
    assert answer[:1] == b"\x03"
    assert answer[1:9] == bytes(8)
    assert answer[9:1537] == ENTROPY[:1528]
    assert answer[1537:] == C1
    assert rest == b"more"
    assert handshake.done


def test_the_answer_comes_before_c2() -> None:
    handshake = Handshake(ENTROPY)
    assert handshake.feed(b"\x03" + C1[:-1]) == (b"", b"")
    answer, rest = handshake.feed(C1[-1:])
    assert len(answer) == 3073
    assert rest == b""
    assert not handshake.done


@pytest.mark.parametrize("offset", [8, 772])
def test_a_signed_opening_is_answered_signed(offset: int) -> None:
    c1 = signed_c1(offset)
    answer, _ = Handshake(ENTROPY).feed(b"\x03" + c1)
    s1, s2 = answer[1:1537], answer[1537:]
    position = place_of(s1, offset)
    assert s1[position : position + 32] == digest_at(s1, position, SERVER)
    theirs = c1[place_of(c1, offset) :][:32]
    key = hmac.digest(SERVER + TAIL, theirs, "sha256")
    assert s2[-32:] == hmac.digest(key, s2[:-32], "sha256")


def test_a_version_without_a_digest_is_answered_simply() -> None:
    c1 = bytes(4) + bytes((9, 0, 124, 2)) + C1[8:]
    answer, _ = Handshake(ENTROPY).feed(b"\x03" + c1)
    assert answer[1537:] == c1


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"GET / HTTP/1.1\r\n", id="HTTP"),
        pytest.param(b"\x16\x03\x01\x02\x00", id="TLS on the plain port"),
        pytest.param(b"\x06" + bytes(1536), id="RTMPE"),
        pytest.param(b"\x00", id="version 0"),
    ],
)
def test_another_protocol_is_refused_at_its_first_byte(data: bytes) -> None:
    with pytest.raises(HandshakeError) as caught:
        Handshake(ENTROPY).feed(data[:1])
    assert caught.value.version == data[0]


def test_too_little_entropy_is_our_fault() -> None:
    with pytest.raises(ValueError, match="1528"):
        Handshake(bytes(1527))


@given(st.lists(st.integers(0, 3200), max_size=8))
def test_cuts_change_nothing(places: list[int]) -> None:
    data = b"\x03" + signed_c1(8) + C2 + b"behind"
    expected, _ = Handshake(ENTROPY).feed(data)
    handshake = Handshake(ENTROPY)
    marks = [0, *sorted(places), len(data)]
    written, rest = b"", b""
    for start, end in itertools.pairwise(marks):
        if handshake.done:
            rest += data[start:end]
            continue
        answer, rest = handshake.feed(data[start:end])
        written += answer
    assert written == expected
    assert rest == b"behind"
