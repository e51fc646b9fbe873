"""A publisher's session: bytes and the time in, events and bytes out. No socket, no clock.

The transport feeds `receive` with what it reads (64 KiB at a time is best) and calls `tick` now and
then; after either, and after `allow` or `deny`, it writes what `outgoing` returns. Times are
seconds of a clock that never goes back.

Errors: `receive` and `tick` raise `RtmpError` once, and the session is over. Events that came
before the fault are never lost: `receive` then returns them, and the next call of either raises.
The peer's last status is in `outgoing` as soon as the fault is found. A session that is over takes
bytes and ticks without a word.
"""

from typing import Final

import msgspec

from ingest.rtmp.chunks import ChunkReader, Message
from ingest.rtmp.dialogue import Dialogue, State
from ingest.rtmp.errors import LimitExceeded, RtmpError, TimedOut
from ingest.rtmp.events import Event, Metadata, PacketIn
from ingest.rtmp.flv import FlvReader, tags
from ingest.rtmp.handshake import Handshake
from ingest.rtmp.limits import Bucket, Limits
from ingest.rtmp.messages import (
    MessageType,
    UserEvent,
    metadata,
    parse_command,
    parse_user_control,
    word,
)
from ingest.rtmp.outbox import Outbox

__all__ = ["Counters", "Session"]

# What a held message costs beside its bytes: a flood of empty ones must meet the bound too.
_HELD_OVERHEAD: Final = 256
# Plain numbers: an enum's attributes are slow to look up for each packet.
_VIDEO, _AUDIO = int(MessageType.VIDEO), int(MessageType.AUDIO)
_AGGREGATE, _DATA = int(MessageType.AGGREGATE), int(MessageType.DATA)
_STREAMED: Final = frozenset({_VIDEO, _AUDIO, _AGGREGATE, _DATA, int(MessageType.DATA_AMF3)})


class Counters(msgspec.Struct):
    """What a session saw: bytes both ways, whole messages, and those that led to nothing."""

    bytes_in: int = 0
    bytes_out: int = 0
    messages: int = 0
    dropped: int = 0


