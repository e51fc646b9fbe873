"""One encoder's connection: moves bytes and events between a socket and its RTMP session.

The session interprets the protocol; this module reads and writes, looks the stream key up and
passes packets to the stream's slot session. Reading never pauses for a slow engine, which would
look like a stalled encoder.
"""

import asyncio
import contextlib
import fcntl
import functools
import logging
import os
import socket
import struct
import termios
from collections.abc import Coroutine
from typing import Final, Protocol, cast

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
from ingest.server.read_batcher import ReadBatcher
from ingest.stream.live_stream import SlotOccupied
from ingest.stream.ports import Grant, KeyDirectory, PortError, StreamEnded
from ingest.stream.registry import LiveStreams, NotRelayed
from ingest.stream.slot_session import CloseReason, PublisherSession
from media.loop_lag import LoopLag
from media.packet import MediaPacket
from media.stream_keys import StreamKey

log = logging.getLogger(__name__)
security = logging.getLogger("security")

# A close right after a status, with unread input, makes the kernel send a reset that can overtake
# the status: the peer gets this long to read it.
_FLUSH_SECONDS: Final = 0.2
_LOOK_UP_SECONDS: Final = 5.0
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
_UNKNOWN_KEY: Final = "no stream has this key"
_TOO_MANY_WRONG: Final = "too many wrong keys from one address"


class ConnectionCounters:
    """Counts of what connections did, for the metrics."""

    def __init__(self) -> None:
        self.connections = 0
        self.publishers = 0
        self.bytes_in = 0
        self.refused: dict[str, int] = {}

    def count_refusal(self, cause: str) -> None:
        """Count a refusal by its cause."""
        self.refused[cause] = self.refused.get(cause, 0) + 1


