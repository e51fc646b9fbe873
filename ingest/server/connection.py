"""One encoder's connection: moves bytes and events between a socket and its RTMP session.

The session interprets the protocol; this module reads and writes, asks for permission to publish
(`ingest.publishing`) and passes packets to the stream's slot session. Reading never pauses for a
slow engine, which would look like a stalled encoder.
"""

import asyncio
import contextlib
import fcntl
import logging
import os
import socket
import struct
import termios
from collections.abc import Coroutine
from typing import Final, Protocol, cast

from ingest.publishing.service import AdmittedEncoder, Denial, PublisherCounters
from ingest.rtmp.errors import LimitExceeded, RtmpError, TimedOut
from ingest.rtmp.events import (
    ClockJumped,
    Connected,
    Event,
    Goodbye,
    MediaUnusable,
    PictureAnnounced,
    PublishRequested,
    TrackFound,
)
from ingest.rtmp.handshake import ENTROPY_BYTES
from ingest.rtmp.limits import Limits, TokenBucket
from ingest.rtmp.session import Session
from ingest.server.read_batcher import BatchReceiver, ReadBatcher
from ingest.server.tls_layer import TlsLayer
from ingest.stream.slot_session import CloseReason, PublisherSession
from media.loop_lag import LoopLag
from media.packet import MediaPacket

log = logging.getLogger(__name__)

# A close right after a status, with unread input, makes the kernel send a reset that can overtake
# the status: the peer gets this long to read it.
_FLUSH_SECONDS: Final = 0.2
# The most of our answers that may wait for the kernel. An hour of acknowledgements and pings is
# 10 KiB, so a peer that leaves this much reads nothing.
_MAX_UNREAD_BYTES: Final = 64 << 10
# After a read of this size more is waiting: uvloop reads up to 250 KiB at once, asyncio's own loop
# and the batcher up to 256.
_FULL_READ_BYTES: Final = 200 << 10
# An encoder that closes before it has read our last bytes resets the connection, and its kernel
# drops what it had not sent yet. Encoders read whenever they send, so after a write reads are not
# deferred until it has sent again.
_AFTER_WRITE_SECONDS: Final = 0.1
# What an encoder sends while reads are deferred may still be in its kernel, so writes wait until
# reads have continued for a while.
_AFTER_DEFERRAL_SECONDS: Final = 0.2
# Neither matters if no read brings more than this share of our kernel's buffer, half of which the
# kernel offers to the encoder's: then what the encoder sends never waits for our reads.
_ROOMY_SHARE: Final = 1 / 4
# How often an answer may wait until pending input is read: 8 MiB, more than any socket buffers.
_MAX_WRITE_DELAYS: Final = 128
_BAD_NAME: Final = "NetStream.Publish.BadName"


