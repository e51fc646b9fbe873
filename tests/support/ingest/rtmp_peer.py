"""The encoder's side of RTMP: writes its bytes, and reads the server's answers.

It writes chunk headers itself, since real encoders use forms that our own writer does not.
"""

import itertools
import struct
from collections.abc import Iterable, Sequence

from ingest.rtmp import amf0
from ingest.rtmp.amf import Amf
from ingest.rtmp.chunks import ChunkReader, Message
from ingest.rtmp.dialogue import State
from ingest.rtmp.events import Event, PublishRequested
from ingest.rtmp.limits import Limits
from ingest.rtmp.messages import MessageType
from ingest.rtmp.session import Session

LIMITS = Limits()
ENTROPY = bytes(range(256)) * 6
HANDSHAKE = b"\x03" + bytes(1536) + bytes(1536)
APPLICATION = "live"
NAME = "abcdefghijkl_made-up"

# From a real encoder: 160x90, High profile.
AVC_CONFIG = bytes.fromhex(
    "0164000cffe1001b6764000cac76110a37e4c04400000300040000030078"
    "3c50a61180010006" + "68e843b2c8b0" + "fdf8f800"
)
AAC_CONFIG = bytes.fromhex("1208")  # LC, 44 100 Hz, mono


def whole(number: int, kind: int, body: bytes, *, stamp: int = 0, stream: int = 0) -> bytes:
    """Return a message of one chunk: a header of format 0, and the body."""
    return head(0, number) + header(kind, len(body), stamp=stamp, stream=stream) + body


def head(form: int, number: int) -> bytes:
    """Return a chunk's basic header in the shortest form for its stream ID."""
    if number < 64:
        return bytes((form << 6 | number,))
    if number < 320:
        return bytes((form << 6, number - 64))
    return bytes((form << 6 | 1,)) + (number - 64).to_bytes(2, "little")


def header(kind: int, length: int, *, stamp: int = 0, stream: int = 0) -> bytes:
    """Return the message header of format 0."""
    field = min(stamp, 0xFFFFFF)
    extension = struct.pack(">I", stamp) if field == 0xFFFFFF else b""
    return (
        field.to_bytes(3, "big")
        + length.to_bytes(3, "big")
        + bytes((kind,))
        + stream.to_bytes(4, "little")
        + extension
    )


def message(
    number: int, kind: int, body: bytes, *, stamp: int = 0, stream: int = 0, size: int = 128
) -> bytes:
    """Return a message in chunks of `size`; all but the first have format 3."""
    parts = [head(0, number), header(kind, len(body), stamp=stamp, stream=stream), body[:size]]
    for start in range(size, len(body), size):
        parts += (head(3, number), body[start : start + size])
    return b"".join(parts)


def command(name: str, transaction: float, *values: Amf, stream: int = 0) -> bytes:
    """Return a command message in 128-byte chunks."""
    body = amf0.encode(name, transaction, *values)
    return message(3, MessageType.COMMAND, body, stream=stream)


def connect(app: str = APPLICATION, url: str = "rtmp://tv.example/live") -> bytes:
    return command("connect", 1.0, {"app": app, "type": "nonprivate", "tcUrl": url})


def opening(app: str = APPLICATION, name: str = NAME, url: str = "rtmp://tv.example/live") -> bytes:
    """Return all bytes before the media, as librtmp sends them."""
    return b"".join(
        (
            HANDSHAKE,
            connect(app, url),
            command("releaseStream", 2.0, None, name),
            command("FCPublish", 3.0, None, name),
            command("createStream", 4.0, None),
            publish(name),
        )
    )


def publish(name: str = NAME, transaction: float = 5.0, stream: int = 1) -> bytes:
    return command("publish", transaction, None, name, "live", stream=stream)


def video_config(config: bytes = AVC_CONFIG) -> bytes:
    return b"\x17\x00\x00\x00\x00" + config


def audio_config(config: bytes = AAC_CONFIG) -> bytes:
    return b"\xaf\x00" + config


def video_body(data: bytes, *, key: bool = False, offset: int = 0) -> bytes:
    return bytes((0x17 if key else 0x27, 1)) + (offset & 0xFFFFFF).to_bytes(3, "big") + data


def audio_body(data: bytes) -> bytes:
    return b"\xaf\x01" + data


def video(body: bytes, stamp: int = 0) -> bytes:
    return message(6, MessageType.VIDEO, body, stamp=stamp, stream=1)


def audio(body: bytes, stamp: int = 0) -> bytes:
    return message(4, MessageType.AUDIO, body, stamp=stamp, stream=1)


def session(limits: Limits = LIMITS, now: float = 0.0) -> Session:
    return Session(limits=limits, now=now, entropy=ENTROPY)


def feed(
    peer: Session, pieces: Iterable[bytes], *, now: float = 0.0, allow: bool = True
) -> list[Event]:
    """Feed pieces one by one, and accept a publish command."""
    received: list[Event] = []
    for piece in pieces:
        events = peer.receive(piece, now)
        received += events
        if allow and any(isinstance(event, PublishRequested) for event in events):
            peer.allow()
    return received


def publishing(limits: Limits = LIMITS) -> Session:
    """Return a publishing session whose answers were read."""
    peer = session(limits)
    feed(peer, [opening()])
    peer.outgoing()
    assert peer.publishing
    return peer


def cut(data: bytes, places: Iterable[int]) -> Sequence[bytes]:
    """Split data at places, which may be unsorted or out of range."""
    marks = [0, *sorted({place for place in places if 0 < place < len(data)}), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(marks)]


def answers(data: bytes) -> list[Message]:
    """Parse the server's bytes after its part of the handshake.

    Messages before its chunk size fit into one chunk of either size.
    """
    messages: list[Message] = []
    announced = whole(2, MessageType.SET_CHUNK_SIZE, struct.pack(">I", LIMITS.out_chunk_bytes))
    ChunkReader(LIMITS).feed(announced + data, messages)
    return messages


def answered_commands(data: bytes) -> list[tuple[int, list[Amf]]]:
    """Return (message stream, values) of each command that the server wrote."""
    return [
        (answer.stream, amf0.decode(bytes(answer.body), LIMITS))
        for answer in answers(data)
        if answer.kind == MessageType.COMMAND
    ]


def statuses(data: bytes) -> list[tuple[int, str, str]]:
    """Return (message stream, level, code) of each onStatus that the server wrote.

    `data` may begin with the server's part of the handshake.
    """
    if data[:1] == b"\x03" and len(data) >= 3073:
        data = data[3073:]
    results: list[tuple[int, str, str]] = []
    for stream, values in answered_commands(data):
        match values:
            case ["onStatus", _, _, {"level": str(level), "code": str(code)}]:
                results.append((stream, level, code))
            case _:
                pass
    return results


MEDIA = b"".join(
    (
        video(video_config()),
        audio(audio_config()),
        video(video_body(bytes(500), key=True), 0),
        audio(audio_body(bytes(90)), 23),
        video(video_body(bytes(300), offset=66), 33),
    )
)

META = message(
    4, MessageType.DATA, amf0.encode("@setDataFrame", "onMetaData", {"width": 160.0}), stream=1
)

GOODBYE = command("FCUnpublish", 6.0, None, NAME)

BEFORE = {
    State.BEGINNING: HANDSHAKE,
    State.CONNECTED: HANDSHAKE + connect() + command("createStream", 2.0, None),
    State.PUBLISH_REQUESTED: opening(),
    State.PUBLISHING: opening(),
}
