"""Chunk streams: reads interleaved chunks into messages, and cuts messages into chunks.

Reading is one pass: a run of chunks of one message is copied out of the buffer in a few calls into
C, whatever the chunk size (128 bytes with librtmp, 4096 with OBS, 65536 with ffmpeg). A message's
body is copied once, and not at all if a single chunk within one read holds it.
SetChunkSize and Abort are handled here; messages of all other types are returned.
Timestamps are the wire's 32-bit milliseconds: see `clock`.
Source: RTMP 1.0, 5.3 (chunking) and 5.4 (protocol control messages 1 and 2).
"""

import struct
from typing import Final

import msgspec

from ingest.rtmp.errors import ChunkError, LimitExceeded, MessageError
from ingest.rtmp.limits import MAX_CHUNK_BYTES, Limits
from ingest.rtmp.messages import MessageType

_U32: Final = struct.Struct(">I")
_STREAM: Final = struct.Struct("<I")  # of all fields, the only one with the low byte first
_FIELDS: Final = struct.Struct(">IHB")  # time (24 bits), length (24), type
_MASK: Final = 0xFFFF_FFFF
# The 24-bit field for a timestamp that follows in four bytes (5.3.1.3).
_EXTENDED: Final = 0xFF_FFFF
_DEFAULT_CHUNK_BYTES: Final = 128
_CONTINUES: Final = 0xC0
# Chunks read at once; bounds the look-ahead that a peer with tiny interleaved chunks can cause.
_RUN: Final = 256
_HEADER_BYTES: Final = (11, 7, 3)

# Plain integers: enum attributes are slow to look up in a loop.
_ABORT: Final = int(MessageType.ABORT)
_MEDIA: Final = (MessageType.AUDIO, MessageType.VIDEO, MessageType.AGGREGATE)
# Least and most bytes; a user control message has an event (2) and up to two words.
_CONTROL_BYTES: Final[dict[int, tuple[int, int]]] = {
    MessageType.SET_CHUNK_SIZE: (4, 4),
    MessageType.ABORT: (4, 4),
    MessageType.ACKNOWLEDGEMENT: (4, 4),
    MessageType.USER_CONTROL: (2, 10),
    MessageType.WINDOW_SIZE: (4, 4),
    MessageType.PEER_BANDWIDTH: (5, 5),
}


class Message(msgspec.Struct, frozen=True, gc=False):
    """A complete message: `kind` is its type id, `timestamp` the wire's, `stream` its stream id.

    `body` may be a view of the buffer that was fed: keep `bytes(body)`, not `body`.
    """

    kind: int
    timestamp: int
    stream: int
    body: memoryview


class _ChunkStream:
    """The header fields that later chunks inherit, and the message that is being assembled."""

    __slots__ = ("body", "delta", "extended", "kind", "length", "missing", "stream", "timestamp")

    def __init__(self) -> None:
        self.timestamp = 0
        self.delta = 0
        self.extended: int | None = None  # of the last header, if it had one
        self.length = 0
        self.kind = 0
        self.stream = 0
        self.missing = 0  # bytes of the current message; 0: there is none
        self.body: bytearray | None = None


