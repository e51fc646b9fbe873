"""The session of one publisher in one slot of a stream: its media, its health, its measurements.

Times are seconds of the event loop's clock.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Final, Protocol

from ingest.report.meter import Meter
from ingest.stream.arrival_clock import ArrivalClock
from ingest.stream.failover import Health, Policy
from ingest.stream.gop_buffer import GopBuffer
from ingest.stream.ports import Grant
from ingest.stream.track_finder import SourceBegun, TrackFinder, continues, has_picture
from media.loop_lag import LoopLag
from media.packet import MediaPacket
from media.source_fault import SourceFault
from media.track import Track, VideoTrack

# Media this late is old: a network or an encoder was held up and is catching up now.
_LATE_SECONDS: Final = 1.0
# Some encoders send a few packets before the configuration that these need.
_UNUSABLE_SECONDS: Final = 1.0
# Longer than most pictures follow sound; then the owner wants to know.
_PICTURE_LATE_SECONDS: Final = 3.0


class CloseReason(Enum):
    """Why a session ended; the values are shown to the stream's owner."""

    GOODBYE = "goodbye"
    LOST = "lost"
    SILENT = "silent"  # connected, but without media for longer than the limit
    TAKEN_OVER = "taken over"
    CLOSED = "closed by us"


class ConnectedPublisher(Protocol):
    """A connected encoder, as its stream sees it."""

    @property
    def peer(self) -> str:
        """The encoder's address, for the log."""
        ...

    @property
    def last_received(self) -> float:
        """When its last byte arrived."""
        ...

    def disconnect(self, reason: str, *, moved: bool = False) -> None:
        """Send the encoder the reason and close its connection.

        `moved`: another host can serve the stream from now on, so an encoder that was relayed to
        this one may stay connected.
        """
        ...


class PublisherSession(Protocol):
    """One publisher's session in a slot, as its connection sees it; times are of arrival."""

    def receive_track(self, track: Track, now: float) -> None:
        """Handle a new decoder configuration."""
        ...

    def receive_packets(self, packets: Sequence[MediaPacket], now: float) -> None:
        """Handle packets that came together, at least one, of the newest track of their kind."""
        ...

    def receive_part(self, now: float) -> None:
        """Handle the arrival of a packet's bytes before its last one."""
        ...

    def receive_unusable(self, cause: str, now: float, *, video: bool) -> None:
        """Handle the arrival of a packet, of `video` or audio, that cannot be used."""
        ...

    def picture_announced(self) -> None:
        """Handle the announcement of a picture, which may come much later."""
        ...

    def clock_jumped(self) -> None:
        """Handle a restart of the encoder's clock."""
        ...

    def close(self, *, goodbye: bool, reason: CloseReason | None = None) -> None:
        """End the session; without a `reason`, `goodbye` distinguishes a farewell from a loss."""
        ...


class SlotSessionOwner(Protocol):
    """The stream that a session belongs to."""

    def on_begun(self, session: "SlotSession", begun: SourceBegun, now: float) -> None:
        """Handle that a session's source begins, or begins anew."""
        ...

    def on_packets(
        self,
        session: "SlotSession",
        packets: Sequence[MediaPacket],
        dues: Sequence[float],
        now: float,
    ) -> None:
        """Handle what a session received of its source, and when each packet was due."""
        ...

    def on_unusable(self, session: "SlotSession", cause: str, *, video: bool) -> None:
        """Handle that no packet of `video` or audio could be used for a while, while some came."""
        ...

    def on_closed(self, session: "SlotSession", reason: CloseReason) -> None:
        """Handle the end of a session."""
        ...


