"""The output of a session: messages in, chunks out."""

from typing import Final

from ingest.rtmp.chunks import ChunkWriter
from ingest.rtmp.messages import MessageType, UserEvent, status, user_control, word

# The chunk streams of the server.
_CONTROL: Final = 2
_COMMANDS: Final = 3
_STATUS: Final = 5


class Outbox:
    """Buffers bytes until the transport drains them."""

    def __init__(self) -> None:
        self._writer = ChunkWriter()
        self._chunks: list[bytes] = []

    def raw(self, data: bytes) -> None:
        """Add bytes without chunk headers (the handshake's)."""
        self._chunks.append(data)

    def control(self, kind: MessageType, body: bytes) -> None:
        """Add a protocol control message."""
        self._chunks.append(self._writer.write(_CONTROL, kind, body))

    def user(self, event: UserEvent, data: bytes) -> None:
        """Add a user control message."""
        self.control(MessageType.USER_CONTROL, user_control(event, data))

    def command(self, body: bytes) -> None:
        """Add a command of the connection."""
        self._chunks.append(self._writer.write(_COMMANDS, MessageType.COMMAND, body))

    def status(self, stream: int, level: str, code: str, description: str) -> None:
        """Add an onStatus command on a message stream."""
        body = status(level, code, description)
        self._chunks.append(self._writer.write(_STATUS, MessageType.COMMAND, body, stream=stream))

    def set_chunk_bytes(self, size: int) -> None:
        """Announce a chunk size and use it from then on."""
        self.control(MessageType.SET_CHUNK_SIZE, word(size))
        self._writer.chunk_bytes = size

    def drain(self) -> bytes:
        """Return the buffered bytes and empty the buffer."""
        data = b"".join(self._chunks)
        self._chunks.clear()
        return data
