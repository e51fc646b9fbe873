"""A publisher's session: bytes and the time in, events and bytes out. No socket, no clock.

The transport feeds `receive` with what it reads (64 KiB at a time is best) and calls `tick`
regularly; after either, and after `allow` or `close_status`, it writes what `outgoing` returns.
Times are seconds of a monotonic clock.

Errors: `receive` and `tick` raise `RtmpError` once, and the session is over. Events before the
error are never lost: `receive` returns them, and the next call of either raises. The peer's last
status is in `outgoing` as soon as the error is detected. A session that is over ignores bytes and
ticks.
"""

from typing import Final

import msgspec

from ingest.rtmp.chunks import ChunkReader, Message
from ingest.rtmp.dialogue import RtmpDialogue, State
from ingest.rtmp.errors import LimitExceeded, RtmpError, TimedOut
from ingest.rtmp.events import Event, MediaUnusable, PictureAnnounced
from ingest.rtmp.flv import FlvReader, split_aggregate
from ingest.rtmp.handshake import Handshake
from ingest.rtmp.limits import Limits, TokenBucket
from ingest.rtmp.messages import (
    MessageType,
    UserEvent,
    parse_command,
    parse_user_control,
    word,
)
from ingest.rtmp.metadata import announces_picture
from ingest.rtmp.outbox import Outbox
from media.loop_lag import LoopLag
from media.packet import MediaPacket

# The cost of a held message beside its bytes, so that a flood of empty ones is limited too.
_HELD_OVERHEAD: Final = 256
# Plain integers: enum attributes are slow to look up for each packet.
_VIDEO, _AUDIO = int(MessageType.VIDEO), int(MessageType.AUDIO)
_AGGREGATE, _DATA = int(MessageType.AGGREGATE), int(MessageType.DATA)
_BURST_SECONDS: Final = 10.0  # of messages
# How many data messages are read for a publish: encoders announce their media in the first ones.
_MOST_METADATA: Final = 16
_STREAMED: Final = frozenset({_VIDEO, _AUDIO, _AGGREGATE, _DATA, int(MessageType.DATA_AMF3)})


class Counters(msgspec.Struct):
    """Counts of a session: bytes both ways, complete messages, and ignored ones."""

    bytes_in: int = 0
    bytes_out: int = 0
    messages: int = 0
    dropped: int = 0


