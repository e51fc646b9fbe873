"""Accepts publishers that other hosts relay to this one, the owner of their streams.

To its stream, a relayed publisher is like any other that is connected. A lost link loses all its
publishers. Times are seconds of the event loop's clock. The arrival time of media is that at the
relaying host: when their message arrives here, minus the age that the host sends with them.
"""

import asyncio
import logging
import socket
import ssl
from collections import defaultdict
from typing import Final

from ingest.acceptor import Acceptor
from ingest.relay.handshakes import Handshakes
from ingest.relay.link import RelayLink, RelayLinks
from ingest.relay.messages import (
    Attach,
    Attached,
    AttachRefused,
    Close,
    Disconnect,
    Message,
    PartReceived,
    RelayedJump,
    RelayedPacket,
    RelayedTrack,
    RelayProtocolError,
    Stored,
    age_in_ms,
)
from ingest.stream.live_stream import SlotOccupied
from ingest.stream.ports import PortError
from ingest.stream.registry import LiveStreams, OwnedElsewhere
from ingest.stream.slot_session import CloseReason, SlotSession
from media.loop_lag import LoopLag
from media.packet import MediaPacket
from media.track import Track, VideoTrack

log = logging.getLogger(__name__)
security = logging.getLogger("security")

MAX_LINKS: Final = 256  # hosts; each has one link here, and another for a moment when it reconnects
MAX_SESSIONS: Final = 4_096  # of one link: more encoders than a host takes
_HANDSHAKE_SECONDS: Final = 5.0
_SHUTDOWN_SECONDS: Final = 2.0
# Packets arrive a little earlier or later than they are due. What a relaying host has in excess is
# not shown again, since it is known how far the encoders are apart.
_KEPT_LONGER_SECONDS: Final = 0.25

_EncoderMessage = RelayedTrack | RelayedPacket | PartReceived | RelayedJump


class _NoTrack(Exception):
    """A packet came without a track before it."""


class RelayedPublisher:
    """An encoder that is connected to another host; the `ConnectedPublisher` of its stream.

    `peer` is the encoder's address. `session` is its session once it is attached.
    """

    def __init__(self, host: "_RelayingHost", attach: Attach, now: float) -> None:
        self.number = attach.number
        self.grant = attach.grant.received()
        self.peer = attach.peer
        self.session: SlotSession | None = None
        self.ended: Close | None = None  # before it was attached
        self._host = host
        self._last_received = now
        self._tracks: dict[bool, Track] = {}  # by whether it is of video

    @property
    def last_received(self) -> float:
        """When the last of its messages arrived."""
        return self._last_received

    def disconnect(self, reason: str, *, moved: bool = False) -> None:
        """Make the relaying host disconnect the encoder, or find the stream's new owner.

        A host that stops stores what it received before it releases a stream: until then, no other
        host can own it.
        """
        if moved and self._host.is_stopping:
            self._host.keep_until_over(self)
        else:
            self._host.remove(self)
            self._send_disconnect(reason, moved=moved)

    def hand_over(self) -> None:
        """Make the relaying host find the stream's new owner, as this host has released it."""
        self._send_disconnect("the service is stopping", moved=True)

    def _send_disconnect(self, reason: str, *, moved: bool) -> None:
        self._host.link.send(Disconnect(number=self.number, moved=moved, reason=reason))

    def media_stored(self, seconds_ago: float) -> None:
        """Report to the relaying host up to when media survive this host.

        That is until its encoder had sent the same moment of the programme, if it is known to be
        ahead. If it is behind, it sends that again anyway.
        """
        lead = None if self.session is None else self.session.lead
        if lead is not None and lead > 0:
            seconds_ago += lead + _KEPT_LONGER_SECONDS
        self._host.link.send(Stored(number=self.number, age_ms=age_in_ms(seconds_ago)))

    def receive(self, message: _EncoderMessage, now: float) -> None:
        """Pass a message of the encoder to its session.

        Raises:
            RelayProtocolError: it has no session yet.
            _NoTrack: it is a packet of no track.
        """
        self._last_received = now
        session = self.session
        if session is None:
            raise RelayProtocolError(f"{type(message).__name__} of a session without a slot")
        match message:
            case RelayedPacket():
                track = self._tracks.get(message.video)
                if track is None:
                    raise _NoTrack
                packet = MediaPacket(
                    track=track,
                    dts=message.dts,
                    pts=message.pts,
                    key=message.key,
                    data=message.data,
                )
                session.receive_packets((packet,), now - message.age_ms / 1000)
            case RelayedTrack():
                self._tracks[isinstance(message.track, VideoTrack)] = message.track
                session.receive_track(message.track, now - message.age_ms / 1000)
            case PartReceived() if message.unusable:
                session.receive_unusable(message.unusable, now, video=message.video)
            case PartReceived() if message.announced:
                session.picture_announced()
            case PartReceived():
                session.receive_part(now)
            case RelayedJump():
                session.clock_jumped()


