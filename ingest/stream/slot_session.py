"""A publisher's place in a stream: what it sends, whether it is well, its newest media.

Times are seconds of the event loop's clock.
"""

from enum import Enum
from typing import Final, Protocol

from ingest.report.meter import Meter
from ingest.stream.arrival_clock import Pace
from ingest.stream.failover import Health
from ingest.stream.gop_buffer import Ring
from ingest.stream.ports import Grant
from ingest.stream.track_finder import Found, TrackFinder, continues
from media.packet import MediaPacket
from media.track import Track

__all__ = ["Leaving", "Publisher", "Seat", "Seated"]

# Media that comes so late is old: a network or an encoder was held up, and makes up for it now.
_LATE_SECONDS: Final = 1.0


class Leaving(Enum):
    """Why a seat is empty; the values are for the owner's eyes."""

    GOODBYE = "goodbye"
    LOST = "lost"
    SILENT = "silent"  # connected, without media for longer than we wait
    TAKEN_OVER = "taken over"
    CLOSED = "closed by us"


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

    def left(self, seat: "Seat", why: Leaving) -> None:
        """Take note that a seat is empty."""
        ...


class Seat:
    """A publisher's place in a stream: what it sends goes in here.

    `last` is when its newest media came, `since` when the media began to come that has come
    without a break; None before the first. `cut`, of a drill, is from when on it counts as silent.
    """

    def __init__(self, stream: Seated, grant: Grant, publisher: Publisher, now: float) -> None:
        self.slot = grant.slot
        self.proof = grant.proof
        self.publisher = publisher
        self.ring = Ring(grant.policy.detect_seconds)
        self.meter = Meter(now)
        self.pace = Pace()
        self.last: float | None = None
        self.since: float | None = None
        self.cut: float | None = None
        self._late: float | None = None  # when its newest packet came that came late
        self._now = now
        self._break = grant.policy.detect_seconds
        self._stream = stream
        self._finder = TrackFinder()

    def detect(self, seconds: float) -> None:
        """Take media that stays away for as long as a break from now on."""
        self._break = seconds
        self.ring.reach(seconds)

    def health(self, run: tuple[Track, ...]) -> Health:
        """Tell how its source stands, beside a run with these tracks (none: no run yet)."""
        return Health(
            since=self.since,
            last=self.last,
            late=self._late,
            cut=self.cut,
            playable=self.ring.filled,
            fits=not run or continues(run, self.ring.tracks),
            picture=self.ring.picture,
        )

    def track(self, track: Track, now: float) -> None:
        """Take a new decoder configuration."""
        self._came(now)
        self.meter.track(track, now)
        self._stream.found(self, self._finder.track(track, now), now)

    def packet(self, packet: MediaPacket, now: float) -> None:
        """Take a packet."""
        self._came(now)
        self.meter.packet(packet, now)
        self.pace.came(packet, now)
        if now - self.pace.due(packet, now) > _LATE_SECONDS:
            self._late = now
        self._stream.found(self, self._finder.packet(packet, now), now)

    def clock_jumped(self) -> None:
        """The encoder's clock started anew."""
        self.meter.jumped(self._now)
        self.pace.again()
        self._late = None
        self._stream.found(self, self._finder.again(), self._now)

    def tick(self, now: float) -> None:
        """Let time pass."""
        self._now = now
        self._stream.found(self, self._finder.tick(now), now)

    def leave(self, *, goodbye: bool, why: Leaving | None = None) -> None:
        """The publisher is gone; `goodbye` says that it took its leave, `why` what else it was."""
        self._stream.found(self, self._finder.leave(), self._now)
        plain = Leaving.GOODBYE if goodbye else Leaving.LOST
        self._stream.left(self, plain if why is None else why)

    def cut_off(self, now: float) -> None:
        """Count as silent from now on."""
        self.cut = now

    def join_again(self, now: float) -> None:
        """Count as what it is again: well from now on, after having been cut off."""
        self.cut = None
        self.since = now

    def _came(self, now: float) -> None:
        if self.last is None or now - self.last >= self._break:
            self.since = now
        self.last = self._now = now