class ConnectionHost(Protocol):
    """What a connection needs of the listener that accepted it."""

    limits: Limits
    directory: KeyDirectory
    streams: LiveStreams
    counters: ConnectionCounters
    read_batcher: ReadBatcher
    lag: LoopLag

    def start(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Start a task that must not outlive the listener."""
        ...

    def remove(self, connection: "PublisherConnection") -> None:
        """Remove a connection."""
        ...

    def count_wrong_key(self, address: str) -> float | None:
        """Count a key that matched no stream; return after how many seconds to answer, or None."""
        ...

    def should_log(self, event: str, cause: str, address: str) -> bool:
        """Return whether to log what happened to a peer; a flood is only counted."""
        ...


class PublisherConnection(asyncio.Protocol):
    """The asyncio protocol of one connection; also the `ConnectedPublisher` that its stream sees.

    `host` is the encoder's address, by which the listener counts it.
    """

    def __init__(self, listener: ConnectionHost, host: str, port: int, *, secure: bool) -> None:
        self.host = host
        self._listener = listener
        self._scheme = "rtmps" if secure else "rtmp"
        self._clock = asyncio.get_running_loop().time
        self._transport: asyncio.Transport | None = None
        self._session: Session | None = None
        self._slot_session: PublisherSession | None = None
        self._address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._stream = "-"
        self._closing = False
        self._ended = asyncio.Event()
        self._goodbye = False
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
        return self._address

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
        self._ended.set()
        if self._transport is not None:
            self._transport.abort()

    # -- what the loop calls ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin a session."""
        # Always what connect_accepted_socket makes.
        self._transport = cast("asyncio.Transport", transport)
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
        log.debug("connection lost", extra={"peer": self._address, "cause": str(error)})
        self.abort()

    def pause_writing(self) -> None:
        """Close the connection to a peer that does not read our answers."""
        if not self._closing:
            self._close_for_peer_error(LimitExceeded("bytes left unread", _MAX_UNREAD_BYTES))

    def connection_lost(self, exc: Exception | None) -> None:
        """End the slot session and leave the listener."""
        self._closing = True
        self._ended.set()
        self._close_slot_session()
        self._listener.remove(self)
        if exc is not None:
            log.debug("connection lost", extra={"peer": self._address, "cause": str(exc)})

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
        """Read in batches while the peer only sends media, else as it comes.

        Not over TLS: there the loop keeps reading the socket, and what it has read but not
        decrypted is lost when the encoder resets the connection, as ffmpeg sometimes does.
        """
        if self._transport is None or self._scheme != "rtmp":
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
            self._listener.read_batcher.defer(self._transport, self)
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
                self._goodbye = True
                self._close_slot_session()
            case Connected():
                log.debug("dialogue", extra={**self._log_fields(), "agent": event.agent})

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
            if self._should_log("clock jumped", "its timestamps"):
                log.warning("clock jumped", extra=self._log_fields())
            self._slot_session.clock_jumped()

    def _count_beginning(self, now: float) -> None:
        """Count a new configuration or a jump of the clock, up to the limit."""
        if not self._beginnings.spend(1, now):
            most = self._listener.limits.beginnings_per_minute
            raise LimitExceeded("new configurations and clock jumps a minute", most)

    async def _admit(self, request: PublishRequested) -> None:
        """Answer a request to publish."""
        try:
            streams = self._listener.streams
            revocations = streams.revocations
            grant = await self._look_up(request)
            if grant is None:
                await self._refuse_wrong_key()
                return
            self._stream = grant.hash
            renew = functools.partial(self._look_up, request)
            slot_session = await streams.attach(grant, self, renew)
            # A revocation since the look-up could not yet disconnect this publisher.
            if streams.revocations != revocations and not await self._is_still_valid(
                request, slot_session
            ):
                self._refuse("wrong key", _UNKNOWN_KEY)
                return
            self._start_publishing(slot_session, grant)
        except (TimeoutError, PortError) as error:
            if self._should_log("keys not looked up", type(error).__name__):
                log.exception("keys not looked up", extra=self._log_fields())
            self._refuse("look-up failed", "the service cannot look keys up now")
        except StreamEnded as error:
            self._stream = error.hash
            self._refuse("ended", str(error))
        except SlotOccupied:
            self._refuse("occupied", "another encoder is sending with this key")
        except NotRelayed as error:
            self._refuse("not relayed", str(error))
        except Exception as error:  # noqa: BLE001  # a bug on one connection must not end the others
            self._close_for_own_error(error)

    def _start_publishing(self, slot_session: PublisherSession, grant: Grant) -> None:
        if self._closing or self._session is None:
            slot_session.close(goodbye=False)
            return
        self._session.allow()
        if not self._session.publishing:  # it withdrew its request while the key was looked up
            slot_session.close(goodbye=True)
            self._flush()
            return
        self._slot_session = slot_session
        self._goodbye = False
        self._listener.counters.publishers += 1
        log.info("publisher on", extra={**self._log_fields(), "slot": str(grant.slot)})
        self._flush()

    async def _look_up(self, request: PublishRequested) -> Grant | None:
        key = StreamKey.parse(request.name)
        # A malformed key is looked up too, so that it takes as long as a wrong one.
        key = key if key is not None else StreamKey(hash="", secret="")
        while True:
            began = self._clock()
            try:
                async with asyncio.timeout(_LOOK_UP_SECONDS):
                    return await self._listener.directory.grant(request.application, key)
            except TimeoutError:
                # The answer may have been there while the loop was held up.
                if self._listener.lag.elapsed(began, self._clock()) >= _LOOK_UP_SECONDS:
                    raise

    async def _is_still_valid(
        self, request: PublishRequested, slot_session: PublisherSession
    ) -> bool:
        """Look the key up again; close the slot session if it may not publish any more."""
        valid = False
        try:
            valid = await self._look_up(request) is not None
        finally:
            if not valid:
                slot_session.close(goodbye=False, reason=CloseReason.CLOSED)
        return valid

    async def _refuse_wrong_key(self) -> None:
        """Refuse a key, at once or later; beyond that, close without an answer."""
        delay = self._listener.count_wrong_key(self.host)
        if delay is None:
            self._listener.counters.count_refusal(_TOO_MANY_WRONG)
            security.info("rate limited", extra={"peer": self.host, "cause": _TOO_MANY_WRONG})
            if self._should_log("refused", _TOO_MANY_WRONG):
                log.info("refused", extra={**self._log_fields(), "cause": _TOO_MANY_WRONG})
            self.abort()
            return
        security.info("wrong key", extra={"peer": self.host})
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await self._ended.wait()
        self._refuse("wrong key", _UNKNOWN_KEY)

    def _refuse(self, cause: str, description: str) -> None:
        self._listener.counters.count_refusal(cause)
        if self._should_log("refused", cause):
            log.info("refused", extra={**self._log_fields(), "cause": cause})
        if self._session is not None and not self._closing:
            self._session.deny(_BAD_NAME, description)
        self._close(cause)

    # -- ends -------------------------------------------------------------------------------------

    def _close_for_peer_error(self, error: RtmpError) -> None:
        cause = type(error).__name__
        self._listener.counters.count_refusal(cause)
        if self._should_log("closed", cause):
            log.info("closed", extra={**self._log_fields(), "cause": str(error)})
        silent = isinstance(error, TimedOut)
        self._close(str(error), CloseReason.SILENT if silent else CloseReason.CLOSED)

    def _close_for_own_error(self, error: Exception) -> None:
        """Close because of a bug of ours."""
        self._listener.counters.count_refusal("failure")
        if self._should_log("connection failed", "failure"):
            log.error("connection failed", extra=self._log_fields(), exc_info=error)
        self._close("failure")

    def _should_log(self, event: str, cause: str) -> bool:
        return self._listener.should_log(event, cause, self.host)

    def _close(self, reason: str, close_reason: CloseReason = CloseReason.CLOSED) -> None:
        """Write what is left, and close after the peer had time to read it."""
        if self._closing or self._transport is None:
            return
        self._closing = True
        self._ended.set()
        self._flush()
        self._close_slot_session(close_reason)
        log.debug("closing", extra={**self._log_fields(), "cause": reason})
        transport = self._transport
        loop = asyncio.get_running_loop()
        loop.call_later(_FLUSH_SECONDS, transport.close)
        # A peer that reads nothing would keep the socket open for ever.
        loop.call_later(10 * _FLUSH_SECONDS, transport.abort)

    def _close_slot_session(self, reason: CloseReason | None = None) -> None:
        slot_session, self._slot_session = self._slot_session, None
        if slot_session is not None:
            self._listener.counters.publishers -= 1
            log.info("publisher off", extra={**self._log_fields(), "goodbye": self._goodbye})
            slot_session.close(goodbye=self._goodbye, reason=reason)

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
        self._transport.write(data)

    def _log_fields(self) -> dict[str, object]:
        return {"stream": self._stream, "peer": self._address, "by": self._scheme}


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
