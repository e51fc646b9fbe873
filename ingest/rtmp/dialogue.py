"""Where a publisher stands, which command may come next, and what it is answered.

A known command that is not in `NEXT` for the present state breaks the protocol; an unknown one is
passed over. Deleting a message stream that is not the published one changes no state.
Sources: RTMP 1.0, 7.2.1 (connect, createStream) and 7.2.2 (publish, deleteStream); Enhanced RTMP
v2, "Enhancing NetConnection connect Command"; releaseStream, FCPublish and FCUnpublish are Flash
Media Live Encoder's and everybody's since.
"""

from enum import Enum
from typing import Final

from ingest.rtmp.address import address_of
from ingest.rtmp.amf0 import Amf
from ingest.rtmp.codecs import AUDIO, VIDEO
from ingest.rtmp.errors import LimitExceeded, OutOfOrder, PlayRefused
from ingest.rtmp.events import Connected, Event, Goodbye, PublishAsked
from ingest.rtmp.limits import Limits
from ingest.rtmp.messages import (
    Command,
    MessageType,
    UserEvent,
    command,
    peer_bandwidth,
    word,
)
from ingest.rtmp.outbox import Outbox

__all__ = ["NEXT", "Dialogue", "State", "connected"]

_AGENT_LENGTH: Final = 64

# Flags of Enhanced RTMP. Of several tracks one is taken, and modifiers are understood without
# being acted on: the specification counts both as support.
_CAN_DECODE: Final = 0x01  # FourCcInfoMask
_MULTITRACK, _MODIFIERS = 0x02, 0x04  # CapsExMask; not 0x01: we ask nobody to reconnect


class State(Enum):
    """How far the dialogue is; the value is for texts."""

    BEGINNING = "nothing is connected"
    CONNECTED = "nothing is published"
    ASKED = "leave to publish is asked for"
    PUBLISHING = "publishing"


_B, _C, _A, _P = State.BEGINNING, State.CONNECTED, State.ASKED, State.PUBLISHING

