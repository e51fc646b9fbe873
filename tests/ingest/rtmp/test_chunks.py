"""Chunk streams (RTMP 1.0, 5.3), read whole, byte by byte, and cut at random."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.rtmp.chunks import ChunkReader, ChunkWriter, Message
from ingest.rtmp.errors import ChunkError, LimitExceeded, MessageError, RtmpError
from ingest.rtmp.limits import Limits
from ingest.rtmp.messages import MessageType
from tests.support.ingest.rtmp_peer import cut, head, header, message, whole

LIMITS = Limits()
AUDIO, VIDEO = MessageType.AUDIO, MessageType.VIDEO

Found = tuple[int, int, int, bytes]


def read(data: bytes, places: list[int] | None = None, limits: Limits = LIMITS) -> list[Found]:
    """Return (type, timestamp, message stream, body) of the messages in data cut at places."""
    reader = ChunkReader(limits)
    received: list[Found] = []
    for piece in cut(data, places or []):
        messages: list[Message] = []
        reader.feed(piece, messages)
        received += [(m.kind, m.timestamp, m.stream, bytes(m.body)) for m in messages]
    return received


def delta(form: int, number: int, stamp: int, kind: int = VIDEO, length: int = 0) -> bytes:
    """Return a header of form 1 or 2."""
    field = min(stamp, 0xFFFFFF)
    middle = length.to_bytes(3, "big") + bytes((kind,)) if form == 1 else b""
    extension = struct.pack(">I", stamp) if field == 0xFFFFFF else b""
    return head(form, number) + field.to_bytes(3, "big") + middle + extension


def chunk_size(size: int) -> bytes:
    return whole(2, MessageType.SET_CHUNK_SIZE, struct.pack(">I", size))


BODY = bytes(i % 251 for i in range(1000))
BIG = 0x0100_0000  # needs the extended timestamp
BIG_FIELD = struct.pack(">I", BIG)

CASES = [
    pytest.param(whole(6, VIDEO, b"abc", stamp=7, stream=1), [(VIDEO, 7, 1, b"abc")], id="form 0"),
    pytest.param(
        whole(6, VIDEO, b"abc", stamp=7, stream=1) + delta(1, 6, 40, VIDEO, 2) + b"de",
        [(VIDEO, 7, 1, b"abc"), (VIDEO, 47, 1, b"de")],
        id="form 1",
    ),
    pytest.param(
        whole(6, VIDEO, b"abc", stamp=7, stream=1) + delta(2, 6, 40) + b"def",
        [(VIDEO, 7, 1, b"abc"), (VIDEO, 47, 1, b"def")],
        id="form 2",
    ),
    pytest.param(
        whole(6, VIDEO, b"a", stamp=7) + delta(2, 6, 40) + b"b" + head(3, 6) + b"c",
        [(VIDEO, 7, 0, b"a"), (VIDEO, 47, 0, b"b"), (VIDEO, 87, 0, b"c")],
        id="form 3 begins a message and adds the delta",
    ),
    pytest.param(
        whole(6, VIDEO, b"a", stamp=70_000) + head(3, 6) + b"b",
        [(VIDEO, 70_000, 0, b"a"), (VIDEO, 70_000, 0, b"b")],
        id="form 3 after form 0 keeps the time",
    ),
    pytest.param(
        message(6, VIDEO, BODY, stamp=BIG),
        [(VIDEO, BIG, 0, BODY)],
        id="extended timestamp, not repeated (librtmp before 2024)",
    ),
    pytest.param(
        head(0, 6)
        + header(VIDEO, 300, stamp=BIG)
        + BODY[:128]
        + (head(3, 6) + BIG_FIELD + BODY[128:256])
        + (head(3, 6) + BIG_FIELD + BODY[256:300]),
        [(VIDEO, BIG, 0, BODY[:300])],
        id="extended timestamp, repeated",
    ),
    pytest.param(
        whole(6, VIDEO, b"a", stamp=5)
        + delta(1, 6, BIG, VIDEO, 200)
        + BODY[:128]
        + head(3, 6)
        + BIG_FIELD
        + BODY[128:200],
        [(VIDEO, 5, 0, b"a"), (VIDEO, BIG + 5, 0, BODY[:200])],
        id="extended delta, repeated",
    ),
    pytest.param(
        whole(6, VIDEO, b"a", stamp=5)
        + delta(1, 6, BIG, VIDEO, 200)
        + BODY[:128]
        + head(3, 6)
        + struct.pack(">I", BIG + 5)
        + BODY[128:200],
        [(VIDEO, 5, 0, b"a"), (VIDEO, BIG + 5, 0, BODY[:200])],
        id="extended delta, the whole time repeated",
    ),
    pytest.param(
        whole(6, VIDEO, b"ab", stamp=0xFFFFFF) + delta(1, 6, 1, VIDEO, 1) + b"c",
        [(VIDEO, 0xFFFFFF, 0, b"ab"), (VIDEO, 0x1000000, 0, b"c")],
        id="timestamp of exactly 0xFFFFFF",
    ),
    pytest.param(
        whole(6, VIDEO, b"a", stamp=0xFFFFF0) + delta(1, 6, 15, VIDEO, 200) + BODY[:128]
        + head(3, 6) + BODY[128:200],
        [(VIDEO, 0xFFFFF0, 0, b"a"), (VIDEO, 0xFFFFFF, 0, BODY[:200])],
        id="sum of exactly 0xFFFFFF has no extended field",
    ),
    pytest.param(
        whole(6, VIDEO, b"a", stamp=0xFFFF_FFF0) + delta(2, 6, 0x20) + b"b",
        [(VIDEO, 0xFFFF_FFF0, 0, b"a"), (VIDEO, 0x10, 0, b"b")],
        id="timestamps wrap at 2**32",
    ),
    pytest.param(
        message(320, VIDEO, BODY, stamp=1) + message(65_599, AUDIO, BODY, stamp=2)
        + message(64, AUDIO, BODY, stamp=3) + message(319, VIDEO, BODY, stamp=4),
        [(VIDEO, 1, 0, BODY), (AUDIO, 2, 0, BODY), (AUDIO, 3, 0, BODY), (VIDEO, 4, 0, BODY)],
        id="chunk streams of two and three bytes",
    ),
    pytest.param(
        head(0, 6) + header(VIDEO, 300) + BODY[:128]
        + head(0, 4) + header(AUDIO, 200) + BODY[:128]
        + head(3, 6) + BODY[128:256]
        + head(3, 4) + BODY[128:200]
        + head(3, 6) + BODY[256:300],
        [(AUDIO, 0, 0, BODY[:200]), (VIDEO, 0, 0, BODY[:300])],
        id="interleaved",
    ),
    pytest.param(
        head(0, 6) + header(VIDEO, 1000) + BODY[:128] + chunk_size(500)
        + head(3, 6) + BODY[128:628] + head(3, 6) + BODY[628:],
        [(VIDEO, 0, 0, BODY)],
        id="chunk size changes inside a message",
    ),
    pytest.param(
        chunk_size(4096) + whole(4, VIDEO, BODY) + chunk_size(1)
        + message(4, AUDIO, b"xyz", size=1),
        [(VIDEO, 0, 0, BODY), (AUDIO, 0, 0, b"xyz")],
        id="chunk size 4096, then 1",
    ),
    pytest.param(
        chunk_size(0x7FFF_FFFF) + whole(4, VIDEO, BODY),
        [(VIDEO, 0, 0, BODY)],
        id="chunk size 2**31-1",
    ),
    pytest.param(
        head(0, 6) + header(VIDEO, 300, stamp=9) + BODY[:128]
        + whole(2, MessageType.ABORT, struct.pack(">I", 6))
        + whole(6, VIDEO, b"next", stamp=10),
        [(VIDEO, 10, 0, b"next")],
        id="abort drops the message in hand",
    ),
    pytest.param(
        whole(2, MessageType.ABORT, struct.pack(">I", 77)) + whole(6, VIDEO, b"a"),
        [(VIDEO, 0, 0, b"a")],
        id="abort of a stream that is not there",
    ),
    pytest.param(
        whole(6, VIDEO, b"", stamp=3) + whole(4, AUDIO, b"", stamp=4),
        [(VIDEO, 3, 0, b""), (AUDIO, 4, 0, b"")],
        id="empty messages",
    ),
    pytest.param(
        delta(1, 6, 40, VIDEO, 1) + b"a", [(VIDEO, 40, 0, b"a")], id="form 1 on a fresh stream"
    ),
    pytest.param(whole(3, 99, b"abc"), [(99, 0, 0, b"abc")], id="an unknown type comes out too"),
    pytest.param(whole(3, 0, b"abc"), [(0, 0, 0, b"abc")], id="and so does type 0"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "expected"), CASES)
def test_messages_are_put_together(data: bytes, expected: list[Found]) -> None:
    assert read(data) == expected


@pytest.mark.parametrize(("data", "expected"), CASES)
def test_messages_are_the_same_when_they_arrive_byte_by_byte(
    data: bytes, expected: list[Found]
) -> None:
    assert read(data, list(range(len(data)))) == expected


@pytest.mark.parametrize(("data", "expected"), CASES)
def test_messages_are_the_same_when_cut_in_two_anywhere(data: bytes, expected: list[Found]) -> None:
    for index in range(1, len(data)):
        assert read(data, [index]) == expected


def test_a_payload_that_looks_like_the_repeated_timestamp_up_to_the_cut() -> None:
    # The message's last chunk has two bytes, equal to the first of the timestamp.
    body = bytes(128) + BIG_FIELD[:2]
    data = message(6, VIDEO, body, stamp=BIG) + whole(4, AUDIO, b"after")
    expected = [(VIDEO, BIG, 0, body), (AUDIO, 0, 0, b"after")]
    assert read(data) == expected
    assert read(data, list(range(len(data)))) == expected


@pytest.mark.parametrize("size", [1, 2, 127, 128, 129, 4096, 65_536])
@pytest.mark.parametrize("length", [1, 127, 128, 129, 256, 257, 8192, 8193, 70_000])
def test_runs_of_any_chunk_size_are_lifted_whole(size: int, length: int) -> None:
    body = (BODY * 71)[:length]
    data = chunk_size(size) + message(6, VIDEO, body, size=size, stamp=1)
    data += message(4, AUDIO, body[:300], size=size, stamp=2)
    expected = [(VIDEO, 1, 0, body), (AUDIO, 2, 0, body[:300])]
    assert read(data) == expected
    assert read(data, list(range(0, len(data), 1000))) == expected


def test_the_reader_counts_chunks() -> None:
    reader = ChunkReader(LIMITS)
    reader.feed(message(6, VIDEO, BODY) + whole(4, AUDIO, b""), [])
    assert reader.chunks == 8 + 1


def test_a_message_is_unfinished_from_its_first_byte_to_its_last() -> None:
    reader = ChunkReader(LIMITS)
    data = message(6, VIDEO, BODY)
    states: list[bool] = []
    for at in range(len(data)):
        reader.feed(data[at : at + 1], [])
        states.append(reader.is_mid_message)
    header = 12
    assert states == [False] * header + [True] * (len(data) - header - 1) + [False]
    # Another message within it changes nothing.
    reader.feed(data[:200] + message(4, AUDIO, b"sound"), [])
    assert reader.is_mid_message


@pytest.mark.parametrize(
    ("data", "error"),
    [
        pytest.param(chunk_size(0), ChunkError, id="chunk size 0"),
        pytest.param(chunk_size(1 << 31), ChunkError, id="chunk size with bit 31"),
        pytest.param(
            whole(2, MessageType.SET_CHUNK_SIZE, b"\0\0\1"),
            MessageError,
            id="chunk size of 3 bytes",
        ),
        pytest.param(whole(2, MessageType.ABORT, bytes(5)), MessageError, id="abort of 5 bytes"),
        pytest.param(whole(2, MessageType.USER_CONTROL, b"\0"), MessageError, id="half an event"),
        pytest.param(whole(2, MessageType.PEER_BANDWIDTH, bytes(4)), MessageError, id="bandwidth"),
        pytest.param(head(3, 6) + b"abc", ChunkError, id="form 3 on a fresh stream"),
        pytest.param(delta(2, 6, 40) + b"abc", ChunkError, id="form 2 on a fresh stream"),
        pytest.param(
            head(0, 6) + header(VIDEO, 300) + BODY[:128] + whole(6, VIDEO, b"abc"),
            ChunkError,
            id="a message inside another",
        ),
        pytest.param(head(0, 6) + header(VIDEO, 0xFFFFFF), LimitExceeded, id="16 MiB of video"),
        pytest.param(head(0, 3) + header(20, 65_537), LimitExceeded, id="65 537 bytes of command"),
        pytest.param(head(0, 3) + header(99, 65_537), LimitExceeded, id="of an unknown type"),
        pytest.param(
            b"".join(whole(number, AUDIO, b"") for number in range(2, 67)),
            LimitExceeded,
            id="65 chunk streams",
        ),
    ],
)
def test_what_cannot_be_followed_is_an_error(data: bytes, error: type[RtmpError]) -> None:
    with pytest.raises(error):
        read(data)
    with pytest.raises(error):
        read(data, list(range(len(data))))


def test_messages_before_the_fault_are_kept() -> None:
    received: list[Message] = []
    with pytest.raises(ChunkError):
        ChunkReader(LIMITS).feed(whole(6, VIDEO, b"abc") + chunk_size(0), received)
    assert len(received) == 1


def test_64_chunk_streams_are_accepted() -> None:
    data = b"".join(whole(number, AUDIO, b"a") for number in range(100, 164))
    assert len(read(data)) == 64


def test_unfinished_messages_are_bounded_together() -> None:
    limits = Limits(unfinished_bytes=10_000)
    reader = ChunkReader(limits)
    with pytest.raises(LimitExceeded, match="unfinished"):
        for number in range(3, 60):
            reader.feed(head(0, number) + header(VIDEO, 5000), [])
            reader.feed(BODY[:128] + (head(3, number) + BODY[128:256]) * 3, [])


def test_finished_and_aborted_messages_leave_the_bound() -> None:
    limits = Limits(unfinished_bytes=1_000)
    abort = whole(2, MessageType.ABORT, struct.pack(">I", 6))
    reader = ChunkReader(limits)
    for _ in range(20):
        reader.feed(message(6, VIDEO, BODY[:900]), [])
        reader.feed(head(0, 6) + header(VIDEO, 900) + BODY[:128], [])
        reader.feed(abort, [])


@given(
    st.lists(
        st.tuples(
            st.integers(2, 63), st.integers(0, 2**32 - 1), st.integers(0, 255),
            st.sampled_from([AUDIO, VIDEO, 20]), st.binary(max_size=600),
        ),
        max_size=6,
    ),
    st.integers(128, 700),
    st.lists(st.integers(0, 4000), max_size=12),
)  # fmt: skip
def test_the_reader_reads_what_the_writer_writes(
    messages: list[tuple[int, int, int, int, bytes]], size: int, places: list[int]
) -> None:
    writer = ChunkWriter()
    data = writer.write(2, MessageType.SET_CHUNK_SIZE, struct.pack(">I", size))
    writer.chunk_bytes = size
    expected: list[Found] = []
    for number, stamp, stream, kind, body in messages:
        data += writer.write(number, kind, body, stream=stream, timestamp=stamp)
        expected.append((kind, stamp, stream, body))
    assert read(data, places) == expected


def test_the_writer_writes_whole_headers_only() -> None:
    # GStreamer's rtmp2sink waits for ever after a short header on a new chunk stream.
    writer = ChunkWriter()
    for _ in range(2):
        data = writer.write(3, 20, BODY[:200], stream=1)
        assert data[0] >> 6 == 0
        assert data[12 + 128] == 0xC3


def some_chunk(form: int, number: int, fields: bytes) -> bytes:
    return head(form, number) + fields


def some_message(number: int, kind: int, body: bytes) -> bytes:
    return whole(number, kind, body)


NUMBERS = st.sampled_from([2, 3, 4, 64, 320])
PIECES = st.lists(
    st.binary(max_size=30)
    | st.builds(some_chunk, st.integers(0, 3), NUMBERS, st.binary(max_size=20))
    | st.builds(some_message, NUMBERS, st.integers(0, 25), st.binary(max_size=128)),
    max_size=20,
).map(b"".join)


@given(PIECES, st.lists(st.integers(0, 600), max_size=6))
def test_any_bytes_give_the_same_messages_or_the_same_error(data: bytes, places: list[int]) -> None:
    limits = Limits(unfinished_bytes=500, chunk_streams=4)
    assert outcome(data, [], limits) == outcome(data, places, limits)


def outcome(data: bytes, places: list[int], limits: Limits) -> tuple[list[Found], str]:
    reader = ChunkReader(limits)
    received: list[Found] = []
    for piece in cut(data, places):
        messages: list[Message] = []
        fault = ""
        try:
            reader.feed(piece, messages)
        except RtmpError as error:
            fault = str(error)
        received += [(m.kind, m.timestamp, m.stream, bytes(m.body)) for m in messages]
        if fault:
            return received, fault
    return received, ""
