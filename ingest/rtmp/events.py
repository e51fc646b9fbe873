"""The events of a session, in the order of the peer's bytes.

A packet is an event itself: a coded access unit of the newest track of its kind, whose ticks are
milliseconds. Within an epoch of the clock a track's decode times may step back by less than 250 ms,
as the encoder sent them; see `ClockJumped`.
"""

import msgspec

from media.packet import MediaPacket
from media.track import Track


class Connected(msgspec.Struct, frozen=True, kw_only=True):
    """The peer sent `connect`; `agent` is its flashVer, cut to 64 characters."""

    agent: str


class PublishRequested(msgspec.Struct, frozen=True, kw_only=True):
    """The peer requests to publish: answer with `Session.allow` or `close_status`.

    `application` is the first part of the path, `name` the stream key as sent, which is secret.
    """

    application: str
    name: str

    def __repr__(self) -> str:
        return f"PublishRequested(application={self.application!r}, name=...)"

    __str__ = __repr__


class TrackFound(msgspec.Struct, frozen=True):
    """A decoder configuration that differs from the track's last one."""

    track: Track


class MediaUnusable(msgspec.Struct, frozen=True, gc=False):
    """A coded access unit of no track: it is dropped, and so is what follows like it.

    `video` or audio; `cause` is one of a few texts, for the stream's owner.
    """

    video: bool
    cause: str


class PictureAnnounced(msgspec.Struct, frozen=True):
    """The encoder announces a picture (onMetaData), once for a publish; it may come much later."""


class ClockJumped(msgspec.Struct, frozen=True):
    """The encoder's clock jumped: what follows is a new epoch with a timeline of its own."""


class Goodbye(msgspec.Struct, frozen=True):
    """The publisher ended its stream; it may request another on the same connection.

    It may also withdraw a `PublishRequested` that is not yet answered; then `allow` does nothing.
    """


Event = (
    Connected
    | PublishRequested
    | TrackFound
    | MediaPacket
    | MediaUnusable
    | PictureAnnounced
    | ClockJumped
    | Goodbye
)
