"""Messages encoded and decoded, whole and byte by byte; invalid ones are refused."""

import random

import msgspec
import pytest

from ingest.relay.messages import (
    HEADER_BYTES,
    MAX_AGE_MS,
    Attach,
    Attached,
    AttachRefused,
    Close,
    Disconnect,
    FrameReader,
    Hello,
    Message,
    PartReceived,
    Ping,
    RelayedGrant,
    RelayedJump,
    RelayedPacket,
    RelayedTrack,
    RelayProtocolError,
    Stored,
    age_in_ms,
    decode,
    encode,
)
from ingest.stream.failover import Mode, Policy
from ingest.stream.ports import Grant
from ingest.stream.slot_session import CloseReason
from media.run_policy import RunFailover, RunPolicy, RunRecording, resolve
from media.stream_keys import Slot
from media.track import AudioCodec, AudioTrack, VideoCodec, VideoTrack

VIDEO = VideoTrack(codec=VideoCodec.AVC, config=b"\x01\x64", width=1280, height=720)
AUDIO = AudioTrack(codec=AudioCodec.AAC, config=b"\x12\x10", rate=48_000, channels=2)
GRANT = Grant(
    stream=7,
    hash="Ab3dEf6hIj9l",
    slot=Slot(2),
    active=frozenset({"720p", "audio"}),
    reconnect_seconds=60.0,
    goodbye_seconds=0.5,
    policy=Policy(mode=Mode.STICKY, detect_seconds=0.7),
    proof="p",
    paused=True,
    slate="slates/a.jpg",
    run=resolve(
        RunPolicy(
            failover=RunFailover(mode="sticky", detect_seconds=0.7, goodbye_seconds=0.5),
            recording=RunRecording(enabled=True),
            dvr_seconds=3600.0,
        )
    ),
)
MESSAGES: list[Message] = [
    Hello(version=1),
    Ping(),
    Attach(number=0, grant=RelayedGrant.of(GRANT), peer="192.0.2.1:5"),
    RelayedTrack(number=0, age_ms=0, track=VIDEO),
    RelayedTrack(number=0, age_ms=3, track=AUDIO),
    RelayedPacket(number=0, age_ms=9, video=True, dts=-40, pts=1 << 40, key=True, data=bytes(300)),
    RelayedPacket(number=(1 << 31) - 1, age_ms=0, video=False, dts=0, pts=0, key=True, data=b""),
    PartReceived(number=0),
    PartReceived(number=3, video=True, unusable="no configuration"),
    PartReceived(number=4, announced=True),
    RelayedJump(number=0),
    Close(number=0, goodbye=True, reason=None),
    Close(number=1, goodbye=False, reason=CloseReason.SILENT),
    Attached(number=0, generation=4),
    AttachRefused(number=0, occupied=True, reason="another encoder"),
    Disconnect(number=0, moved=False, reason="the key was changed"),
    Stored(number=0, age_ms=2_000),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda each: type(each).__name__)
def test_a_message_is_the_same_after_encoding_and_decoding(message: Message) -> None:
    assert decode(encode(message)[HEADER_BYTES:]) == message


@pytest.mark.parametrize(
    ("seconds", "age_ms"), [(0.0, 0), (1.2345, 1234), (-0.1, 0), (3600.0, MAX_AGE_MS)]
)
def test_an_age_is_within_what_messages_carry(seconds: float, age_ms: int) -> None:
    assert age_in_ms(seconds) == age_ms


def test_a_part_of_version_0_2_is_read() -> None:
    assert decode(msgspec.msgpack.encode([5, 8])) == PartReceived(number=8)


def test_messages_are_the_same_when_they_arrive_byte_by_byte() -> None:
    reader, stream = FrameReader(), b"".join(map(encode, MESSAGES))
    messages = [
        decode(frame) for at in range(len(stream)) for frame in reader.receive(stream[at : at + 1])
    ]
    assert messages == MESSAGES


def test_a_packet_costs_few_bytes_beside_its_data() -> None:
    packet = RelayedPacket(
        number=9, age_ms=0, video=True, dts=9**9, pts=9**9, key=False, data=bytes(900)
    )
    assert len(encode(packet)) - 900 <= 32


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(msgspec.msgpack.encode([99, 1]), id="an unknown message"),
        pytest.param(msgspec.msgpack.encode({"number": 1}), id="a map"),
        pytest.param(msgspec.msgpack.encode([5]), id="too few fields"),
        pytest.param(msgspec.msgpack.encode([5, -1]), id="a negative number"),
        pytest.param(msgspec.msgpack.encode([5, 1 << 31]), id="too large a number"),
        pytest.param(msgspec.msgpack.encode([11, 0, 60_001]), id="too old"),
        pytest.param(msgspec.msgpack.encode([9, 0, True, "x" * 1025]), id="too long a reason"),
        pytest.param(msgspec.msgpack.encode([7, 0, True, "tired"]), id="an unknown reason"),
        pytest.param(encode(MESSAGES[2])[HEADER_BYTES:-1], id="one byte too few"),
        pytest.param(encode(MESSAGES[2])[HEADER_BYTES:] + b"\0", id="one byte too many"),
        pytest.param(b"\x91" * 100_000, id="deeply nested"),
        pytest.param(b"\x94\x09\x00\xc3\xa2\xff\xfe", id="no UTF-8"),
        pytest.param(
            encode(RelayedTrack(number=0, age_ms=0, track=msgspec.structs.replace(VIDEO, scale=0)))[
                HEADER_BYTES:
            ],
            id="a track without a time base",
        ),
    ],
)
def test_an_invalid_message_is_refused(body: bytes) -> None:
    with pytest.raises(RelayProtocolError):
        decode(body)


@pytest.mark.parametrize("seed", range(200))
def test_any_bytes_give_messages_or_an_error(seed: int) -> None:
    chance, reader = random.Random(seed), FrameReader()
    data = bytearray(b"".join(map(encode, chance.choices(MESSAGES, k=8))))
    for _ in range(chance.randint(1, 8)):
        offset, size = chance.randrange(len(data)), chance.choice((1, 1, 2, 4, 16))
        match chance.randrange(3):
            case 0:
                data[offset : offset + size] = chance.randbytes(size)
            case 1:
                del data[offset : offset + size]
            case _:
                data[offset:offset] = chance.randbytes(size)
    try:
        for frame in reader.receive(bytes(data)):
            message = decode(frame)
            assert decode(encode(message)[HEADER_BYTES:]) == message
    except RelayProtocolError:
        pass