class Session:
    """The server's side of one connection, for one publisher at a time."""

    def __init__(self, *, limits: Limits, now: float, entropy: bytes) -> None:
        """Begin at the accept of the connection; `entropy` is 1528 random bytes or more."""
        self.counters = Counters()
        self._limits = limits
        self._over = False
        self._failure: RtmpError | None = None
        self._handshake = Handshake(entropy)
        self._reader = ChunkReader(limits)
        self._outbox = Outbox()
        self._dialogue = Dialogue(limits, self._outbox)

        self._flv = FlvReader()
        self._metadata = b""
        self._held: list[Message] = []
        self._early = 0
        self._commands = 0

        self._now = self._heard = self._pinged = self._since = now
        self._media: float | None = None
        average = limits.media_average_seconds * limits.media_burst
        self._bits = Bucket(
            limits.media_bits_per_second, limits.media_bits_per_second * average, now
        )
        self._work = Bucket(
            limits.chunks_per_second, limits.chunks_per_second * limits.chunks_average_seconds, now
        )
        self._asks = Bucket(limits.commands_per_second, limits.commands_before_publish, now)
        self._window = limits.window_bytes
        self._acknowledged = 0

    # -- the transport's side ----------------------------------------------------------------------

    @property
    def publishing(self) -> bool:
        """Whether the peer has leave and has not said goodbye."""
        return not self._over and self._dialogue.state is State.PUBLISHING

    def receive(self, data: bytes, now: float) -> list[Event]:
        """Take bytes from the peer and return what they say.

        Raises:
            RtmpError: the peer broke the protocol or a bound; see above.
        """
        self._raise_failure()
        self.counters.bytes_in += len(data)
        if self._over:
            return []
        self._now = self._heard = now
        found: list[Event] = []
        try:
            self._read(data, found)
        except RtmpError as error:
            self._fail(error)
            if not found:
                self._failure = None
                raise
        return found

    def tick(self, now: float) -> None:
        """Let time pass: look at the deadlines, and ping.

        Raises:
            RtmpError: a deadline has passed, or `receive` found a fault behind its last events.
        """
        self._raise_failure()
        if self._over:
            return
        self._now = now
        for what, since, seconds in self._deadlines():
            if now - since >= seconds:
                error = TimedOut(what, seconds)
                self._fail(error)
                self._failure = None
                raise error
        connected = self._dialogue.state is not State.BEGINNING
        # Never while it sends: what an encoder has not read when it closes makes its kernel answer
        # with a reset, and drop a goodbye that was still on its way.
        quiet = now - max(self._pinged, self._heard)
        if connected and quiet >= self._limits.ping_seconds:
            self._pinged = now
            self._outbox.user(UserEvent.PING, word(int(now * 1000)))

    def outgoing(self) -> bytes:
        """Return what is to be written to the peer, once."""
        data = self._outbox.drain()
        self.counters.bytes_out += len(data)
        return data

    def allow(self) -> None:
        """Give the leave that `PublishAsked` asks for.

        Media that came in between comes out of the next `receive`. Nothing happens where the peer
        has taken its wish back (`Goodbye`) or the session is over.
        """
        if self._over or not self._dialogue.allow():
            return
        self._since = self._now
        self._early = self._commands = 0
        self._flv = FlvReader()
        self._metadata = b""
        self._media = None

    def deny(self, code: str, description: str) -> None:
        """Refuse the leave, say `NetStream.Publish.BadName`; then flush and close."""
        self.close_status(code, description)

    def close_status(self, code: str, description: str) -> None:
        """Take the publisher off with a status; the session is over: flush and close."""
        if not self._over and self._dialogue.busy:
            level = "status" if code.endswith(".Success") else "error"
            self._dialogue.status(level, code, description)
        self._end()

    # -- time and faults ---------------------------------------------------------------------------

    def _deadlines(self) -> list[tuple[str, float, float]]:
        """Return (what is waited for, since when, for how long) in the present state."""
        limits = self._limits
        waits = [("byte", self._heard, limits.silence_seconds)]
        if not self._handshake.done:
            waits.append(("handshake", self._since, limits.handshake_seconds))
        match self._dialogue.state:
            case State.BEGINNING | State.CONNECTED:
                waits.append(("publish", self._since, limits.publish_seconds))
            case State.PUBLISHING if self._media is None:
                waits.append(("first packet", self._since, limits.first_media_seconds))
            case State.PUBLISHING:
                last = self._since if self._media is None else self._media
                waits.append(("packet", last, limits.idle_media_seconds))
            case State.ASKED:
                pass  # we are the ones who are waited for
        return waits

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _fail(self, error: RtmpError) -> None:
        self._failure = error
        if error.code is not None:
            self._dialogue.status("error", error.code, str(error))
        self._end()

    def _end(self) -> None:
        self._over = True
        self._held.clear()
        self._reader = ChunkReader(self._limits)

    # -- bytes in ----------------------------------------------------------------------------------

    def _read(self, data: bytes, found: list[Event]) -> None:
        if not self._bits.take(8 * len(data), self._now):
            raise LimitExceeded("bits a second", self._limits.media_bits_per_second)
        if not self._handshake.done:
            answer, data = self._handshake.feed(data)
            self._outbox.raw(answer)
            if not self._handshake.done:
                return
        if self._held and self.publishing:
            held, self._held = self._held, []
            for message in held:
                self._take(message, found)
        before = self._reader.chunks
        messages: list[Message] = []
        fault: RtmpError | None = None
        try:
            self._reader.feed(data, messages)
        except RtmpError as error:
            fault = error
        self.counters.messages += len(messages)
        for message in messages:
            self._take(message, found)
        if fault is not None:
            raise fault
        self._work_on(self._reader.chunks - before)
        self._acknowledge()

    def _work_on(self, chunks: int) -> None:
        if not self._work.take(chunks, self._now):
            raise LimitExceeded("chunks a second", self._limits.chunks_per_second)

    def _acknowledge(self) -> None:
        # Half a window, so that a peer that stops at a whole one never has to.
        if self.counters.bytes_in - self._acknowledged >= self._window // 2:
            self._acknowledged = self.counters.bytes_in
            self._outbox.control(MessageType.ACKNOWLEDGEMENT, word(self._acknowledged))

    def _take(self, message: Message, found: list[Event]) -> None:
        if message.kind in _STREAMED:
            self._stream_message(message, found)
            return
        match message.kind:
            case MessageType.COMMAND | MessageType.COMMAND_AMF3:
                self._command(message, found)
            case MessageType.USER_CONTROL:
                self._user_control(bytes(message.body))
            case MessageType.WINDOW_SIZE:
                asked = int.from_bytes(message.body, "big")
                self._window = min(max(asked, 1), self._limits.window_bytes)
            case MessageType.PEER_BANDWIDTH:
                self._spend()
                self._outbox.control(MessageType.WINDOW_SIZE, word(self._limits.window_bytes))
            case MessageType.ACKNOWLEDGEMENT:
                pass  # we send too little for a window of it to matter
            case _:
                self.counters.dropped += 1

    def _user_control(self, body: bytes) -> None:
        said = parse_user_control(body)
        if said.event == UserEvent.PING:
            self._spend()
            self._outbox.user(UserEvent.PONG, said.data[:4])

    # -- media -------------------------------------------------------------------------------------

    def _stream_message(self, message: Message, found: list[Event]) -> None:
        """Read media and metadata with leave; hold them while it is asked for; else drop them."""
        if self.publishing:
            if not self._media_message(message, found):
                self.counters.dropped += 1
            return
        self._early += len(message.body) + _HELD_OVERHEAD
        if self._early > self._limits.early_media_bytes:
            raise LimitExceeded("bytes before leave to publish", self._limits.early_media_bytes)
        if self._dialogue.state is State.ASKED:
            body = memoryview(bytes(message.body))
            self._held.append(msgspec.structs.replace(message, body=body))
        else:
            self.counters.dropped += 1

    def _media_message(self, message: Message, found: list[Event]) -> bool:
        kind, stamp, body = message.kind, message.timestamp, message.body
        if kind == _VIDEO:
            used = self._flv.video(stamp, body, found)
        elif kind == _AUDIO:
            used = self._flv.audio(stamp, body, found)
        elif kind == _AGGREGATE:
            used = False
            for count, (part, time, data) in enumerate(tags(stamp, body)):
                if count >= self._limits.aggregate_messages:
                    most = self._limits.aggregate_messages
                    raise LimitExceeded("messages in an aggregate", most)
                self._work_on(1)  # each is the work that a chunk is
                if part in (_VIDEO, _AUDIO, _DATA):
                    inner = Message(part, time, message.stream, data)
                    used = self._media_message(inner, found) or used
        else:
            return self._data(kind, bytes(body), found)
        if found and isinstance(found[-1], PacketIn):
            self._media = self._now
        return used

    def _data(self, kind: int, body: bytes, found: list[Event]) -> bool:
        # GStreamer sends the same metadata five times a second.
        if body == self._metadata:
            return True
        if not self._asks.take(1, self._now):
            return False
        values = metadata(kind, body, self._limits)
        if values is None:
            return False
        self._metadata = body
        found.append(Metadata(values))
        return True

    # -- commands ----------------------------------------------------------------------------------

    def _command(self, message: Message, found: list[Event]) -> None:
        self._spend()
        was_busy = self._dialogue.busy
        said = parse_command(message.kind, bytes(message.body), self._limits)
        if not self._dialogue.take(said, message.stream, found):
            self.counters.dropped += 1
        if was_busy and not self._dialogue.busy:
            self._since = self._now
            self._held.clear()

    def _spend(self) -> None:
        """Count what asks for an answer."""
        limits = self._limits
        self._commands += 1
        if self.publishing:
            if not self._asks.take(1, self._now):
                raise LimitExceeded("commands a second", limits.commands_per_second)
        elif self._commands > limits.commands_before_publish:
            raise LimitExceeded("commands before publish", limits.commands_before_publish)