class _RelayingHost:
    """The publishers that come over one link; its `LinkUser`."""

    def __init__(self, listener: "RelayListener", peer: str, lag: LoopLag) -> None:
        self._listener = listener
        self._publishers: dict[int, RelayedPublisher] = {}
        self._next_number = 0
        self.link = RelayLink(self, peer, lag, listener.counters)

    @property
    def is_stopping(self) -> bool:
        """True once this host is stopping."""
        return self._listener.is_stopping

    def link_ready(self) -> None:
        """Log that another host relays to this one."""
        log.info("link up", extra={"peer": self.link.peer})

    def receive(self, message: Message, now: float) -> None:
        """Handle a message of the relaying host."""
        match message:
            case Attach():
                self._attach(message, now)
            case Close():
                publisher = self._publishers.get(message.number)
                if publisher is not None:
                    self._close(publisher, message)
            case RelayedTrack() | RelayedPacket() | PartReceived() | RelayedJump():
                # A missing publisher was disconnected here before the other host knew.
                publisher = self._publishers.get(message.number)
                if publisher is not None:
                    self._receive_of(publisher, message, now)
            case _:
                raise RelayProtocolError(f"{type(message).__name__} from a relaying host")

    def _receive_of(
        self, publisher: RelayedPublisher, message: _EncoderMessage, now: float
    ) -> None:
        about = {"stream": publisher.grant.hash, "slot": str(publisher.grant.slot)}
        try:
            publisher.receive(message, now)
        except RelayProtocolError:
            raise
        except _NoTrack:  # broken media of one encoder must not end the others
            log.warning("session refused", extra={**about, "cause": "a packet without a track"})
            self._end_session(publisher, "a packet without a track")
        except Exception:  # a bug in one session must not end the others
            log.exception("session failed", extra=about)
            self._end_session(publisher, "failure")

    def _end_session(self, publisher: RelayedPublisher, reason: str) -> None:
        self._close(
            publisher,
            Close(number=publisher.number, goodbye=False, reason=CloseReason.CLOSED),
        )
        publisher.disconnect(reason)

    def link_lost(self, cause: str) -> None:
        """Close the sessions of all publishers."""
        self._listener.remove(self.link)
        about = {"peer": self.link.peer, "cause": cause, "publishers": len(self._publishers)}
        log.info("link down", extra=about)
        if self._publishers:
            self._listener.counters.lost += 1
        for publisher in list(self._publishers.values()):
            self._close(publisher, Close(number=publisher.number, goodbye=False, reason=None))

    def remove(self, publisher: RelayedPublisher) -> None:
        """Forget a publisher: its session has ended."""
        self._publishers.pop(publisher.number, None)
        self._listener.detached(publisher)

    def keep_until_over(self, publisher: RelayedPublisher) -> None:
        """Receive nothing more from a publisher whose stream is stopping."""
        self.remove(publisher)
        self._listener.keep_until_over(publisher)

    def _attach(self, message: Attach, now: float) -> None:
        if message.number < self._next_number:
            raise RelayProtocolError(f"session {message.number} comes twice")
        self._next_number = message.number + 1
        if len(self._publishers) >= MAX_SESSIONS:
            raise RelayProtocolError(f"more than {MAX_SESSIONS} sessions")
        publisher = RelayedPublisher(self, message, now)
        self._publishers[message.number] = publisher
        self._listener.start_attaching(publisher, self)

    def accept(self, publisher: RelayedPublisher, session: SlotSession, generation: int) -> None:
        """Answer that a publisher has its slot."""
        publisher.session = session
        self.link.send(Attached(number=publisher.number, generation=generation))

    def refuse(self, publisher: RelayedPublisher, reason: str, *, occupied: bool) -> None:
        """Answer that a publisher has no slot."""
        self.remove(publisher)
        self.link.send(AttachRefused(number=publisher.number, occupied=occupied, reason=reason))

    def _close(self, publisher: RelayedPublisher, message: Close) -> None:
        self.remove(publisher)
        if publisher.session is None:
            publisher.ended = message
        else:
            publisher.session.close(goodbye=message.goodbye, reason=message.reason)