class ChunkReader:
    """Turns bytes into messages; unfinished ones are bounded by `limits`."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._other_lengths = (0, limits.other_message_bytes)
        media = (0, limits.media_message_bytes)
        self._lengths = {**_CONTROL_BYTES, **dict.fromkeys(map(int, _MEDIA), media)}
        self._streams: dict[int, _ChunkStream] = {}
        self._chunk_bytes = _DEFAULT_CHUNK_BYTES
        self._partial_header = b""  # a header that a read split: at most 18 bytes
        self._stream_number = 0  # the present chunk stream
        self._open: _ChunkStream | None = None  # set within a chunk's payload
        self._chunk_left = 0
        self._unfinished = 0
        self.chunks = 0

    @property
    def is_mid_message(self) -> bool:
        """True while a message has arrived in part."""
        return self._unfinished > 0

    def feed(self, data: bytes | memoryview, messages: list[Message]) -> None:
        """Append each message that `data` completes to `messages`.

        Raises:
            RtmpError: the bytes are no chunk stream, or exceed a limit; messages completed before
                are in `messages`, and nothing may be fed any more.
        """
        if self._partial_header:
            data = self._partial_header + data
            self._partial_header = b""
        view = memoryview(data)
        at, end = 0, len(data)
        while at < end:
            chunk_stream = self._open
            if chunk_stream is None:
                head = self._read_header(data, at)
                if not head:
                    self._partial_header = bytes(view[at:])
                    return
                at = head
                self.chunks += 1
                chunk_stream = self._streams[self._stream_number]
                missing = chunk_stream.missing
                if missing <= self._chunk_bytes and missing <= end - at and not chunk_stream.body:
                    chunk_stream.missing = 0  # usually: all of a message, in one chunk of one read
                    self._complete(chunk_stream, view[at : at + missing], messages)
                    at += missing
                    continue
                if missing > self._chunk_bytes:
                    at = self._read_run(view, at, chunk_stream)
                self._chunk_left = min(self._chunk_bytes, chunk_stream.missing)
            at = self._read_payload(view, at, chunk_stream, messages)

    # -- payloads ----------------------------------------------------------------------------------

    def _read_run(self, view: memoryview, at: int, chunk_stream: _ChunkStream) -> int:
        """Read the chunks that continue the message without interleaving; end at a payload."""
        if self._stream_number > 63 or chunk_stream.extended is not None:
            return at  # their headers are longer than one byte
        size = self._chunk_bytes
        stride = size + 1
        head = bytes((_CONTINUES | self._stream_number,))
        while chunk_stream.missing > size:
            # The offsets of the headers of the next chunks, if nothing interleaves.
            whole = min(_RUN, (chunk_stream.missing - 1) // size, (len(view) - at) // stride)
            heads = bytes(view[at + size : at + whole * stride : stride])
            count = len(heads) - len(heads.lstrip(head))
            if not count:
                break
            block = bytearray(view[at : at + count * stride])
            del block[size::stride]
            self._append(chunk_stream, block)
            self.chunks += count
            at += count * stride
        return at

    def _read_payload(
        self, view: memoryview, at: int, chunk_stream: _ChunkStream, messages: list[Message]
    ) -> int:
        """Read the rest of a chunk, or as much of it as has arrived."""
        stop = at + self._chunk_left
        if stop > len(view):
            self._append(chunk_stream, view[at:])
            self._chunk_left = stop - len(view)
            self._open = chunk_stream
            return len(view)
        self._open = None
        self._append(chunk_stream, view[at:stop])
        body = chunk_stream.body
        if not chunk_stream.missing and body is not None:
            self._unfinished -= len(body)
            chunk_stream.body = None
            self._complete(chunk_stream, memoryview(body), messages)
        return stop

    def _append(self, chunk_stream: _ChunkStream, part: memoryview | bytearray) -> None:
        size = len(part)
        chunk_stream.missing -= size
        self._unfinished += size
        if self._unfinished > self._limits.unfinished_bytes:
            raise LimitExceeded("bytes in unfinished messages", self._limits.unfinished_bytes)
        if chunk_stream.body is None:
            chunk_stream.body = part if isinstance(part, bytearray) else bytearray(part)
        else:
            chunk_stream.body += part

    def _complete(
        self, chunk_stream: _ChunkStream, body: memoryview, messages: list[Message]
    ) -> None:
        kind = chunk_stream.kind
        if kind > _ABORT or not kind:
            messages.append(Message(kind, chunk_stream.timestamp, chunk_stream.stream, body))
        elif kind == _ABORT:
            self._abort(*_U32.unpack(body))
        else:
            (size,) = _U32.unpack(body)
            if not 0 < size < 1 << 31:
                raise ChunkError(self._stream_number, f"chunk size {size}")
            self._chunk_bytes = min(size, MAX_CHUNK_BYTES)

    def _abort(self, number: int) -> None:
        chunk_stream = self._streams.get(number)
        if chunk_stream is not None:
            self._unfinished -= len(chunk_stream.body or b"")
            chunk_stream.body = None
            chunk_stream.missing = 0

    # -- headers -----------------------------------------------------------------------------------

    def _read_header(self, data: bytes | memoryview, at: int) -> int:
        """Read a chunk's header and begin or continue its message.

        Returns:
            The offset of its payload, or 0 if the header is incomplete.
        """
        form, number = data[at] >> 6, data[at] & 63
        end = len(data)
        at += 1
        if number < 2:
            # One more byte, or two with the lower one first (5.3.1.1).
            more = number + 1
            if at + more > end:
                return 0
            number = 64 + int.from_bytes(data[at : at + more], "little")
            at += more
        if form == 3:
            return self._continue_stream(data, at, number)
        return self._read_fields(data, at, form, number)

    def _read_fields(self, data: bytes | memoryview, at: int, form: int, number: int) -> int:
        """Read what follows a header of format 0, 1 or 2, and begin its message."""
        end, fields = len(data), at
        at += _HEADER_BYTES[form]
        if at > end:
            return 0
        if form == 2:
            stamp, length, kind = int.from_bytes(data[fields:at], "big"), 0, 0
        else:
            first, low, kind = _FIELDS.unpack_from(data, fields)
            stamp, length = first >> 8, (first & 0xFF) << 16 | low
        extended = stamp == _EXTENDED
        if extended:
            at += 4
            if at > end:
                return 0
            (stamp,) = _U32.unpack_from(data, at - 4)
        chunk_stream = self._streams.get(number) or self._new_stream(number, form)
        if chunk_stream.missing:
            raise ChunkError(number, "a message begins inside another")
        chunk_stream.extended = stamp if extended else None
        if form == 0:
            # A full header sets the delta to 0, not to the timestamp as 5.3.1.2.4 says: encoders
            # that send such chunks mean "at the same time", and a doubled timestamp is a jump.
            chunk_stream.timestamp, chunk_stream.delta = stamp, 0
            (chunk_stream.stream,) = _STREAM.unpack_from(data, fields + 7)
        else:
            chunk_stream.delta = stamp
            chunk_stream.timestamp = (chunk_stream.timestamp + stamp) & _MASK
        if form < 2:
            chunk_stream.length, chunk_stream.kind = length, kind
            least, most = self._lengths.get(kind, self._other_lengths)
            if not least <= length <= most:
                raise _wrong_length(kind, length, most)
        chunk_stream.missing = chunk_stream.length
        self._stream_number = number
        return at

    def _continue_stream(self, data: bytes | memoryview, at: int, number: int) -> int:
        """Read what follows a header of format 3: perhaps a repeated extended timestamp.

        The standard requires it; librtmp in OBS omitted it until 2024. So the four bytes are
        compared: they are skipped if they equal the timestamp, else they are payload.
        """
        chunk_stream = self._streams.get(number)
        if chunk_stream is None:
            raise ChunkError(number, "begins with a chunk that has no header")
        if chunk_stream.extended is not None:
            candidate = bytes(data[at : at + 4])
            stamps = (_U32.pack(chunk_stream.extended), _U32.pack(chunk_stream.timestamp))
            if candidate in stamps:
                at += 4
            elif len(candidate) < 4 and any(stamp.startswith(candidate) for stamp in stamps):
                return 0
        if not chunk_stream.missing:
            chunk_stream.timestamp = (chunk_stream.timestamp + chunk_stream.delta) & _MASK
            chunk_stream.missing = chunk_stream.length
        self._stream_number = number
        return at

    def _new_stream(self, number: int, form: int) -> _ChunkStream:
        # Format 1 without format 0 before it occurs: librtmp's pings, some encoders' first message.
        if form == 2:
            raise ChunkError(number, "begins with a chunk that has no length")
        if len(self._streams) >= self._limits.chunk_streams:
            raise LimitExceeded("chunk streams", self._limits.chunk_streams)
        chunk_stream = self._streams[number] = _ChunkStream()
        return chunk_stream


def _wrong_length(kind: int, length: int, most: int) -> MessageError | LimitExceeded:
    if kind in _CONTROL_BYTES:
        return MessageError(kind, f"{length} bytes")
    return LimitExceeded(f"bytes in a message of type {kind}", most)


class ChunkWriter:
    """Cuts messages into chunks with full headers only, independent of earlier messages.

    GStreamer's rtmp2sink hangs on a short header on a new chunk stream.
    """

    def __init__(self) -> None:
        self.chunk_bytes = _DEFAULT_CHUNK_BYTES

    def write(
        self, number: int, kind: int, body: bytes, *, stream: int = 0, timestamp: int = 0
    ) -> bytes:
        """Return a message of type `kind` in chunks of chunk stream `number` (2 to 63)."""
        stamp = min(timestamp, _EXTENDED)
        extension = _U32.pack(timestamp) if stamp == _EXTENDED else b""
        header = stamp.to_bytes(3, "big") + len(body).to_bytes(3, "big") + bytes((kind,))
        size = self.chunk_bytes
        parts = [bytes((number,)), header, stream.to_bytes(4, "little"), extension, body[:size]]
        for start in range(size, len(body), size):
            parts += (bytes((_CONTINUES | number,)), extension, body[start : start + size])
        return b"".join(parts)