class Session:
    """The server side of one connection, for one publisher at a time."""

    def __init__(
        self, *, limits: Limits, now: float, entropy: bytes, lag: LoopLag | None = None
    ) -> None:
        """Begin a session at the accept; `entropy` is `ENTROPY_BYTES` random bytes or more.

        `lag` is that of the loop that reads the peer, which extends the peer's deadlines.
        """
        self.counters = Counters()
        self._limits = limits
        self._lag = LoopLag() if lag is None else lag
        self._over = False
        self._failure: RtmpError | None = None
        self._handshake = Handshake(entropy)
        self._reader = ChunkReader(limits)
        self._outbox = Outbox()
        self._dialogue = RtmpDialogue(limits, self._outbox)

        self._flv = FlvReader()
        self._metadata_left = 0  # of data messages to be read
        self._held_messages: list[Message] = []
        self._early_bytes = 0
        self._commands = 0  # since the accept or the last permission to publish

        self._now = self._last_received = self._last_ping = self._state_since = now
        self._last_media: float | None = None
        average = limits.media_average_seconds * limits.media_burst
        self._bit_budget = TokenBucket(
            limits.media_bits_per_second, limits.media_bits_per_second * average, now
        )
        self._chunk_budget = TokenBucket(
            limits.chunks_per_second, limits.chunks_per_second * limits.chunks_average_seconds, now
        )
        self._message_budget = TokenBucket(
            limits.messages_per_second, limits.messages_per_second * _BURST_SECONDS, now
        )
        self._command_budget = TokenBucket(
            limits.commands_per_second, limits.commands_before_publish, now
        )
        self._window = limits.window_bytes
        self._acknowledged = 0

    # -- the transport's side ----------------------------------------------------------------------

    @property
    def publishing(self) -> bool:
        """True while the peer is allowed to publish and has not ended its stream."""
        return not self._over and self._dialogue.state is State.PUBLISHING

    @property
    def is_mid_message(self) -> bool:
        """True while a message of the peer has arrived in part."""
        return self._reader.is_mid_message

    def receive(self, data: bytes | memoryview, now: float) -> list[Event]:
        """Process bytes from the peer and return their events.

        Raises:
            RtmpError: the peer broke the protocol or exceeded a limit; see the module.
        """
        self._raise_failure()
        self.counters.bytes_in += len(data)
        if self._over:
            return []
        self._now = self._last_received = now
        events: list[Event] = []
        try:
            self._read(data, events)
        except RtmpError as error:
            self._fail(error)
            if not events:
                self._failure = None
                raise
        return events

    def tick(self, now: float) -> None:
        """Check the deadlines, and ping.

        Raises:
            RtmpError: a deadline has passed, or the last `receive` deferred an error.
        """
        self._raise_failure()
        if self._over:
            return
        self._now = now
        for awaited, since, seconds in self._deadlines():
            if self._lag.elapsed(since, now) >= seconds:
                error = TimedOut(awaited, seconds)
                self._fail(error)
                self._failure = None
                raise error
        connected = self._dialogue.state is not State.BEGINNING
        # Never while it sends: if an encoder closes with unread input, its kernel sends a reset and
        # drops a goodbye that was still queued.
        quiet = now - max(self._last_ping, self._last_received)
        if connected and quiet >= self._limits.ping_seconds:
            self._last_ping = now
            self._outbox.user(UserEvent.PING, word(int(now * 1000)))

    def outgoing(self) -> bytes:
        """Return what to write to the peer, once."""
        data = self._outbox.drain()
        self.counters.bytes_out += len(data)
        return data

    def allow(self) -> None:
        """Grant a `PublishRequested`.

        Media that arrived meanwhile is returned by the next `receive`. Nothing happens if the peer
        has withdrawn its request (`Goodbye`) or the session is over.
        """
        if self._over or not self._dialogue.allow():
            return
        self._state_since = self._now
        self._early_bytes = self._commands = 0
        self._flv = FlvReader()
        self._metadata_left = _MOST_METADATA
        self._last_media = None

    def close_status(self, code: str, description: str) -> None:
        """End the session with a status, also in answer to a request; then flush and close."""
        if not self._over and self._dialogue.is_active:
            level = "status" if code.endswith(".Success") else "error"
            self._dialogue.status(level, code, description)
        self._end()

    # -- time and faults ---------------------------------------------------------------------------

    def _deadlines(self) -> list[tuple[str, float, float]]:
        """Return (what is awaited, since when, for how long) in the present state."""
        limits = self._limits
        waits = [("byte", self._last_received, limits.silence_seconds)]
        if not self._handshake.done:
            waits.append(("handshake", self._state_since, limits.handshake_seconds))
        match self._dialogue.state:
            case State.BEGINNING | State.CONNECTED:
                waits.append(("publish", self._state_since, limits.publish_seconds))
            case State.PUBLISHING if self._last_media is None:
                waits.append(("first packet", self._state_since, limits.first_media_seconds))
            case State.PUBLISHING:
                last = self._state_since if self._last_media is None else self._last_media
                waits.append(("packet", last, limits.idle_media_seconds))
            case State.PUBLISH_REQUESTED:
                pass  # the peer waits for us
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
        self._held_messages.clear()
        self._reader = ChunkReader(self._limits)

    # -- bytes in ----------------------------------------------------------------------------------

    def _read(self, data: bytes | memoryview, events: list[Event]) -> None:
        if not self._bit_budget.spend(8 * len(data), self._now):
            raise LimitExceeded("bits a second", self._limits.media_bits_per_second)
        if not self._handshake.done:
            answer, data = self._handshake.feed(data)
            self._outbox.raw(answer)
            if not self._handshake.done:
                return
        if self._held_messages and self.publishing:
            held_messages, self._held_messages = self._held_messages, []
            for message in held_messages:
                self._handle_message(message, events)
        before = self._reader.chunks
        messages: list[Message] = []
        fault: RtmpError | None = None
        try:
            self._reader.feed(data, messages)
        except RtmpError as error:
            fault = error
        self.counters.messages += len(messages)
        self._spend_messages(len(messages))
        for message in messages:
            self._handle_message(message, events)
        # An encoder whose media cannot be used would come back with the same at once.
        if any(isinstance(event, (MediaPacket, MediaUnusable)) for event in reversed(events)):
            self._last_media = self._now
        if fault is not None:
            raise fault
        self._spend_chunks(self._reader.chunks - before)
        self._acknowledge()

    def _spend_chunks(self, chunks: int) -> None:
        if not self._chunk_budget.spend(chunks, self._now):
            raise LimitExceeded("chunks a second", self._limits.chunks_per_second)

    def _spend_messages(self, count: int) -> None:
        if not self._message_budget.spend(count, self._now):
            raise LimitExceeded("messages a second", self._limits.messages_per_second)

    def _acknowledge(self) -> None:
        # At half a window, so that a peer that stops after a full one never has to.
        if self.counters.bytes_in - self._acknowledged >= self._window // 2:
            self._acknowledged = self.counters.bytes_in
            self._outbox.control(MessageType.ACKNOWLEDGEMENT, word(self._acknowledged))

    def _handle_message(self, message: Message, events: list[Event]) -> None:
        if message.kind in _STREAMED:
            if not self.publishing:
                self._hold(message)
            elif not self._media_message(message, events):
                self.counters.dropped += 1
            return
        match message.kind:
            case MessageType.COMMAND | MessageType.COMMAND_AMF3:
                self._command(message, events)
            case MessageType.USER_CONTROL:
                self._user_control(bytes(message.body))
            case MessageType.WINDOW_SIZE:
                requested = int.from_bytes(message.body, "big")
                self._window = min(max(requested, 1), self._limits.window_bytes)
            case MessageType.PEER_BANDWIDTH:
                self._count_command()
                self._outbox.control(MessageType.WINDOW_SIZE, word(self._limits.window_bytes))
            case MessageType.ACKNOWLEDGEMENT:
                pass  # we send too little for a window to matter
            case _:
                self.counters.dropped += 1

    def _user_control(self, body: bytes) -> None:
        control = parse_user_control(body)
        if control.event == UserEvent.PING:
            self._count_command()
            self._outbox.user(UserEvent.PONG, control.data[:4])

    # -- media -------------------------------------------------------------------------------------

    def _hold(self, message: Message) -> None:
        """Hold media while a publish request is pending, else drop them."""
        self._early_bytes += len(message.body) + _HELD_OVERHEAD
        if self._early_bytes > self._limits.early_media_bytes:
            most = self._limits.early_media_bytes
            raise LimitExceeded("bytes before permission to publish", most)
        if self._dialogue.state is State.PUBLISH_REQUESTED:
            body = memoryview(bytes(message.body))
            self._held_messages.append(msgspec.structs.replace(message, body=body))
        else:
            self.counters.dropped += 1

    def _media_message(self, message: Message, events: list[Event]) -> bool:
        kind, stamp, body = message.kind, message.timestamp, message.body
        if kind == _VIDEO:
            used = self._flv.read_video(stamp, body, events)
        elif kind == _AUDIO:
            used = self._flv.read_audio(stamp, body, events)
        elif kind == _AGGREGATE:
            used = False
            for count, (part, time, data) in enumerate(split_aggregate(stamp, body)):
                if count >= self._limits.aggregate_messages:
                    most = self._limits.aggregate_messages
                    raise LimitExceeded("messages in an aggregate", most)
                self._spend_chunks(1)  # each costs as much as a chunk
                self._spend_messages(1)
                if part in (_VIDEO, _AUDIO, _DATA):
                    inner = Message(part, time, message.stream, data)
                    used = self._media_message(inner, events) or used
        else:
            self._read_data(kind, bytes(body), events)
            return True
        return used

    def _read_data(self, kind: int, body: bytes, events: list[Event]) -> None:
        """Read whether a picture will come; the media's own configurations tell all else."""
        if self._metadata_left > 0:
            self._metadata_left -= 1
            if announces_picture(kind, body, self._limits):
                self._metadata_left = 0
                events.append(PictureAnnounced())

    # -- commands ----------------------------------------------------------------------------------

    def _command(self, message: Message, events: list[Event]) -> None:
        self._count_command()
        was_busy = self._dialogue.is_active
        request = parse_command(message.kind, bytes(message.body), self._limits)
        if not self._dialogue.handle(request, message.stream, events):
            self.counters.dropped += 1
        if was_busy and not self._dialogue.is_active:
            self._state_since = self._now
            self._held_messages.clear()

    def _count_command(self) -> None:
        """Count a message that needs an answer, up to the limit."""
        limits = self._limits
        if self.publishing:
            if not self._command_budget.spend(1, self._now):
                raise LimitExceeded("commands a second", limits.commands_per_second)
            return
        self._commands += 1
        if self._commands > limits.commands_before_publish:
            raise LimitExceeded("commands before publish", limits.commands_before_publish)
