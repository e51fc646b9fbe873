"""A publisher's place in a stream: what it sends, whether it is well, its newest media.

Times are seconds of the event loop's clock.
"""

from typing import Protocol

from ingest.failover import Health, Policy
from ingest.ports import Grant
from ingest.ring import Ring
from ingest.tracks import Found, TrackFinder, continues
from media.packet import MediaPacket
from media.track import Track

__all__ = ["Publisher", "Seat", "Seated"]


class Publisher(Protocol):
    """A connected encoder, as its stream sees it."""

    @property
    def peer(self) -> str:
        """The encoder's address, for the log."""
        ...

    @property
    def heard(self) -> float:
        """When its last byte came."""
        ...

    def take_off(self, reason: str) -> None:
        """Tell the encoder why, and close its connection."""
        ...


class Seated(Protocol):
    """The stream that a seat belongs to."""

    def found(self, seat: "Seat", found: list[Found], now: float) -> None:
        """Take what a seat's packets turned out to be."""
        ...

    def left(self, seat: "Seat", *, goodbye: bool) -> None:
        """Take note that a seat is empty."""
        ...


class Seat:
    """A publisher's place in a stream: what it sends goes in here.

    `last` is when its newest media came, None before the first.
    """

    def __init__(
        self, stream: Seated, grant: Grant, publisher: Publisher, policy: Policy, now: float
    ) -> None:
        self.slot = grant.slot
        self.proof = grant.proof
        self.publisher = publisher
        self.ring = Ring(policy.detect_seconds)
        self.last: float | None = None
        self._since: float | None = None
        self._now = now
        self._break = policy.detect_seconds
        self._stream = stream
        self._finder = TrackFinder()

    def health(self, run: tuple[Track, ...], *, alone: bool) -> Health:
        """Tell how its source stands, beside a run with these tracks (none: no run yet).

        Where it is `alone`, no ring is kept: then it is playable once its tracks are known.
        """
        tracks = self.ring.tracks
        return Health(
            since=self._since,
            last=self.last,
            playable=bool(tracks) and (alone or self.ring.filled),
            fits=not run or continues(run, tracks),
            picture=self.ring.picture,
        )

    def track(self, track: Track, now: float) -> None:
        """Take a new decoder configuration."""
        self._came(now)
        self._stream.found(self, self._finder.track(track, now), now)

    def packet(self, packet: MediaPacket, now: float) -> None:
        """Take a packet."""
        self._came(now)
        self._stream.found(self, self._finder.packet(packet, now), now)

    def clock_jumped(self) -> None:
        """The encoder's clock started anew."""
        self._stream.found(self, self._finder.again(), self._now)

    def tick(self, now: float) -> None:
        """Let time pass."""
        self._now = now
        self._stream.found(self, self._finder.tick(now), now)

    def leave(self, *, goodbye: bool) -> None:
        """The publisher is gone; `goodbye` says that it took its leave."""
        self._stream.found(self, self._finder.leave(), self._now)
        self._stream.left(self, goodbye=goodbye)

    def _came(self, now: float) -> None:
        if self.last is None or now - self.last >= self._break:
            self._since = now
        self.last = self._now = now
