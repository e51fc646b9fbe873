"""The command dialogue: a publisher's state, the commands allowed in it, and their answers.

A known command that is not in `NEXT` for the present state breaks the protocol; an unknown one is
ignored. Deleting a message stream that is not the published one changes no state.
Sources: RTMP 1.0, 7.2.1 (connect, createStream) and 7.2.2 (publish, deleteStream); Enhanced RTMP
v2, "Enhancing NetConnection connect Command"; releaseStream, FCPublish and FCUnpublish come
from Flash Media Live Encoder and are common since.
"""

from enum import Enum
from typing import Final

from ingest.rtmp.address import address_of
from ingest.rtmp.amf import Amf
from ingest.rtmp.codecs import AUDIO_FOURCCS, VIDEO_FOURCCS
from ingest.rtmp.errors import LimitExceeded, OutOfOrder, PlayRefused
from ingest.rtmp.events import Connected, Event, Goodbye, PublishRequested
from ingest.rtmp.limits import Limits
from ingest.rtmp.messages import (
    CommandMessage,
    MessageType,
    UserEvent,
    command,
    peer_bandwidth,
    word,
)
from ingest.rtmp.outbox import Outbox

_AGENT_LENGTH: Final = 64

# Flags of Enhanced RTMP. One of several tracks is read, and modifiers are parsed without being
# applied: the specification counts both as support.
_CAN_DECODE: Final = 0x01  # FourCcInfoMask
_MULTITRACK, _MODIFIERS = 0x02, 0x04  # CapsExMask; not 0x01: no reconnect requests are sent


class State(Enum):
    """The dialogue's state; the value is used in messages."""

    BEGINNING = "nothing is connected"
    CONNECTED = "nothing is published"
    PUBLISH_REQUESTED = "a publish request is pending"
    PUBLISHING = "publishing"


_B, _C, _A, _P = State.BEGINNING, State.CONNECTED, State.PUBLISH_REQUESTED, State.PUBLISHING

NEXT: Final[dict[tuple[State, str], State]] = {
    (_B, "connect"): _C,
    # OBS stops and starts again on the same connection, so these lead back to CONNECTED.
    (_C, "releaseStream"): _C,
    (_C, "FCPublish"): _C,
    (_C, "createStream"): _C,
    (_C, "publish"): _A,
    (_C, "FCUnpublish"): _C,
    (_C, "closeStream"): _C,
    (_C, "deleteStream"): _C,
    # Some encoders do not wait for answers.
    (_A, "releaseStream"): _A,
    (_A, "FCPublish"): _A,
    (_A, "createStream"): _A,
    (_A, "FCUnpublish"): _C,
    (_A, "closeStream"): _C,
    (_A, "deleteStream"): _C,
    (_P, "releaseStream"): _P,
    (_P, "FCPublish"): _P,
    (_P, "createStream"): _P,
    (_P, "FCUnpublish"): _C,
    (_P, "closeStream"): _C,
    (_P, "deleteStream"): _C,
}
_KNOWN: Final = frozenset(name for _, name in NEXT)

# Commands of players, refused with a status in any state.
_PLAYING: Final = frozenset({"play", "play2", "seek", "pause", "receiveAudio", "receiveVideo"})


