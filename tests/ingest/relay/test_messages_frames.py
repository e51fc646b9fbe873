"""Frames that arrive whole, byte by byte or cut anywhere, and frames that are too long."""

import random

import pytest

from ingest.relay.messages import MAX_FRAME_BYTES, FrameReader, RelayProtocolError

CONTENTS = [b"", b"a", b"\0\0\0\4", b"x" * 300, b"", b"end"]
STREAM = b"".join(len(each).to_bytes(4) + each for each in CONTENTS)


def test_frames_that_arrive_at_once_are_read_in_order() -> None:
    assert list(FrameReader().receive(STREAM)) == CONTENTS


def test_frames_are_the_same_when_they_arrive_byte_by_byte() -> None:
    reader = FrameReader()
    assert [
        frame for at in range(len(STREAM)) for frame in reader.receive(STREAM[at : at + 1])
    ] == CONTENTS


@pytest.mark.parametrize("seed", range(20))
def test_frames_are_the_same_wherever_they_are_cut(seed: int) -> None:
    chance, reader = random.Random(seed), FrameReader()
    contents: list[bytes] = []
    at = 0
    while at < len(STREAM):
        size = chance.randint(1, 40)
        contents += reader.receive(STREAM[at : at + size])
        at += size
    assert contents == CONTENTS


def test_the_longest_frame_is_accepted_and_a_longer_one_is_not() -> None:
    longest = bytes(MAX_FRAME_BYTES)
    assert list(FrameReader().receive(MAX_FRAME_BYTES.to_bytes(4) + longest)) == [longest]
    with pytest.raises(RelayProtocolError, match=str(MAX_FRAME_BYTES + 1)):
        list(FrameReader().receive((MAX_FRAME_BYTES + 1).to_bytes(4)))


def test_frames_before_one_that_is_too_long_are_delivered() -> None:
    reading = FrameReader().receive(STREAM + b"\xff\xff\xff\xff")
    assert [next(reading) for _ in CONTENTS] == CONTENTS
    with pytest.raises(RelayProtocolError):
        next(reading)
