"""The events of a session, in the order of the peer's bytes."""

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
    "PacketReceived",
    "PublishRequested",
    "TrackFound",
]


class Connected(msgspec.Struct, frozen=True, kw_only=True):
    """The peer sent `connect`; `agent` is its flashVer, cut to 64 characters."""

    agent: str


class PublishRequested(msgspec.Struct, frozen=True, kw_only=True):
    """The peer requests to publish: answer with `Session.allow` or `Session.deny`.

    `application` is the first part of the path, `name` the stream key as sent, `query` the merged
    queries of the application, the tcUrl and the name (later ones win), decoded once. `host` is the
    host name in the peer's address. Name and query are secret.
    """

    application: str
    name: str
    query: dict[str, str]
    host: str

    def __repr__(self) -> str:
        return f"PublishRequested(application={self.application!r}, name=..., host={self.host!r})"

    __str__ = __repr__


class TrackFound(msgspec.Struct, frozen=True):
    """A decoder configuration that differs from the track's last one."""

    track: Track


class PacketReceived(msgspec.Struct, frozen=True, gc=False):
    """A coded access unit of the newest track of its kind; its ticks are milliseconds.

    Within an epoch of the clock a track's decode times may step back by less than 250 ms, as the
    encoder sent them; see `ClockJumped`.
    """

    packet: MediaPacket


class ClockJumped(msgspec.Struct, frozen=True, kw_only=True):
    """The encoder's clock jumped: what follows is a new epoch with a timeline of its own.

    `newest` is the newest time of the old epoch, `start` the first of the new one, in ms.
    """

    epoch: int
    newest: int
    start: int


class Metadata(msgspec.Struct, frozen=True):
    """The encoder's onMetaData; repetitions of the same values give no event."""

    values: dict[str, Amf]


class Goodbye(msgspec.Struct, frozen=True):
    """The publisher ended its stream; it may request another on the same connection.

    It may also withdraw a `PublishRequested` that is not yet answered; then `allow` does nothing.
    """


Event = (
    Connected | PublishRequested | TrackFound | PacketReceived | ClockJumped | Metadata | Goodbye
)
