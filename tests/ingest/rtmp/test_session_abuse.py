"""Hostile peers: each is closed within its bounds of bytes, work and memory."""

import struct
import tracemalloc

import pytest

from ingest.rtmp import amf0
from ingest.rtmp.errors import AmfError, HandshakeError, LimitExceeded, OutOfOrder, RtmpError
from ingest.rtmp.limits import Limits
from ingest.rtmp.messages import MessageType
from ingest.rtmp.session import Session
from tests.support.counted_calls import counted_calls
from tests.support.ingest import rtmp_peer as encoder
from tests.support.ingest.rtmp_peer import (
    HANDSHAKE,
    command,
    connect,
    feed,
    head,
    header,
    session,
    whole,
)

VIDEO, AUDIO = MessageType.VIDEO, MessageType.AUDIO
READ = 65_536
# A tenth of the default limit, so that the tests end soon, and the most calls for each chunk.
CHUNKS_PER_SECOND, CALLS_PER_CHUNK = 5_000, 30
TINY = whole(2, MessageType.SET_CHUNK_SIZE, struct.pack(">I", 1))


def feed_repeatedly(
    server: Session, data: bytes, rate: int, *, seconds: float
) -> tuple[float, RtmpError]:
    """Feed `data` again and again at `rate` bytes/s; return when and why it ended."""
    now = 0.0
    while now < seconds:
        try:
            server.receive(data, now)
            server.tick(now)
        except RtmpError as error:
            return now, error
        now += len(data) / rate
    pytest.fail(f"nothing stopped it within {seconds} s")