NEXT: Final[dict[tuple[State, str], State]] = {
    (_B, "connect"): _C,
    # OBS stops and starts again on the same connection, so the way leads back to CONNECTED.
    (_C, "releaseStream"): _C,
    (_C, "FCPublish"): _C,
    (_C, "createStream"): _C,
    (_C, "publish"): _A,
    (_C, "FCUnpublish"): _C,
    (_C, "closeStream"): _C,
    (_C, "deleteStream"): _C,
    # Some encoders send everything without waiting for answers.
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

# Commands of players, refused with a status at any time.
_PLAYING: Final = frozenset({"play", "play2", "seek", "pause", "receiveAudio", "receiveVideo"})


class Dialogue:
    """The commands of one connection. `state` is read by the session, and set by it on `allow`."""

    def __init__(self, limits: Limits, outbox: Outbox) -> None:
        self.state = State.BEGINNING
        self._limits = limits
        self._outbox = outbox
        self._app = ""
        self._tc_url = ""
        self._created: set[int] = set()
        self._target = 0  # the message stream that is asked for or published; 0: none is
        self._spoken = 0  # the message stream of the last command
        self._withdrawn = False  # a wish was taken back before it was answered

    @property
    def busy(self) -> bool:
        """Whether a stream is asked for or published."""
        return self.state in (State.ASKED, State.PUBLISHING)

    def allow(self) -> bool:
        """Give the leave that is asked for; say whether it still was."""
        self._withdrawn = False
        if self.state is not State.ASKED:
            return False
        self.state = State.PUBLISHING
        self._outbox.user(UserEvent.STREAM_BEGIN, word(self._target))
        self.status("status", "NetStream.Publish.Start", "publishing")
        return True

    def status(self, level: str, code: str, description: str) -> None:
        """Tell how the stream stands that is published, asked for, or was spoken of last."""
        self._outbox.status(self._target or self._spoken, level, code, description)

    def take(self, said: Command, stream: int, found: list[Event]) -> bool:
        """Take a command that came on message stream `stream`; say whether it was a known one.

        Raises:
            RtmpError: it may not come now, is refused, or passes a bound.
        """
        self._spoken = stream
        if self.state is State.BEGINNING and said.name != "connect":
            raise OutOfOrder("a command", self.state.value)
        if said.name in _PLAYING:
            raise PlayRefused
        if said.name not in _KNOWN:
            return False
        following = NEXT.get((self.state, said.name))
        if following is None:
            raise OutOfOrder(said.name, self.state.value)
        if self._answer(said, found):
            self.state = following
        return True

    def _answer(self, said: Command, found: list[Event]) -> bool:
        """Answer a command; say whether it moves the dialogue on."""
        match said.name:
            case "connect":
                found.append(self._connect(said))
            case "createStream":
                self._create_stream(said)
            case "publish":
                found.append(self._publish(said))
            case "releaseStream":
                self._done(said)
            case "FCPublish":
                self._done(said)
                self._outbox.command(_notice("onFCPublish", "NetStream.Publish.Start"))
            case _:
                return self._goodbye(said, found)
        return True

    def _connect(self, said: Command) -> Connected:
        limits, outbox = self._limits, self._outbox
        self._app = _text(said.object.get("app"))
        self._tc_url = _text(said.object.get("tcUrl"))
        if max(len(self._app), len(self._tc_url)) > limits.address_bytes:
            raise LimitExceeded("bytes in an address", limits.address_bytes)
        outbox.control(MessageType.WINDOW_SIZE, word(limits.window_bytes))
        outbox.control(MessageType.PEER_BANDWIDTH, peer_bandwidth(limits.window_bytes))
        outbox.user(UserEvent.STREAM_BEGIN, word(0))
        outbox.set_chunk_bytes(limits.out_chunk_bytes)
        outbox.command(connected(said.transaction))
        agent = _text(said.object.get("flashVer"))[:_AGENT_LENGTH]
        return Connected(agent="".join(c if c.isprintable() else "?" for c in agent))

    def _create_stream(self, said: Command) -> None:
        limit = self._limits.message_streams
        free = [number for number in range(1, limit + 1) if number not in self._created]
        if not free:
            raise LimitExceeded("message streams", limit)
        self._created.add(free[0])
        self._outbox.command(command("_result", said.transaction, None, float(free[0])))

    def _publish(self, said: Command) -> PublishAsked:
        if self._spoken not in self._created:
            raise OutOfOrder("publish", "its message stream is not created")
        if self._withdrawn:
            # The answer under way is for the first wish: it must not let another stream in.
            raise OutOfOrder("publish", "an earlier one is being looked up")
        address = address_of(self._app, self._tc_url, _text(said.argument), self._limits)
        self._target = self._spoken
        return PublishAsked(
            application=address.application,
            name=address.name,
            query=address.query,
            host=address.host,
        )

    def _done(self, said: Command) -> None:
        # GStreamer's rtmp2sink gives 0: it wants no answer.
        if said.transaction:
            self._outbox.command(command("_result", said.transaction, None, None))

    def _ends(self, said: Command) -> bool:
        """Answer a command that ends a stream; say whether it ends the published one."""
        if said.name == "FCUnpublish":
            self._done(said)
            self._outbox.command(_notice("onFCUnpublish", "NetStream.Unpublish.Success"))
            return True
        which = self._spoken
        if said.name == "deleteStream":
            # GStreamer gives the stream's name in place of its number.
            number = said.argument
            which = self._target
            if isinstance(number, float) and 0 < number <= self._limits.message_streams:
                which = int(number)
            self._created.discard(which)
        elif self.busy and which == self._target:
            # HaishinKit waits three seconds for it.
            self.status("status", "NetStream.Unpublish.Success", "unpublished")
        return which == self._target

    def _goodbye(self, said: Command, found: list[Event]) -> bool:
        if not self._ends(said):
            return False
        if self.busy:
            found.append(Goodbye())
        self._withdrawn = self._withdrawn or self.state is State.ASKED
        self._target = 0
        return True


def connected(transaction: float) -> bytes:
    """Answer `connect`, and say in all the ways that there are which codecs are taken."""
    properties: Amf = {"fmsVer": "FMS/3,0,1,123", "capabilities": 31.0}
    video, audio = ([fourcc.decode() for fourcc in each] for each in (VIDEO, AUDIO))
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
