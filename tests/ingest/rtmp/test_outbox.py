from ingest.rtmp.chunks import ChunkReader, Message
from ingest.rtmp.limits import Limits
from ingest.rtmp.messages import MessageType, UserEvent, command, word
from ingest.rtmp.outbox import Outbox


def read(data: bytes) -> list[tuple[int, int, bytes]]:
    """Return type, message stream and body of each message."""
    messages: list[Message] = []
    ChunkReader(Limits()).feed(data, messages)
    return [(each.kind, each.stream, bytes(each.body)) for each in messages]


def test_messages_leave_in_order_and_once() -> None:
    outbox = Outbox()
    outbox.control(MessageType.WINDOW_SIZE, word(2_500_000))
    outbox.user(UserEvent.PING, word(7))
    outbox.command(command("_result", 1.0, None))
    outbox.status(3, "status", "NetStream.Publish.Start", "publishing")
    messages = read(outbox.drain())
    assert [(kind, stream) for kind, stream, _ in messages] == [
        (MessageType.WINDOW_SIZE, 0),
        (MessageType.USER_CONTROL, 0),
        (MessageType.COMMAND, 0),
        (MessageType.COMMAND, 3),
    ]
    assert messages[1][2] == b"\x00\x06\x00\x00\x00\x07"
    assert b"NetStream.Publish.Start" in messages[3][2]
    assert outbox.drain() == b""


def test_raw_bytes_have_no_chunk_header() -> None:
    outbox = Outbox()
    outbox.raw(b"\x03abc")
    assert outbox.drain() == b"\x03abc"


def test_an_announced_chunk_size_holds_from_then_on() -> None:
    body = command("_result", 1.0, "x" * 300)
    outbox = Outbox()
    outbox.command(body)
    outbox.set_chunk_bytes(4096)
    outbox.command(body)
    data = outbox.drain()
    assert [kind for kind, _, _ in read(data)] == [MessageType.COMMAND] * 2
    assert body in data, "the second is one chunk"
    assert data.count(body) == 1, "the first is cut into chunks of 128 bytes"
