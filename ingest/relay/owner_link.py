"""The relaying host's end of a link: the sessions that it has at one owner of streams."""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from ingest.relay.link import LinkCounters, RelayLink
from ingest.relay.messages import (
    Attach,
    Attached,
    AttachRefused,
    Close,
    Disconnect,
    Message,
    PartReceived,
    RelayedGrant,
    RelayedJump,
    RelayedPacket,
    RelayedTrack,
    RelayProtocolError,
    Stored,
    age_in_ms,
)
from ingest.stream.live_stream import SlotOccupied
from ingest.stream.ports import Grant
from ingest.stream.slot_session import CloseReason
from media.loop_lag import LoopLag
from media.packet import MediaPacket
from media.track import Track, VideoTrack

# An owner waits 2.5 s for the slot, and its database a moment.
_ANSWER_SECONDS: Final = 5.0
# An encoder is alive if something of it came within 0.5 s, the shortest detection of a failure.
_PART_SECONDS: Final = 0.1


class OwnerUnreachable(Exception):
    """The owner cannot be reached, or no longer owns the stream; the message gives the cause."""


class OwnerGone(OwnerUnreachable):
    """The owner's process has ended."""


class AttachmentUser(Protocol):
    """The session that an attachment is for."""

    def attachment_ended(self, attachment: "Attachment", cause: str) -> None:
        """Handle that the link was lost, or that the owner ended the session (`farewell`)."""
        ...

    def media_stored(self, attachment: "Attachment", seconds_ago: float) -> None:
        """Handle the report that media which arrived until then are stored."""
        ...


class Attachment:
    """A session's slot at the owner of its stream: the `PublisherSession` that it relays to.

    `generation` is that of the ownership. `farewell` is the message that ended the session, if any.
    """

    def __init__(self, owner: "OwnerLink", number: int, user: AttachmentUser) -> None:
        self.number = number
        self.user = user
        self.generation = 0
        self.is_open = True
        self.farewell: Disconnect | None = None
        self._owner = owner
        self._link = owner.link
        self._clock = asyncio.get_running_loop().time
        self._last_sent = 0.0
        self._unusable_sent = {True: 0.0, False: 0.0}  # by whether it is of video

    @property
    def address(self) -> str:
        """The owner's address."""
        return self._link.peer

    @property
    def last_received(self) -> float:
        """When the owner last sent something."""
        return self._link.last_received

    def receive_track(self, track: Track, now: float) -> None:
        """Send a decoder configuration."""
        self._last_sent = now
        self._send(RelayedTrack(number=self.number, age_ms=self._age_ms(now), track=track))

    def receive_packets(self, packets: Sequence[MediaPacket], now: float) -> None:
        """Send packets that came together."""
        self._last_sent, age_ms = now, self._age_ms(now)
        for packet in packets:
            self._send(
                RelayedPacket(
                    number=self.number,
                    age_ms=age_ms,
                    video=isinstance(packet.track, VideoTrack),
                    dts=packet.dts,
                    pts=packet.pts,
                    key=packet.key,
                    data=packet.data,
                )
            )

    def receive_part(self, now: float) -> None:
        """Report that some of a packet's bytes arrived, unless something was sent just now."""
        if now - self._last_sent >= _PART_SECONDS:
            self._last_sent = now
            self._send(PartReceived(number=self.number))

    def receive_unusable(self, cause: str, now: float, *, video: bool) -> None:
        """Report that packets of `video` or audio arrive that cannot be used."""
        if now - self._unusable_sent[video] >= _PART_SECONDS:
            self._unusable_sent[video] = now
            self._send(PartReceived(number=self.number, video=video, unusable=cause))

    def picture_announced(self) -> None:
        """Report that the encoder announced a picture."""
        self._send(PartReceived(number=self.number, announced=True))

    def clock_jumped(self) -> None:
        """Report that the encoder's clock restarted."""
        self._send(RelayedJump(number=self.number))

    async def drained(self) -> None:
        """Wait until there is room for older media, or until the link is lost."""
        await self._link.drained()

    def close(self, *, goodbye: bool, reason: CloseReason | None = None) -> None:
        """End the session at the owner; its user is not called."""
        if self.is_open:
            self._send(Close(number=self.number, goodbye=goodbye, reason=reason))
            self.is_open = False
            self._owner.remove(self)

    def end(self, cause: str, farewell: Disconnect | None = None) -> None:
        """Handle the end of the session at the owner, or of the link."""
        if self.is_open:
            self.is_open = False
            self.farewell = farewell
            self._owner.remove(self)
            self.user.attachment_ended(self, cause)

    def _send(self, message: Message) -> None:
        if self.is_open:
            self._link.send(message)

    def _age_ms(self, arrived: float) -> int:
        return age_in_ms(self._clock() - arrived)


