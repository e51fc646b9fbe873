"""What a peer can do wrong. All of it is the peer's fault; ours is a crash.

    RtmpError
    ├── HandshakeError        it does not speak RTMP version 3
    ├── ChunkError            the chunk stream cannot be followed
    ├── AmfError              a value that is no AMF, or too large a one
    ├── MessageError          a message whose form is wrong
    ├── LimitExceeded         a bound of `limits` was passed
    ├── TimedOut              a deadline of `limits` was passed
    ├── OutOfOrder            a command that may not come now
    ├── AddressRefused        an address that names no stream       NetStream.Publish.BadName
    ├── PlayRefused           it wants to play                      NetStream.Play.Failed
    ├── UnsupportedMedia      a codec that we do not take           NetStream.Publish.Rejected
    └── MalformedMedia        a codec's configuration is broken     NetStream.Publish.Rejected

`code` is the status that the session writes to the peer before it ends; None where the peer would
not understand one. No text holds what the peer sent as a name or a query: it may be a stream key.
"""

from typing import ClassVar

__all__ = [
    "AddressRefused",
    "AmfError",
    "ChunkError",
    "HandshakeError",
    "LimitExceeded",
    "MalformedMedia",
    "MessageError",
    "OutOfOrder",
    "PlayRefused",
    "RtmpError",
    "TimedOut",
    "UnsupportedMedia",
]

_REJECTED = "NetStream.Publish.Rejected"


class RtmpError(Exception):
    """The peer broke the protocol or a bound; its session is over."""

    code: ClassVar[str | None] = None


class HandshakeError(RtmpError):
    """The first byte is not RTMP's version; `version` is what came ("G" of HTTP is 71)."""

    def __init__(self, version: int) -> None:
        self.version = version
        super().__init__(f"not RTMP: version {version}")


class ChunkError(RtmpError):
    """The chunk stream `stream` cannot be followed any more."""

    def __init__(self, stream: int, what: str) -> None:
        self.stream = stream
        super().__init__(f"chunk stream {stream}: {what}")


class AmfError(RtmpError):
    """Bytes that are no AMF value; `place` is where, in bytes from the start."""

    def __init__(self, place: int, what: str) -> None:
        self.place = place
        super().__init__(f"AMF at byte {place}: {what}")


class MessageError(RtmpError):
    """A message of type `kind` whose form is wrong."""

    def __init__(self, kind: int, what: str) -> None:
        self.kind = kind
        super().__init__(f"message of type {kind}: {what}")


class LimitExceeded(RtmpError):
    """More than `limit` of `what`."""

    def __init__(self, what: str, limit: float) -> None:
        self.what = what
        self.limit = limit
        super().__init__(f"more than {limit:,} {what}")


class TimedOut(RtmpError):
    """Nothing of `what` within `seconds`."""

    def __init__(self, what: str, seconds: float) -> None:
        self.what = what
        self.seconds = seconds
        super().__init__(f"no {what} for {seconds:g} s")


class OutOfOrder(RtmpError):
    """A `command` that has no place in the dialogue's present `state`."""

    def __init__(self, command: str, state: str) -> None:
        self.command = command
        self.state = state
        super().__init__(f"{command} while {state}")


class AddressRefused(RtmpError):
    """The application and the publish name lead to no one stream."""

    code = "NetStream.Publish.BadName"


class PlayRefused(RtmpError):
    """The peer wants to play: viewers come over HTTP."""

    code = "NetStream.Play.Failed"

    def __init__(self) -> None:
        super().__init__("nothing is played over RTMP: streams are watched over HTTP")


class UnsupportedMedia(RtmpError):
    """The peer sends `codec`, a name for people, which we do not take; `kind`: video or audio."""

    code = _REJECTED

    def __init__(self, kind: str, codec: str) -> None:
        self.kind = kind
        self.codec = codec
        wanted = "H.264" if kind == "video" else "AAC"
        super().__init__(f"{codec} {kind} is not supported: set the encoder to {wanted}")


class MalformedMedia(RtmpError):
    """A tag or a decoder configuration of `kind` (video or audio) that cannot be read."""

    code = _REJECTED

    def __init__(self, kind: str, what: str) -> None:
        self.kind = kind
        super().__init__(f"broken {kind}: {what}")