@pytest.mark.parametrize("greeting", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00", b"\x06"])
def test_another_protocol_gets_no_answer(greeting: bytes) -> None:
    server = session()
    with pytest.raises(HandshakeError):
        server.receive(greeting[:1], 0.0)
    assert server.outgoing() == b""


ONE = head(0, 6) + header(VIDEO, 8_000_000) + b"x"


@pytest.mark.parametrize(
    ("first", "data"),
    [
        # (A SoundFormat of AAC and nothing behind it is passed over.)
        pytest.param(TINY + ONE, (head(3, 6) + b"x") * (READ // 2), id="of one message"),
        pytest.param(
            TINY + ONE + ONE.replace(b"\x06", b"\x07", 1),
            (head(3, 6) + b"x" + head(3, 7) + b"x") * (READ // 4),
            id="of two messages in turn",
        ),
        pytest.param(
            TINY + ONE + ONE.replace(b"\x06", b"\x07", 1),
            (head(3, 6) + b"x" + head(3, 6) + b"x" + head(3, 7) + b"x") * (READ // 6),
            id="in twos and ones",
        ),
        pytest.param(b"", whole(4, AUDIO, b"") * (READ // 12), id="of empty messages"),
        pytest.param(
            TINY, (head(0, 4) + header(AUDIO, 1) + b"\xaf" + head(3, 4) + b"\xaf") * (READ // 15),
            id="of one-byte messages",
        ),
    ],
)  # fmt: skip
def test_tiny_chunks_are_stopped_cheaply(first: bytes, data: bytes) -> None:
    # Publishing was permitted, so that only the budget of chunks stops them.
    limits = Limits(
        media_bits_per_second=1_000_000_000,
        messages_per_second=1_000_000,
        chunks_per_second=CHUNKS_PER_SECOND,
    )
    server = encoder.publishing(limits)
    server.receive(first, 0.0)
    with counted_calls() as count:
        at, error = feed_repeatedly(server, data, 10_000_000, seconds=5.0)
    assert isinstance(error, LimitExceeded)
    assert error.what == "chunks a second"
    assert at <= 3.0
    budget = CHUNKS_PER_SECOND * (limits.chunks_average_seconds + at)
    assert count.calls < CALLS_PER_CHUNK * (budget + READ // 2)


def test_128_byte_chunks_of_a_good_stream_are_within_the_budget() -> None:
    # librtmp at 40 Mbit/s.
    server = encoder.publishing(Limits(media_bits_per_second=100_000_000))
    feed(server, [encoder.video(encoder.video_config())])
    picture = encoder.video_body(bytes(100_000))
    for n in range(200):
        server.receive(encoder.video(picture, n * 20), n * 0.02)
    assert server.publishing


@pytest.mark.parametrize("tag", [b"\xaf\x01x", b"\xaf", b""])
@pytest.mark.parametrize(
    ("bound", "words"),
    [
        ({}, "more than 1,024 messages in an aggregate"),
        (
            {
                "aggregate_messages": 1_000_000,
                "messages_per_second": 1_000_000,
                "chunks_per_second": CHUNKS_PER_SECOND,
            },
            "chunks a second",
        ),
        ({"aggregate_messages": 1_000_000}, "messages a second"),
    ],
)
def test_the_messages_in_an_aggregate_are_bounded_and_count_as_chunks_and_messages(
    tag: bytes, bound: dict[str, int], words: str
) -> None:
    server = encoder.publishing(Limits(**bound))
    server.receive(whole(2, MessageType.SET_CHUNK_SIZE, struct.pack(">I", 8 << 20)), 0.0)
    server.receive(encoder.audio(encoder.audio_config()), 0.0)
    part = bytes((AUDIO, *len(tag).to_bytes(3, "big"))) + bytes(7) + tag
    part += (11 + len(tag)).to_bytes(4, "big")
    body = part * ((8 << 20) // len(part))
    with counted_calls() as count, pytest.raises(LimitExceeded, match=words):
        server.receive(head(0, 7) + header(MessageType.AGGREGATE, len(body), stream=1) + body, 0.0)
        server.tick(0.0)  # where packets came before the fault, it comes now
    assert count.calls < CALLS_PER_CHUNK * CHUNKS_PER_SECOND * Limits().chunks_average_seconds


def test_one_byte_pictures_are_stopped_by_their_number() -> None:
    """A million of them are 13 MB on the wire, within the bounds of bytes, but 240 MB in memory."""
    server = encoder.publishing(Limits(media_bits_per_second=1_000_000_000))
    feed(server, [encoder.video(encoder.video_config())])
    data = encoder.video(b"\x27\x01\0\0\0") * 1000
    events = 0
    with pytest.raises(LimitExceeded, match="messages a second"):
        for turn in range(1000):
            now = turn / 100
            server.tick(now)  # where packets came before the fault, it comes now
            events += len(server.receive(data, now))
    assert events <= 12_000


def test_the_messages_of_the_busiest_encoder_are_within_the_budget() -> None:
    """60 pictures, two audio tracks and metadata, and 30 s of them at once after a lost network."""
    server = encoder.publishing()
    feed(server, [encoder.video(encoder.video_config()), encoder.audio(encoder.audio_config())])
    second = encoder.video(encoder.video_body(b"x")) * 60
    second += encoder.audio(encoder.audio_body(b"x")) * 2 * 50 + encoder.META * 5
    for now in range(60):
        server.receive(second, float(now))
    server.receive(second * 30, 90.0)
    for now in range(90, 150):
        server.receive(second, float(now))
    assert server.publishing


def test_headers_of_huge_messages_are_stopped_at_once() -> None:
    server = encoder.publishing()
    with pytest.raises(LimitExceeded):
        server.receive(head(0, 6) + header(VIDEO, 0xFF_FFFF), 0.0)


def test_unfinished_messages_on_many_chunk_streams_stay_within_their_memory() -> None:
    server = encoder.publishing(Limits(media_bits_per_second=1_000_000_000))
    size = whole(2, MessageType.SET_CHUNK_SIZE, struct.pack(">I", READ))
    server.receive(size, 0.0)
    data = bytes(READ)
    tracemalloc.start()
    sent_bytes = 0
    with pytest.raises(LimitExceeded, match="unfinished"):
        for turn in range(100):
            for number in range(3, 63):
                first = head(3, number) if turn else head(0, number) + header(VIDEO, 8 << 20)
                server.receive(first + data, 0.0)
                sent_bytes += READ
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sent_bytes <= (16 << 20) + READ
    assert peak < 24 << 20


def test_a_byte_of_an_unfinished_message_does_not_keep_the_buffer_of_a_read() -> None:
    # Each read brings one byte of one of 60 messages, beside a whole message that fills it.
    server = encoder.publishing()
    size = struct.pack(">I", READ)
    large = encoder.message(2, MessageType.SET_CHUNK_SIZE, size, size=1)
    filler = large + whole(63, AUDIO, encoder.audio_body(bytes(60_000)))
    tracemalloc.start()
    for turn in range(5):
        for number in range(3, 63):
            first = head(3, number) if turn else head(0, number) + header(VIDEO, 100_000)
            server.receive(TINY + first + b"x" + filler, 0.0)
    allocated, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert allocated < 1 << 20


@pytest.mark.parametrize(
    "values",
    [
        pytest.param((b"\x03\0\x01a") * 5000, id="nested 5000 deep"),
        pytest.param(b"\x0a\xff\xff\xff\xff", id="array of 2**32-1"),
        pytest.param(b"\x02\xff\xffshort", id="string cut off"),
    ],
)
def test_hostile_amf_in_a_command_ends_the_session(values: bytes) -> None:
    server = session()
    body = amf0.encode("connect", 1.0) + values
    with pytest.raises(AmfError):
        feed(server, [HANDSHAKE, encoder.message(3, MessageType.COMMAND, body)])


def test_hostile_amf_in_metadata_is_passed_over() -> None:
    server = encoder.publishing()
    body = amf0.encode("onMetaData") + b"\x03\0\x01a" * 5000
    assert feed(server, [encoder.message(4, MessageType.DATA, body)]) == []
    assert server.publishing


def test_a_flood_of_connects_ends_at_the_second() -> None:
    server = session()
    feed(server, [HANDSHAKE, connect()])
    with pytest.raises(OutOfOrder):
        feed(server, [connect() * 1000])


def test_a_flood_of_commands_before_publish_ends_at_the_65th() -> None:
    server = session()
    feed(server, [HANDSHAKE, connect()])
    feed(server, [command("_checkbw", 2.0, None)] * 63)
    with pytest.raises(LimitExceeded, match="64 commands"):
        feed(server, [command("_checkbw", 2.0, None)])


def test_a_flood_of_commands_while_publishing_ends() -> None:
    server = encoder.publishing()
    _, error = feed_repeatedly(server, command("FCPublish", 2.0, None, "x"), 10_000, seconds=5.0)
    assert isinstance(error, LimitExceeded)
    assert len(server.outgoing()) < 64 * 400


def test_a_flood_of_pings_ends() -> None:
    server = encoder.publishing()
    ping = whole(2, MessageType.USER_CONTROL, b"\0\x06\0\0\0\0")
    _, error = feed_repeatedly(server, ping * 10, 100_000, seconds=5.0)
    assert isinstance(error, LimitExceeded)
    assert len(server.outgoing()) < 100 * 18


def test_a_fifth_message_stream_is_refused() -> None:
    server = session()
    feed(server, [HANDSHAKE, connect()] + [command("createStream", 2.0, None)] * 4)
    with pytest.raises(LimitExceeded, match="message streams"):
        feed(server, [command("createStream", 2.0, None)])


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(HANDSHAKE + connect(), id="never asked"),
        pytest.param(encoder.opening(), id="asked and not answered"),
    ],
)
@pytest.mark.parametrize("body", [bytes(60_000), b"\xaf\x01x", b""])
def test_media_before_permission_are_bounded(data: bytes, body: bytes) -> None:
    server = session(Limits(chunks_per_second=1_000_000))
    feed(server, [data], allow=False)
    media = encoder.message(4, AUDIO, body)
    sent_bytes = 0
    tracemalloc.start()
    with pytest.raises(LimitExceeded, match="before permission"):
        for _ in range(10_000):
            server.receive(media, 1.0)
            sent_bytes += len(media)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sent_bytes <= 1_200_000
    assert peak < 3 << 20


def test_more_than_the_bit_rate_for_long_ends_the_session() -> None:
    server = encoder.publishing()
    feed(server, [encoder.video(encoder.video_config())])
    picture = encoder.message(6, VIDEO, encoder.video_body(bytes(1_000_000)), size=1 << 20)
    server.receive(whole(2, MessageType.SET_CHUNK_SIZE, struct.pack(">I", 1 << 20)), 0.0)
    # 40 Mbit/s: the burst of 75 MB, filled up with 20 Mbit/s, lasts half a minute.
    at, error = feed_repeatedly(server, picture, 5_000_000, seconds=60.0)
    assert isinstance(error, LimitExceeded)
    assert error.what == "bits a second"
    assert at == pytest.approx(30.0, abs=2.0)
