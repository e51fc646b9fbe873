"""What a session finds in a peer's bytes, in the order in which it came."""

import msgspec

from ingest.rtmp.amf0 import Amf
from media.packet import MediaPacket
from media.track import Track

__all__ = [
    "ClockJumped",
    "Connected",
    "Event",
    "Goodbye",
    "Metadata",
    "PacketIn",
    "PublishAsked",
    "TrackFound",
]


class Connected(msgspec.Struct, frozen=True, kw_only=True):
    """The peer said who it is; `agent` is its flashVer, cut to 64 characters."""

    agent: str


class PublishAsked(msgspec.Struct, frozen=True, kw_only=True):
    """The peer wants to publish: answer with `Session.allow` or `Session.deny`.

    `application` is the first part of the path, `name` the stream key as it came, `query` what
    stood behind "?" in the application, the tcUrl and the name (the later the stronger), decoded
    once. `host` is the name by which the peer reached us. Name and query are secret.
    """

    application: str
    name: str
    query: dict[str, str]
    host: str

    def __repr__(self) -> str:
        return f"PublishAsked(application={self.application!r}, name=..., host={self.host!r})"

    __str__ = __repr__


class TrackFound(msgspec.Struct, frozen=True):
    """A decoder configuration that differs from the track's last one; identical ones are silent."""

    track: Track


class PacketIn(msgspec.Struct, frozen=True, gc=False):
    """A coded access unit of the track that was found last; its ticks are milliseconds.

    Within an epoch of the clock a track's decode times may step back by less than 250 ms, as
    they came from the encoder; see `ClockJumped`.
    """

    packet: MediaPacket


class ClockJumped(msgspec.Struct, frozen=True, kw_only=True):
    """The encoder's clock left its line: what follows is a new epoch, on times of its own.

    `newest` was the newest time of the old epoch, `start` is where the new one begins, in ms.
    """

    epoch: int
    newest: int
    start: int


class Metadata(msgspec.Struct, frozen=True):
    """What the encoder says about its stream (onMetaData); repeats of the same are silent."""

    values: dict[str, Amf]


class Goodbye(msgspec.Struct, frozen=True):
    """The publisher took its leave; it may ask to publish again on the same connection.

    It also comes for a `PublishAsked` that is not yet answered; `allow` then does nothing.
    """


Event = Connected | PublishAsked | TrackFound | PacketIn | ClockJumped | Metadata | Goodbye