class RtmpDialogue:
    """The command dialogue of one connection."""

    def __init__(self, limits: Limits, outbox: Outbox) -> None:
        self.state = State.BEGINNING
        self._limits = limits
        self._outbox = outbox
        self._app = ""
        self._tc_url = ""
        self._created: set[int] = set()
        self._target = 0  # the message stream of the publish request; 0: none
        self._last_stream = 0  # the message stream of the last command
        self._withdrawn = False  # a request was withdrawn before it was answered

    @property
    def is_active(self) -> bool:
        """True while a publish request is pending or granted."""
        return self.state in (State.PUBLISH_REQUESTED, State.PUBLISHING)

    def allow(self) -> bool:
        """Grant the pending publish request; return False if there is none any more."""
        self._withdrawn = False
        if self.state is not State.PUBLISH_REQUESTED:
            return False
        self.state = State.PUBLISHING
        self._outbox.user(UserEvent.STREAM_BEGIN, word(self._target))
        self.status("status", "NetStream.Publish.Start", "publishing")
        return True

    def status(self, level: str, code: str, description: str) -> None:
        """Send an onStatus on the publish request's message stream, or on the last one used."""
        self._outbox.status(self._target or self._last_stream, level, code, description)

    def handle(self, request: CommandMessage, stream: int, events: list[Event]) -> bool:
        """Handle a command on message stream `stream`; return False if it is unknown.

        Raises:
            RtmpError: it is not allowed in this state, is refused, or exceeds a limit.
        """
        self._last_stream = stream
        if self.state is State.BEGINNING and request.name != "connect":
            raise OutOfOrder("a command", self.state.value)
        if request.name in _PLAYING:
            raise PlayRefused
        if request.name not in _KNOWN:
            return False
        following = NEXT.get((self.state, request.name))
        if following is None:
            raise OutOfOrder(request.name, self.state.value)
        if self._answer(request, events):
            self.state = following
        return True

    def _answer(self, request: CommandMessage, events: list[Event]) -> bool:
        """Answer a command; return whether it changes the state."""
        match request.name:
            case "connect":
                events.append(self._connect(request))
            case "createStream":
                self._create_stream(request)
            case "publish":
                events.append(self._publish(request))
            case "releaseStream":
                self._acknowledge(request)
            case "FCPublish":
                self._acknowledge(request)
                self._outbox.command(_notice("onFCPublish", "NetStream.Publish.Start"))
            case _:
                return self._unpublish(request, events)
        return True

    def _connect(self, request: CommandMessage) -> Connected:
        limits, outbox = self._limits, self._outbox
        self._app = _text(request.object.get("app"))
        self._tc_url = _text(request.object.get("tcUrl"))
        if max(len(self._app), len(self._tc_url)) > limits.address_bytes:
            raise LimitExceeded("bytes in an address", limits.address_bytes)
        outbox.control(MessageType.WINDOW_SIZE, word(limits.window_bytes))
        outbox.control(MessageType.PEER_BANDWIDTH, peer_bandwidth(limits.window_bytes))
        outbox.user(UserEvent.STREAM_BEGIN, word(0))
        outbox.set_chunk_bytes(limits.out_chunk_bytes)
        outbox.command(connect_result(request.transaction))
        agent = _text(request.object.get("flashVer"))[:_AGENT_LENGTH]
        return Connected(agent="".join(c if c.isprintable() else "?" for c in agent))

    def _create_stream(self, request: CommandMessage) -> None:
        limit = self._limits.message_streams
        free = [number for number in range(1, limit + 1) if number not in self._created]
        if not free:
            raise LimitExceeded("message streams", limit)
        self._created.add(free[0])
        self._outbox.command(command("_result", request.transaction, None, float(free[0])))

    def _publish(self, request: CommandMessage) -> PublishRequested:
        if self._last_stream not in self._created:
            raise OutOfOrder("publish", "its message stream is not created")
        if self._withdrawn:
            # The pending answer is for the first request: it must not grant another one.
            raise OutOfOrder("publish", "an earlier one is being looked up")
        requested = address_of(self._app, self._tc_url, _text(request.argument), self._limits)
        self._target = self._last_stream
        return requested

    def _acknowledge(self, request: CommandMessage) -> None:
        # GStreamer's rtmp2sink sends 0: it expects no answer.
        if request.transaction:
            self._outbox.command(command("_result", request.transaction, None, None))

    def _ends_published(self, request: CommandMessage) -> bool:
        """Answer a command that ends a stream; return whether it ends the published one."""
        if request.name == "FCUnpublish":
            self._acknowledge(request)
            self._outbox.command(_notice("onFCUnpublish", "NetStream.Unpublish.Success"))
            return True
        message_stream = self._last_stream
        if request.name == "deleteStream":
            # GStreamer sends the stream's name in place of its number.
            number = request.argument
            message_stream = self._target
            if isinstance(number, float) and 0 < number <= self._limits.message_streams:
                message_stream = int(number)
            self._created.discard(message_stream)
        elif self.is_active and message_stream == self._target:
            # HaishinKit waits three seconds for this status.
            self.status("status", "NetStream.Unpublish.Success", "unpublished")
        return message_stream == self._target

    def _unpublish(self, request: CommandMessage, events: list[Event]) -> bool:
        if not self._ends_published(request):
            return False
        if self.is_active:
            events.append(Goodbye())
        self._withdrawn = self._withdrawn or self.state is State.PUBLISH_REQUESTED
        self._target = 0
        return True


def connect_result(transaction: float) -> bytes:
    """Return the answer to `connect`, with the accepted codecs in all known forms."""
    properties: Amf = {"fmsVer": "FMS/3,0,1,123", "capabilities": 31.0}
    video, audio = ([fourcc.decode() for fourcc in each] for each in (VIDEO_FOURCCS, AUDIO_FOURCCS))
    info: Amf = {
        "level": "status",
        "code": "NetConnection.Connect.Success",
        "description": "Connection succeeded.",
        "objectEncoding": 0.0,
        "fourCcList": [*video, *audio],
        "videoFourCcInfoMap": dict.fromkeys(video, float(_CAN_DECODE)),
        "audioFourCcInfoMap": dict.fromkeys(audio, float(_CAN_DECODE)),
        "capsEx": float(_MULTITRACK | _MODIFIERS),
    }
    return command("_result", transaction, properties, info)


def _notice(name: str, code: str) -> bytes:
    info: Amf = {"code": code, "description": ""}
    return command(name, 0.0, None, info)


def _text(value: Amf) -> str:
    return value if isinstance(value, str) else ""