class SlotSession:
    """One publisher in one slot; its connection passes media in here.

    `last_media` is when the newest media arrived and `steady_since` when the present stretch of
    uninterrupted media began; both None before the first. `cut_off_at` is when a drill began to
    count the publisher as silent. `newest_keyframe` is None if none came by its present clock.
    `lead` is by how much earlier than the run dates it the session sends the programme, None if
    that is not known. `lag` is that of the loop that reads the publisher.
    """

    def __init__(
        self,
        stream: SlotSessionOwner,
        grant: Grant,
        publisher: ConnectedPublisher,
        now: float,
        lag: LoopLag | None = None,
    ) -> None:
        self.slot = grant.slot
        self.proof = grant.proof
        self.publisher = publisher
        self._lag = LoopLag() if lag is None else lag
        self.buffer = GopBuffer(
            grant.policy.longest_stall, self._lag, lead=grant.policy.align_wait_seconds
        )
        self.meter = Meter(now)
        self.arrival_clock = ArrivalClock()
        self.last_media: float | None = None
        self.steady_since: float | None = None
        self.cut_off_at: float | None = None
        self.newest_keyframe: MediaPacket | None = None
        self.lead: float | None = None
        self.fault: SourceFault | None = None  # that another source does not show
        self._last_fault: float | None = None
        self._first_media: float | None = None
        self._is_announced = False  # a picture
        self._last_late: float | None = None  # when the newest late packet arrived
        self._last_unusable: float | None = None
        # By whether it is of video: since when no packet could be used, and what was reported.
        self._unusable_since: dict[bool, float] = {}
        self._reported: set[bool] = set()
        self._connected = self._now = now
        self._detect_seconds = grant.policy.detect_seconds
        self._stream = stream
        self._finder = TrackFinder(self._lag)

    @property
    def picture_is_due(self) -> bool:
        """True once the encoder has announced a picture, until some of it comes."""
        return self._is_announced and True not in self._reported and not self._has_video

    def set_policy(self, policy: Policy) -> None:
        """Apply another policy from now on: what counts as an interruption, and what is kept."""
        self._detect_seconds = policy.detect_seconds
        self.buffer.set_duration(policy.longest_stall, policy.align_wait_seconds)

    def health(self, run: tuple[Track, ...]) -> Health:
        """Return the health of the source beside a run with these tracks (empty: no run yet)."""
        return Health(
            steady_since=self.steady_since,
            last_media=self.last_media,
            last_late=self._last_late,
            cut_off_at=self.cut_off_at,
            fault_seconds=0.0 if self.fault is None else self.fault.seconds,
            last_fault=self._last_fault,
            playable=self.buffer.has_keyframe,
            continues_run=not run or continues(run, self.buffer.tracks),
            has_picture=self.buffer.has_picture,
            began=self._first_media,
        )

    def judge(self, faults: Sequence[SourceFault], now: float) -> None:
        """Take into account what the source shows that may be a fault."""
        found = [each for each in faults if each.verdict == "fault"]
        self.fault = max(found, key=lambda each: each.seconds, default=None)
        if self.fault is not None:
            self._last_fault = now

    def is_sending(self, now: float) -> bool:
        """Return whether media arrived, or the publisher connected, within the detection time.

        A drill does not change this.
        """
        arrivals = [self._last_unusable, self.last_media]
        last = max((each for each in arrivals if each is not None), default=self._connected)
        return self._lag.read_until(now) - last < self._detect_seconds

    def lacks_picture(self, now: float) -> bool:
        """Return whether there has been sound, and no picture, for some seconds."""
        began = self._first_media
        is_late = began is not None and self._lag.elapsed(began, now) >= _PICTURE_LATE_SECONDS
        return is_late and not self._has_video and self.is_sending(now)

    @property
    def _has_video(self) -> bool:
        return has_picture(self._finder.tracks)

    def receive_track(self, track: Track, now: float) -> None:
        """Handle a new decoder configuration."""
        self._record_arrival(now)
        self.meter.add_track(track, now)
        self._begin(self._finder.add_track(track, now), now)

    def receive_packets(self, packets: Sequence[MediaPacket], now: float) -> None:
        """Handle packets that came together, at least one."""
        self._record_arrival(now)
        if self._unusable_since:
            for is_video in {isinstance(packet.track, VideoTrack) for packet in packets}:
                self._unusable_since.pop(is_video, None)
                self._reported.discard(is_video)
        for packet in packets:
            if packet.key and isinstance(packet.track, VideoTrack):
                self.newest_keyframe = packet
        self.meter.add_packets(packets, now)
        dues = self.arrival_clock.record(packets, now)
        if self._lag.elapsed(min(dues), now) > _LATE_SECONDS:
            self._last_late = now
        if self._finder.is_settled:
            self._stream.on_packets(self, packets, dues, now)
        else:
            self._begin(self._finder.hold(packets, now), now)

    def receive_unusable(self, cause: str, now: float, *, video: bool) -> None:
        """Handle the arrival of a packet, of `video` or audio, that cannot be used.

        The encoder is not silent, but for failover it counts as if it were.
        """
        self._last_unusable = self._now = now
        since = self._unusable_since.setdefault(video, now)
        if video not in self._reported and self._lag.elapsed(since, now) >= _UNUSABLE_SECONDS:
            self._reported.add(video)
            self._stream.on_unusable(self, cause, video=video)
            if video:
                self._begin(self._finder.give_picture_up(now), now)

    def receive_part(self, now: float) -> None:
        """Handle the arrival of a packet's bytes before its last one.

        On a slow network a large keyframe takes long to arrive, and the encoder is not silent.
        """
        self._record_arrival(now)

    def picture_announced(self) -> None:
        """Handle the announcement of a picture; of one that cannot be used it is no news."""
        self._is_announced = True
        if True not in self._reported:
            self._finder.announce_picture()

    def clock_jumped(self) -> None:
        """Handle a restart of the encoder's clock."""
        self.meter.clock_jumped(self._now)
        self.arrival_clock.reset()
        self._last_late = self.newest_keyframe = None
        self._begin(self._finder.restart(), self._now)

    def tick(self, now: float) -> None:
        """Advance the session's time."""
        self._now = now
        self._begin(self._finder.tick(now), now)

    def close(self, *, goodbye: bool, reason: CloseReason | None = None) -> None:
        """End the session; without a `reason`, `goodbye` distinguishes a farewell from a loss."""
        self._begin(self._finder.finish(), self._now)
        default = CloseReason.GOODBYE if goodbye else CloseReason.LOST
        self._stream.on_closed(self, default if reason is None else reason)

    def cut_off(self, now: float) -> None:
        """Count the publisher as silent from now on, for a drill."""
        self.cut_off_at = now

    def restore(self, now: float) -> None:
        """End a cut-off: the publisher counts as healthy from now on."""
        self.cut_off_at = None
        self.steady_since = now

    def _begin(self, begun: SourceBegun | None, now: float) -> None:
        if begun is not None:
            self._stream.on_begun(self, begun, now)

    def _record_arrival(self, now: float) -> None:
        last = self.last_media
        if last is None or self._lag.elapsed(last, now) >= self._detect_seconds:
            self.steady_since = now
        if last is None:
            self._first_media = now
        self.last_media = self._now = now
