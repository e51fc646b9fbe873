"""One encoder whose stream another host owns, across changes of the owner.

The session keeps the newest media. When the owner goes away, it searches for the stream's owner
again: the same host, another one, or this one. It sends what the owner lacks, and then what
arrives. The encoder stays connected unless no owner is found for `RECOVER_SECONDS`. Times are
seconds of the event loop's clock.
"""

import asyncio
import logging
from collections.abc import Awaitable, Coroutine, Sequence
from typing import Final, Protocol, TypeVar

from ingest.relay.media_ring import Arrival, Jump, MediaRing, RingMemory
from ingest.relay.owner_link import Attachment, OwnerGone, OwnerLink, OwnerUnreachable
from ingest.stream.live_stream import SlotOccupied
from ingest.stream.ports import Grant, Ownership, PortError, PublishRefused
from ingest.stream.registry import LiveStreams, NotRelayed, OwnedElsewhere, RenewGrant
from ingest.stream.slot_session import (
    CloseReason,
    ConnectedPublisher,
    PublisherSession,
    SlotSession,
)
from media.loop_lag import LoopLag
from media.packet import MediaPacket
from media.track import Track

log = logging.getLogger(__name__)

# A dead owner is known to be dead after 3 s; encoders wait longer for an answer.
BEGIN_SECONDS: Final = 5.0
# Longer than an owner takes to stop, or to be replaced; its viewers have the slate by then.
RECOVER_SECONDS: Final = 10.0
_RETRY_SECONDS: Final = 0.5
# How soon, and then how often, this host claims a stream whose owner does not answer.
_FIRST_CLAIM_SECONDS: Final = 0.05
_NEXT_CLAIM_SECONDS: Final = 0.25
# While keys cannot be looked up, an owner that is back gets the old grant.
_RENEW_SECONDS: Final = 2.0
# A claim takes milliseconds; whether a slot with another connection gets free is known in 2.5 s.
_CLAIM_TIMEOUT_SECONDS: Final = 5.0
_SILENT_SECONDS: Final = 2.0  # as long as a link may be
_UNREACHABLE: Final = "the host that serves this stream cannot be reached: try again"

T = TypeVar("T")


class OwnerLinks(Protocol):
    """What a session needs (see `ingest.relay.client`)."""

    lag: LoopLag
    memory: RingMemory

    async def connect(self, address: str) -> OwnerLink:
        """Return the link to an owner."""
        ...

    def start(self, work: Coroutine[None, None, None]) -> None:
        """Start a task."""
        ...