class ConnectionHost(Protocol):
    """What a connection needs of the listener that accepted it."""

    limits: Limits
    counters: PublisherCounters
    read_batcher: ReadBatcher
    lag: LoopLag

    def start(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Start a task that must not outlive the listener."""
        ...

    def remove(self, connection: "PublisherConnection") -> None:
        """Remove a connection."""
        ...


class PublisherConnection(asyncio.Protocol):
    """The asyncio protocol of one encoder; also the `ConnectedPublisher` that its stream sees."""

    def __init__(self, listener: ConnectionHost, encoder: AdmittedEncoder) -> None:
        self.encoder = encoder
        self._listener = listener
        self._clock = asyncio.get_running_loop().time
        self._transport: asyncio.Transport | None = None
        self._tls: TlsLayer | None = None
        self._session: Session | None = None
        self._slot_session: PublisherSession | None = None
        self._closing = False
        self._unsent = b""
        self._write_delays = 0
        self._last_received = self._last_write = self._clock()
        self._last_deferral = -_AFTER_DEFERRAL_SECONDS
        self._largest_read = 0  # since the last write
        self._is_roomy = False  # the kernel's buffer
        beginnings = listener.limits.beginnings_per_minute
        self._beginnings = TokenBucket(beginnings / 60, beginnings, self._last_received)

    # -- what the stream sees ---------------------------------------------------------------------

    @property
    def peer(self) -> str:
        """The encoder's address and port."""
        return self.encoder.peer

    @property
    def last_received(self) -> float:
        """When its last byte arrived, on the event loop's clock."""
        return self._last_received

    def disconnect(self, reason: str, *, moved: bool = False) -> None:  # noqa: ARG002 # it comes back
        """Send the encoder the reason and close."""
        if self._session is not None:
            self._session.close_status("NetStream.Unpublish.Success", reason)
        self._close(reason)

    # -- what the listener sees -------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """True once the loop has connected a socket; then `connection_lost` will be called."""
        return self._transport is not None

    def abort(self) -> None:
        """Drop the connection without a status."""
        self._closing = True
        self.encoder.close()
        if self._transport is not None:
            self._transport.abort()

    # -- what the loop calls ----------------------------------------------------------------------

    def connection_made(
        self, transport: asyncio.BaseTransport, tls: TlsLayer | None = None
    ) -> None:
        """Begin a session, over `tls` if there is one."""
        # Always what connect_accepted_socket makes.
        self._transport = cast("asyncio.Transport", transport)
        self._tls = tls
        self._transport.set_write_buffer_limits(high=_MAX_UNREAD_BYTES)
        self._session = Session(
            limits=self._listener.limits,
            now=self._clock(),
            entropy=os.urandom(ENTROPY_BYTES),
            lag=self._listener.lag,
        )

    def data_received(self, data: bytes | memoryview) -> None:
        """Feed the session and handle its events."""
        if self._closing or self._session is None:
            return
        self._last_received = now = self._clock()
        size = len(data)
        self._listener.counters.bytes_in += size
        self._largest_read = max(self._largest_read, size)
        try:
            self._handle_all(self._session.receive(data, now), now)
            if self._slot_session is not None and self._session.is_mid_message:
                self._slot_session.receive_part(now)
        except RtmpError as error:
            self._close_for_peer_error(error)
        except Exception as error:  # noqa: BLE001  # a bug on one connection must not end the others
            self._close_for_own_error(error)
        self._flush()
        self._defer_reads(size, now)

    def read_failed(self, error: OSError) -> None:
        """Drop the connection, which was lost while reads were deferred."""
        log.debug("connection lost", extra={"peer": self.peer, "cause": str(error)})
        self.abort()

    def pause_writing(self) -> None:
        """Close the connection to a peer that does not read our answers."""
        if not self._closing:
            self._close_for_peer_error(LimitExceeded("bytes left unread", _MAX_UNREAD_BYTES))

    def connection_lost(self, exc: Exception | None) -> None:
        """End the slot session and leave the listener."""
        self._closing = True
        self._slot_session = None
        self.encoder.leave()
        self._listener.remove(self)
        if exc is not None:
            log.debug("connection lost", extra={"peer": self.peer, "cause": str(exc)})

    def tick(self, now: float) -> None:
        """Check deadlines and send pings."""
        if self._closing or self._session is None:
            return
        try:
            self._session.tick(now)
        except RtmpError as error:
            self._close_for_peer_error(error)
        except Exception as error:  # noqa: BLE001  # a bug on one connection must not end the others
            self._close_for_own_error(error)
        self._flush()

    def _defer_reads(self, read_bytes: int, now: float) -> None:
        """Read in batches while the peer only sends media, else as it comes."""
        if self._transport is None:
            return
        if (
            self._slot_session is not None
            and read_bytes < _FULL_READ_BYTES
            and (
                self._is_roomy
                or (not self._unsent and now - self._last_write >= _AFTER_WRITE_SECONDS)
            )
        ):
            self._last_deferral = now
            receiver: BatchReceiver = self._tls or self
            self._listener.read_batcher.defer(self._transport, receiver)
        else:
            self._listener.read_batcher.resume(self._transport)

    # -- events -----------------------------------------------------------------------------------

    def _handle_all(self, events: list[Event], now: float) -> None:
        """Handle what one read brought: packets that follow one another together."""
        packets: list[MediaPacket] = []
        for event in events:
            if isinstance(event, MediaPacket):
                packets.append(event)
                continue
            self._pass_on(packets, now)
            packets = []
            self._handle(event, now)
        self._pass_on(packets, now)

    def _pass_on(self, packets: list[MediaPacket], now: float) -> None:
        if packets and self._slot_session is not None:
            self._slot_session.receive_packets(packets, now)

    def _handle(self, event: Event, now: float) -> None:
        match event:
            case MediaPacket():
                pass  # handled together with those around it
            case TrackFound():
                self._receive_track(event, now)
            case MediaUnusable():
                self._receive_unusable(event, now)
            case PictureAnnounced():
                self._picture_announced()
            case ClockJumped():
                self._count_beginning(now)
                self._clock_jumped()
            case PublishRequested():
                self._listener.start(self._admit(event))
            case Goodbye():
                self._slot_session = None
                self.encoder.stop(goodbye=True)
            case Connected():
                log.debug("dialogue", extra={**self.encoder.log_fields, "agent": event.agent})

    def _receive_track(self, event: TrackFound, now: float) -> None:
        self._count_beginning(now)
        if self._slot_session is not None:
            self._slot_session.receive_track(event.track, now)

    def _picture_announced(self) -> None:
        if self._slot_session is not None:
            self._slot_session.picture_announced()

    def _receive_unusable(self, event: MediaUnusable, now: float) -> None:
        if self._slot_session is not None:
            self._slot_session.receive_unusable(event.cause, now, video=event.video)

    def _clock_jumped(self) -> None:
        if self._slot_session is not None:
            if self.encoder.should_log("clock jumped", "its timestamps"):
                log.warning("clock jumped", extra=self.encoder.log_fields)
            self._slot_session.clock_jumped()

    def _count_beginning(self, now: float) -> None:
        """Count a new configuration or a jump of the clock, up to the limit."""
        if not self._beginnings.spend(1, now):
            most = self._listener.limits.beginnings_per_minute
            raise LimitExceeded("new configurations and clock jumps a minute", most)

    async def _admit(self, request: PublishRequested) -> None:
        """Answer a request to publish."""
        try:
            answer = await self.encoder.request(request.application, request.name, self)
            if isinstance(answer, Denial):
                self._refuse(answer)
            elif answer is not None:
                self._start_publishing(answer)
        except Exception as error:  # noqa: BLE001  # a bug on one connection must not end the others
            self._close_for_own_error(error)

    def _start_publishing(self, slot_session: PublisherSession) -> None:
        if self._session is None:
            return
        self._session.allow()
        if self._session.publishing:
            self._slot_session = slot_session
            self.encoder.begin(slot_session)
        else:  # it withdrew its request while the key was looked up
            slot_session.close(goodbye=True)
        self._flush()

    def _refuse(self, denial: Denial) -> None:
        if denial.words is None:
            self.abort()
            return
        if self._session is not None and not self._closing:
            self._session.close_status(_BAD_NAME, denial.words)
        self._close(denial.cause)

    # -- ends -------------------------------------------------------------------------------------

    def _close_for_peer_error(self, error: RtmpError) -> None:
        self.encoder.broke_protocol(type(error).__name__, str(error))
        silent = isinstance(error, TimedOut)
        self._close(str(error), CloseReason.SILENT if silent else CloseReason.CLOSED)

    def _close_for_own_error(self, error: Exception) -> None:
        """Close because of a bug of ours."""
        self.encoder.failed(error)
        self._close("failure")

    def _close(self, reason: str, close_reason: CloseReason = CloseReason.CLOSED) -> None:
        """Write what is left, and close after the peer had time to read it."""
        if self._closing or self._transport is None:
            return
        self._closing = True
        self._flush()
        self._slot_session = None
        self.encoder.close(close_reason)
        log.debug("closing", extra={**self.encoder.log_fields, "cause": reason})
        transport = self._transport
        loop = asyncio.get_running_loop()
        loop.call_later(_FLUSH_SECONDS, (self._tls or transport).close)
        # A peer that reads nothing would keep the socket open for ever.
        loop.call_later(10 * _FLUSH_SECONDS, transport.abort)

    def _flush(self) -> None:
        """Write pending answers, but not while input is unread, unless the connection is closing.

        A peer that closes with unread input resets the connection. What it sent before, including
        its goodbye, can still be read, but not after a write has failed.
        """
        if self._session is None or self._transport is None:
            return
        data = self._unsent = self._unsent + self._session.outgoing()
        if not data or self._transport.is_closing():
            return
        if self._slot_session is not None and not self._closing:
            most = _ROOMY_SHARE * _receive_buffer_bytes(self._transport)
            self._is_roomy = not self._write_delays and self._largest_read <= most
            waited = self._clock() - self._last_deferral
            if not self._is_roomy and waited < _AFTER_DEFERRAL_SECONDS:
                return
        if (
            not self._closing
            and self._write_delays < _MAX_WRITE_DELAYS
            and _unread_bytes(self._transport)
        ):
            self._write_delays += 1
            return
        self._unsent, self._write_delays, self._largest_read = b"", 0, 0
        self._last_write = self._clock()
        (self._tls or self._transport).write(data)


def _unread_bytes(transport: asyncio.Transport) -> int:
    """Return how many bytes wait in the kernel."""
    sock = cast("socket.socket", transport.get_extra_info("socket"))  # as both loops provide
    with contextlib.suppress(OSError):
        (count,) = struct.unpack("i", fcntl.ioctl(sock.fileno(), termios.FIONREAD, bytes(4)))
        return int(count)
    return 0


def _receive_buffer_bytes(transport: asyncio.Transport) -> int:
    """Return the size of the kernel's buffer, which it adapts to the encoder; 0: unknown."""
    sock = cast("socket.socket", transport.get_extra_info("socket"))  # as both loops provide
    with contextlib.suppress(OSError):
        return sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    return 0
