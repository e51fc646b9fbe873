"""The errors of a peer. All are the peer's fault; our own are exceptions of other types.

    RtmpError
    ├── HandshakeError        not RTMP version 3
    ├── ChunkError            an invalid chunk stream
    ├── AmfError              an invalid or oversized AMF value
    ├── MessageError          an invalid message
    ├── LimitExceeded         more than a limit of `limits`
    ├── TimedOut              a deadline of `limits` has passed
    ├── OutOfOrder            a command that is not allowed in this state
    ├── AddressRefused        an address without a stream           NetStream.Publish.BadName
    ├── PlayRefused           a request to play                     NetStream.Play.Failed
    └── UnsupportedMedia      a codec that is not accepted          NetStream.Publish.Rejected

`code` is the status that the session sends before it ends; None where the peer would not understand
one. No message contains a name or a query that the peer sent, because it may be a stream key.
"""

from typing import ClassVar


class RtmpError(Exception):
    """The peer broke the protocol or exceeded a limit; its session is over."""

    code: ClassVar[str | None] = None


class HandshakeError(RtmpError):
    """The first byte, `version`, is not RTMP's version (HTTP's "G" is 71)."""

    def __init__(self, version: int) -> None:
        self.version = version
        super().__init__(f"not RTMP: version {version}")


class ChunkError(RtmpError):
    """The chunk stream `stream` is invalid."""

    def __init__(self, stream: int, what: str) -> None:
        self.stream = stream
        super().__init__(f"chunk stream {stream}: {what}")


class AmfError(RtmpError):
    """Bytes that are no AMF value, at the offset `place`."""

    def __init__(self, place: int, what: str) -> None:
        self.place = place
        super().__init__(f"AMF at byte {place}: {what}")


class MessageError(RtmpError):
    """An invalid message of type `kind`."""

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
    """No `what` within `seconds`."""

    def __init__(self, what: str, seconds: float) -> None:
        self.what = what
        self.seconds = seconds
        super().__init__(f"no {what} for {seconds:g} s")


class OutOfOrder(RtmpError):
    """A `command` that is not allowed in the dialogue's `state`."""

    def __init__(self, command: str, state: str) -> None:
        self.command = command
        self.state = state
        super().__init__(f"{command} while {state}")


class AddressRefused(RtmpError):
    """The application and the publish name do not identify a stream."""

    code = "NetStream.Publish.BadName"


class PlayRefused(RtmpError):
    """The peer requests to play, which is possible over HTTP only."""

    code = "NetStream.Play.Failed"

    def __init__(self) -> None:
        super().__init__("nothing is played over RTMP: streams are watched over HTTP")


class UnsupportedMedia(RtmpError):
    """The peer sends a codec that is not accepted, `codec` by its name; `kind`: video or audio."""

    code = "NetStream.Publish.Rejected"

    def __init__(self, kind: str, codec: str) -> None:
        self.kind = kind
        self.codec = codec
        supported = "H.264" if kind == "video" else "AAC"
        super().__init__(f"{codec} {kind} is not supported: set the encoder to {supported}")