class RelayListener(RelayLinks):
    """Accepts links of other hosts, and the publishers that come over them.

    `tls` accepts the hosts of this installation alone. `lag` is that of the event loop.
    """

    def __init__(
        self, streams: LiveStreams, tls: ssl.SSLContext, tasks: asyncio.TaskGroup, lag: LoopLag
    ) -> None:
        super().__init__(tasks, lag)
        self._streams = streams
        self._tls = tls
        self._acceptor: Acceptor | None = None
        self._accepted: set[socket.socket] = set()  # of tasks that have not begun
        self._handshakes = Handshakes()
        self._publishers: defaultdict[int, set[RelayedPublisher]] = defaultdict(set)  # by stream
        # Of streams that are stopping.
        self._leaving: defaultdict[int, list[RelayedPublisher]] = defaultdict(list)
        streams.on_over = self._hand_over

    @property
    def encoders(self) -> int:
        """How many encoders other hosts relay to this one now."""
        return sum(map(len, self._publishers.values()))

    def listen(self, sock: socket.socket) -> None:
        """Accept links on a bound socket, which `close` closes."""
        self._acceptor = Acceptor(sock, self._accept, self._not_accepted)

    def media_stored(self, stream: int, seconds_ago: float) -> None:
        """Report to relaying hosts up to when a stream's media survive this host.

        `seconds_ago` is when the newest media arrived that are stored or at a shared edge.
        """
        for publisher in (*self._publishers.get(stream, ()), *self._leaving.get(stream, ())):
            publisher.media_stored(seconds_ago)

    def close(self) -> None:
        """Stop accepting, and close all links."""
        if self._acceptor is not None:
            self._acceptor.close()
        for accepted in self._accepted:
            accepted.close()
        super().close()

    # -- accepting --------------------------------------------------------------------------------

    def _not_accepted(self, error: OSError) -> None:
        log.error("cannot accept hosts", extra={"cause": str(error)})

    def _accept(self, accepted: socket.socket, address: str, port: int) -> None:
        if len(self.links) >= MAX_LINKS or not self._handshakes.begin(address):
            self._log_refusal(address, "too many links")
            accepted.close()
            return
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._accepted.add(accepted)
        self.start(self._open(accepted, address, port))

    async def _open(self, sock: socket.socket, address: str, port: int) -> None:
        """Open a link on a connection once its host has proved that it is of the installation."""
        self._accepted.discard(sock)
        host = _RelayingHost(self, f"{address}:{port}", self.lag)
        authenticated = False
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: host.link,
                sock,
                ssl=self._tls,
                ssl_handshake_timeout=_HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=_SHUTDOWN_SECONDS,
            )
        except OSError as error:  # the base class of TLS's errors
            self._log_refusal(address, str(error) or "closed by the other host")
            sock.close()
        else:
            authenticated = True
            if host.link.is_open:
                self.add(host.link)
        finally:
            self._handshakes.end(address, authenticated=authenticated)

    def _log_refusal(self, address: str, cause: str) -> None:
        """Log that a host was refused, unless that was logged recently: it retries."""
        if self._handshakes.should_log_refusal(address, asyncio.get_running_loop().time()):
            security.info("host refused", extra={"peer": address, "cause": cause})
            log.warning("host refused", extra={"peer": address, "cause": cause})

    # -- what links need --------------------------------------------------------------------------

    @property
    def is_stopping(self) -> bool:
        """True once this host is stopping."""
        return self._streams.is_draining

    def remove(self, link: RelayLink) -> None:
        """Forget a link that is lost."""
        self.links.discard(link)

    def start_attaching(self, publisher: RelayedPublisher, host: _RelayingHost) -> None:
        """Find the slot of a publisher, and answer."""
        self.start(self._attach(publisher, host))

    def detached(self, publisher: RelayedPublisher) -> None:
        """Forget a publisher whose session has ended."""
        stream = publisher.grant.stream
        self._publishers[stream].discard(publisher)
        if not self._publishers[stream]:
            del self._publishers[stream]

    def keep_until_over(self, publisher: RelayedPublisher) -> None:
        """Notify the host of a publisher when its stream is over here."""
        self._leaving[publisher.grant.stream].append(publisher)

    def _hand_over(self, stream: int) -> None:
        for publisher in self._leaving.pop(stream, ()):
            publisher.hand_over()

    async def _attach(self, publisher: RelayedPublisher, host: _RelayingHost) -> None:
        grant = publisher.grant
        try:
            session = await self._streams.attach_here(grant, publisher)
        except SlotOccupied as refused:
            # While this host stops, another one will have the stream in a moment.
            host.refuse(publisher, str(refused), occupied=not self._streams.is_draining)
        except (OwnedElsewhere, PortError, TimeoutError) as error:
            host.refuse(publisher, f"not served here: {error}", occupied=False)
        except Exception:  # a bug in one session must not end the others
            log.exception("not attached", extra={"stream": grant.hash, "peer": publisher.peer})
            host.refuse(publisher, "failure", occupied=False)
        else:
            if publisher.ended is not None:  # in the meantime
                session.close(goodbye=publisher.ended.goodbye, reason=publisher.ended.reason)
                return
            self._publishers[grant.stream].add(publisher)
            fields = {"stream": grant.hash, "slot": str(grant.slot), "peer": publisher.peer}
            log.info("relayed publisher on", extra={**fields, "host": host.link.peer})
            host.accept(publisher, session, self._streams.generation_of(grant.stream))