class RelayedSession:
    """A publisher's session at the owner of its stream; the `PublisherSession` of its connection.

    It is attached at another host (`_attachment`), at this host (`_is_local`), or nowhere, while it
    searches for the stream's owner. What arrives goes to `_place` at once, since all before it was
    sent there.
    """

    def __init__(
        self,
        links: OwnerLinks,
        streams: LiveStreams,
        grant: Grant,
        publisher: ConnectedPublisher,
        owner: Ownership,
        renew: RenewGrant | None = None,
    ) -> None:
        self._renew = renew
        self._links = links
        self._streams = streams
        self._grant = grant
        self._publisher = publisher
        self._clock = asyncio.get_running_loop().time
        self._ring = MediaRing(links.memory)
        self._owner = owner  # the newest that is known
        self._ended_owner: int | None = None  # the newest generation whose owner has ended
        self._attachment: Attachment | None = None
        self._last_attachment: Attachment | None = None  # that has ended
        self._place: PublisherSession | None = None
        self._is_local = False
        self._has_begun = False
        self._is_announced = False  # a picture
        self._is_renewed = True  # the grant was renewed since the search for the owner began
        self._is_closed = False

    async def begin(self) -> PublisherSession:
        """Attach the session at the stream's owner, and return what its connection is to call.

        Raises:
            SlotOccupied: the slot has a live publisher.
            NotRelayed: no owner accepts the publisher.
        """
        place = await self._find_place(BEGIN_SECONDS)
        if isinstance(place, SlotSession):
            return place
        await self._relay_to(place)
        return self

    # -- what the connection calls ----------------------------------------------------------------

    def receive_track(self, track: Track, now: float) -> None:
        """Handle a new decoder configuration."""
        if not self._is_local:
            self._ring.add_track(track, now)
        if self._place is not None:
            self._place.receive_track(track, now)

    def receive_packets(self, packets: Sequence[MediaPacket], now: float) -> None:
        """Handle packets that came together, each of the newest track of its kind."""
        if not self._is_local:
            for packet in packets:
                self._ring.add_packet(packet, now)
        if self._place is not None:
            self._place.receive_packets(packets, now)

    def receive_part(self, now: float) -> None:
        """Handle the arrival of a packet's bytes before its last one."""
        if self._place is not None:
            self._place.receive_part(now)

    def receive_unusable(self, cause: str, now: float, *, video: bool) -> None:
        """Handle the arrival of a packet, of `video` or audio, that cannot be used."""
        if self._place is not None:
            self._place.receive_unusable(cause, now, video=video)

    def picture_announced(self) -> None:
        """Handle the announcement of a picture, which every owner gets."""
        self._is_announced = True
        place = self._place or self._attachment
        if place is not None:
            place.picture_announced()

    def clock_jumped(self) -> None:
        """Handle a restart of the encoder's clock."""
        if not self._is_local:
            self._ring.clock_jumped(self._clock())
        if self._place is not None:
            self._place.clock_jumped()

    def close(self, *, goodbye: bool, reason: CloseReason | None = None) -> None:
        """End the session; without a `reason`, `goodbye` distinguishes a farewell from a loss."""
        self._is_closed = True
        self._ring.clear()
        place = self._place or self._attachment
        self._place = self._attachment = None
        if place is not None:
            place.close(goodbye=goodbye, reason=reason)

    # -- what the owner sends ---------------------------------------------------------------------

    def media_stored(self, attachment: Attachment, seconds_ago: float) -> None:
        """Drop media that no new owner will need."""
        if attachment is self._attachment:
            self._ring.set_stored(self._clock() - seconds_ago)

    def attachment_ended(self, attachment: Attachment, cause: str) -> None:
        """Disconnect the encoder if the owner demands it, else search for the stream's owner."""
        if attachment is not self._attachment:
            return
        self._attachment = self._place = None
        self._last_attachment = attachment
        farewell = attachment.farewell
        if farewell is not None and not farewell.moved:
            self._disconnect(farewell.reason)
            return
        log.info("relay interrupted", extra=self._log_fields(owner=attachment.address, cause=cause))
        self._links.start(self._recover())

    async def _recover(self) -> None:
        """Continue at the owner that the stream has by now."""
        self._is_renewed = self._renew is None
        if self._ring.has_media:
            self._streams.expect(self._grant.hash)
        try:
            place = await self._find_place(RECOVER_SECONDS)
            if isinstance(place, SlotSession):
                self._continue_here(place)
            else:
                await self._relay_to(place)
        except PublishRefused as refused:
            self._disconnect(str(refused))
        except Exception:  # a bug in one session must not end the others
            log.exception("relay failed", extra=self._log_fields())
            self._disconnect("failure")

    # -- where the stream is ----------------------------------------------------------------------

    async def _find_place(self, patience: float) -> SlotSession | Attachment:
        """Return the session's slot at the stream's owner, which may be this host from now on.

        Raises:
            PublishRefused: the slot has a live publisher, the key is no longer valid, or no owner
                accepts the publisher.
        """
        began = self._clock()
        while True:
            owner = self._owner
            if not self._is_renewed:
                await self._renew_grant()
            # Without media of its encoder this host could not continue the run: no claim.
            may_own = self._is_renewed and (self._ring.has_media or not self._has_begun)
            place = await self._attach(may_own=may_own)
            if place is not None:
                return place
            if self._is_closed:
                raise NotRelayed("the encoder has left")
            if self._links.lag.elapsed(began, self._clock()) >= patience:
                raise NotRelayed(_UNREACHABLE)
            if self._owner == owner:
                await asyncio.sleep(_RETRY_SECONDS)

    async def _renew_grant(self) -> None:
        """Look the key up again: it may be invalid, or the stream's settings changed since.

        Raises:
            NotRelayed: the key is no longer valid.
            StreamEnded: the owner ended the stream.
        """
        if self._renew is None:
            return
        try:
            async with asyncio.timeout(_RENEW_SECONDS):
                grant = await self._renew()
        except (TimeoutError, PortError) as error:
            log.debug("grant not renewed", extra=self._log_fields(cause=repr(error)))
            return
        if grant is None:
            raise NotRelayed("the stream key is not valid any more")
        self._grant, self._is_renewed = grant, True

    async def _attach(self, *, may_own: bool) -> SlotSession | Attachment | None:
        """Return the session's slot at the known owner, or at this host if that owner is dead.

        A request to a frozen or disconnected host waits for seconds, in which that host ceases to
        count as alive. So this host tries to claim the stream for as long as there is no answer.

        Raises:
            SlotOccupied: the slot has a live publisher.
        """
        owner = self._owner
        local: SlotSession | SlotOccupied | None = None
        async with asyncio.TaskGroup() as tasks:
            request = tasks.create_task(_or_occupied(self._attach_at_owner()))
            patience = _FIRST_CLAIM_SECONDS
            while local is None and self._owner == owner:
                await asyncio.wait([request], timeout=patience)
                if request.done():
                    break
                patience = _NEXT_CLAIM_SECONDS
                if may_own:
                    local = await _or_occupied(self._attach_here())
            request.cancel()
        remote = None if request.cancelled() else request.result()
        if local is None and remote is None and may_own and self._owner == owner:
            local = await _or_occupied(self._attach_here())
        if local is not None and isinstance(remote, Attachment):
            remote.close(goodbye=False)
        place = remote if local is None else local
        if isinstance(place, SlotOccupied):
            raise place
        return place

    async def _attach_at_owner(self) -> Attachment | None:
        """Return the session's slot at the known owner; None if it has none there."""
        owner = self._owner
        if not owner.address:
            return None
        try:
            link = await self._links.connect(owner.address)
            attachment = await link.attach(self._grant, self._publisher.peer, self)
        except OwnerUnreachable as error:
            if isinstance(error, OwnerGone):
                self._ended_owner = owner.generation
            log.debug("not relayed", extra=self._log_fields(cause=str(error)))
            return None
        self._owner = Ownership(generation=attachment.generation, address=owner.address)
        return attachment

    async def _attach_here(self) -> SlotSession | None:
        """Return the session's slot at this host; None if another one owns the stream."""
        try:
            async with asyncio.timeout(_CLAIM_TIMEOUT_SECONDS):
                return await self._streams.attach_here(
                    self._grant,
                    self._publisher,
                    ended_owner=self._ended_owner,
                    silent_owner=self._silent_owner(),
                )
        except OwnedElsewhere as elsewhere:
            self._owner = elsewhere.owner
        except (TimeoutError, PortError) as error:
            log.debug("owner unknown", extra=self._log_fields(cause=repr(error)))
        return None

    def _silent_owner(self) -> int | None:
        """Return the last owner's generation if it has been silent for `_SILENT_SECONDS`."""
        last = self._last_attachment
        if last is None or self._clock() - last.last_received < _SILENT_SECONDS:
            return None
        return last.generation

    async def _relay_to(self, attachment: Attachment) -> None:
        """Send the owner what it lacks, and from then on what arrives."""
        if self._is_closed:
            attachment.close(goodbye=False)
            return
        self._has_begun = True
        self._attachment = attachment
        if not attachment.is_open:  # in the meantime
            self.attachment_ended(attachment, "ended at once")
            return
        log.info("relayed", extra=self._log_fields(owner=attachment.address))
        if self._is_announced:
            attachment.picture_announced()
        last = self._last_attachment
        is_same_ownership = last is not None and last.generation == attachment.generation
        received_until = last.last_received if last is not None and is_same_ownership else None
        arrivals, position = self._ring.read_lacking(self._clock(), received_until)
        while arrivals:
            for arrival in arrivals:
                _pass_on(arrival, attachment)
                await attachment.drained()
                if self._attachment is not attachment:
                    return
            arrivals, position = self._ring.read_from(position)
        self._place = attachment

    def _continue_here(self, session: SlotSession) -> None:
        """Pass what is not stored, and from then on what arrives, to a session of this host."""
        if self._is_closed:
            session.close(goodbye=False)
            return
        self._place, self._is_local = session, True
        arrivals, _ = self._ring.read_lacking(self._clock())
        log.warning("stream taken over", extra=self._log_fields(arrivals=len(arrivals)))
        if self._is_announced:
            session.picture_announced()
        for arrival in arrivals:
            _pass_on(arrival, session)
        self._ring.clear()

    def _disconnect(self, reason: str) -> None:
        if self._is_closed:  # its connection may have another session by now
            return
        log.info("relay ended", extra=self._log_fields(cause=reason))
        self._publisher.disconnect(reason)

    def _log_fields(self, **more: object) -> dict[str, object]:
        grant = self._grant
        fields: dict[str, object] = {"stream": grant.hash, "slot": str(grant.slot)}
        return {**fields, "peer": self._publisher.peer, **more}


def _pass_on(arrival: Arrival, place: PublisherSession) -> None:
    match arrival.item:
        case MediaPacket() as packet:
            place.receive_packets((packet,), arrival.at)
        case Jump():
            place.clock_jumped()
        case track:
            place.receive_track(track, arrival.at)


async def _or_occupied(place: Awaitable[T]) -> T | SlotOccupied:
    """Return where a session is attached, or the refusal, which would cancel a task group."""
    try:
        return await place
    except SlotOccupied as occupied:
        return occupied