class OwnerLink:
    """A link to an owner of streams; the `LinkUser` at the relaying host.

    `on_end` is called when the link is lost, and when it was closed for want of sessions.
    """

    def __init__(
        self,
        address: str,
        lag: LoopLag,
        on_end: Callable[["OwnerLink", str], None],
        counters: LinkCounters | None = None,
    ) -> None:
        self._counters = LinkCounters() if counters is None else counters
        self.link = RelayLink(self, address, lag, self._counters)
        self._on_end = on_end
        self._ready = asyncio.Event()
        self._cause = ""  # why the link was lost
        self._numbers = itertools.count()
        self._attachments: dict[int, Attachment] = {}
        self._answers: dict[int, asyncio.Future[int]] = {}

    @property
    def encoders(self) -> int:
        """How many encoders are relayed over it."""
        return len(self._attachments)

    @property
    def is_ready(self) -> bool:
        """True while sessions can be attached."""
        return self._ready.is_set() and self.link.is_open

    async def wait_ready(self) -> None:
        """Wait until the owner has greeted with this version of the protocol.

        Raises:
            OwnerUnreachable: the link was lost before.
        """
        await self._ready.wait()
        if not self.link.is_open:
            raise OwnerUnreachable(self._cause)

    async def attach(self, grant: Grant, peer: str, user: AttachmentUser) -> Attachment:
        """Give a publisher its slot at the owner.

        Raises:
            SlotOccupied: another encoder is sending.
            OwnerUnreachable: the link was lost, or the other host is not the owner.
        """
        attachment = Attachment(self, next(self._numbers), user)
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._attachments[attachment.number] = attachment
        self._answers[attachment.number] = answer
        self.link.send(Attach(number=attachment.number, grant=RelayedGrant.of(grant), peer=peer))
        attached = False
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                attachment.generation = await answer
            attached = True
        except TimeoutError as error:
            raise OwnerUnreachable("it does not answer") from error
        finally:
            del self._answers[attachment.number]
            if not attached:
                attachment.close(goodbye=False)
        return attachment

    def remove(self, attachment: Attachment) -> None:
        """Forget a session; a link without sessions is closed."""
        self._attachments.pop(attachment.number, None)
        if not self._attachments and self.link.is_open:
            self.link.close()

    # -- what the link calls ----------------------------------------------------------------------

    def link_ready(self) -> None:
        """Handle the owner's greeting, which has this version of the protocol."""
        self._ready.set()

    def receive(self, message: Message, now: float) -> None:  # noqa: ARG002 # nothing is timed
        """Handle a message of the owner.

        Raises:
            RelayProtocolError: an owner must not send this message.
        """
        match message:
            case Attached():
                self._answer(message.number, message.generation)
            case AttachRefused():
                occupied = message.occupied
                self._answer(
                    message.number, SlotOccupied() if occupied else OwnerUnreachable(message.reason)
                )
            case Disconnect():
                attachment = self._attachments.get(message.number)
                if attachment is not None:
                    attachment.end(message.reason, message)
            case Stored():
                attachment = self._attachments.get(message.number)
                if attachment is not None:
                    attachment.user.media_stored(attachment, message.age_ms / 1000)
            case _:
                raise RelayProtocolError(f"{type(message).__name__} from an owner")

    def link_lost(self, cause: str) -> None:
        """End all sessions."""
        self._cause = cause
        self._ready.set()
        if self._attachments:
            self._counters.lost += 1
        self._on_end(self, cause)
        for number in list(self._answers):
            self._answer(number, OwnerUnreachable(cause))
        for attachment in list(self._attachments.values()):
            attachment.end(cause)

    def _answer(self, number: int, answer: int | Exception) -> None:
        future = self._answers.get(number)
        if future is None or future.done():
            return
        if isinstance(answer, int):
            future.set_result(answer)
        else:
            future.set_exception(answer)
