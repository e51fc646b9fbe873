"""One encoder's connection: the pump between a socket and its RTMP session.

The session decides; this module moves bytes, asks the directory for leave and hands packets to the
stream's seat. Reading is never paused for a slow engine: that would look like a stalled encoder.
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

from ingest.rtmp.errors import LimitExceeded, RtmpError, TimedOut
from ingest.rtmp.events import (
    ClockJumped,
    Event,
    Goodbye,
    PacketIn,
    PublishAsked,
    TrackFound,
)
from ingest.rtmp.limits import Bucket, Limits
from ingest.rtmp.session import Session
from ingest.server.read_batcher import Beat
from ingest.stream.live_stream import Occupied
from ingest.stream.ports import Grant, KeyDirectory, PortError
from ingest.stream.registry import LiveStreams
from ingest.stream.slot_session import Leaving, Seat
from media.stream_keys import StreamKey

__all__ = ["House", "PublisherConnection", "Tally"]

log = logging.getLogger(__name__)

_ENTROPY_BYTES: Final = 1536
# A close right behind a status, with unread input, makes the kernel send a reset that can overtake
# the status: the peer gets this long to read it.
_FLUSH_SECONDS: Final = 0.2
_LOOK_UP_SECONDS: Final = 5.0
# What the kernel has not taken of our answers. An hour of acknowledgements and pings is 10 KiB, so
# who leaves this much reads nothing.
_UNREAD_BYTES: Final = 64 << 10
# A read that brought this much has not brought all there is: uvloop reads up to 250 KiB, asyncio's
# own loop up to 256.
_FULL_READ_BYTES: Final = 200 << 10
# An encoder that closes before it has read our last word resets the connection, and its kernel
# drops what it had not sent yet. It reads as it sends: so we read on until it has sent again.
_ATTENTIVE_SECONDS: Final = 0.1
# What it sends while we rest, its kernel may hold back too: so we speak only when we have read on
# for a while.
_RESTED_SECONDS: Final = 0.2
# How often an answer may wait for what came meanwhile to be read: 8 MiB, past any socket's room.
_WAITS: Final = 128
_BAD_NAME: Final = "NetStream.Publish.BadName"
_NOT_KNOWN: Final = "no stream has this key"


class Tally:
    """What connections did so far, for the metrics."""

    def __init__(self) -> None:
        self.connections = 0
        self.publishers = 0
        self.bytes_in = 0
        self.refused: dict[str, int] = {}

    def refuse(self, cause: str) -> None:
        """Count a refusal by its cause."""
        self.refused[cause] = self.refused.get(cause, 0) + 1


class House(Protocol):
    """What a connection needs of the listener that let it in."""

    limits: Limits
    directory: KeyDirectory
    streams: LiveStreams
    tally: Tally
    beat: Beat

    def run(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Run what must not outlive the house."""
        ...

    def leave(self, connection: "PublisherConnection") -> None:
        """Forget a connection."""
        ...

    def wrong_key(self, address: str) -> None:
        """Count a key that opened nothing."""
        ...

    def worth_a_line(self, what: str, cause: str, address: str) -> bool:
        """Say whether to log what befell a peer: a flood is counted and summed, not told."""
        ...


class PublisherConnection(asyncio.Protocol):
    """The asyncio protocol of one connection; also the `Publisher` that its stream sees.

    `host` is the encoder's address, by which the house counts it.
    """

    def __init__(self, house: House, host: str, port: int, *, secure: bool) -> None:
        self.host = host
        self._house = house
        self._scheme = "rtmps" if secure else "rtmp"
        self._clock = asyncio.get_running_loop().time
        self._transport: asyncio.Transport | None = None
        self._session: Session | None = None
        self._seat: Seat | None = None
        self._address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._stream = "-"
        self._closing = False
        self._goodbye = False
        self._unsaid = b""
        self._waits = 0
        self._heard = self._spoke = self._clock()
        self._rested = -_RESTED_SECONDS
        beginnings = house.limits.beginnings_per_minute
        self._beginnings = Bucket(beginnings / 60, beginnings, self._heard)

    # -- what the stream sees ---------------------------------------------------------------------

    @property
    def peer(self) -> str:
        """Address and port of the encoder."""
        return self._address

    @property
    def heard(self) -> float:
        """When its last byte came, on the event loop's clock."""
        return self._heard

    def take_off(self, reason: str) -> None:
        """Tell the encoder why, and close."""
        if self._session is not None:
            self._session.close_status("NetStream.Unpublish.Success", reason)
        self._close(reason)

    # -- what the house sees ----------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """Whether the loop has handed it a socket to talk on; it then tells when that is lost."""
        return self._transport is not None

    def abort(self) -> None:
        """Drop the connection without another word."""
        self._closing = True
        if self._transport is not None:
            self._transport.abort()

    # -- what the loop calls ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin a session."""
        # What connect_accepted_socket makes, and nothing else is handed to this protocol.
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_UNREAD_BYTES)
        self._session = Session(
            limits=self._house.limits, now=self._clock(), entropy=os.urandom(_ENTROPY_BYTES)
        )

    def data_received(self, data: bytes) -> None:
        """Feed the session and do what it found."""
        if self._closing or self._session is None:
            return
        self._heard = now = self._clock()
        self._house.tally.bytes_in += len(data)
        try:
            for event in self._session.receive(data, now):
                self._take(event, now)
        except RtmpError as error:
            self._fault(error)
        except Exception as error:  # noqa: BLE001  # ours, one encoder's alone: the rest go on
            self._failed(error)
        self._flush()
        self._rest(len(data), now)

    def pause_writing(self) -> None:
        """Give up on a peer that reads nothing of what it is told."""
        if not self._closing:
            self._fault(LimitExceeded("bytes left unread", _UNREAD_BYTES))

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave the seat and the house."""
        self._closing = True
        self._leave()
        self._house.leave(self)
        if exc is not None:
            log.debug("connection lost", extra={"peer": self._address, "cause": str(exc)})

    def tick(self, now: float) -> None:
        """Let time pass: deadlines and pings."""
        if self._closing or self._session is None:
            return
        try:
            self._session.tick(now)
        except RtmpError as error:
            self._fault(error)
        self._flush()

    def _rest(self, read_bytes: int, now: float) -> None:
        """Read no more before the beat, while all there is to say is media.

        Not over TLS: the loop reads the socket on there, and what it has read and not deciphered
        is lost when the encoder resets the connection, as ffmpeg's does at times.
        """
        if (
            self._seat is not None
            and self._transport is not None
            and self._scheme == "rtmp"
            and not self._unsaid
            and read_bytes < _FULL_READ_BYTES
            and now - self._spoke >= _ATTENTIVE_SECONDS
        ):
            self._rested = now
            self._house.beat.rest(self._transport)

    # -- events -----------------------------------------------------------------------------------

    def _take(self, event: Event, now: float) -> None:
        match event:
            case PacketIn():
                if self._seat is not None:
                    self._seat.packet(event.packet, now)
            case TrackFound():
                self._begins(now)
                if self._seat is not None:
                    self._seat.track(event.track, now)
            case ClockJumped():
                self._begins(now)
                if self._seat is not None:
                    if self._worth_a_line("clock jumped", "its timestamps"):
                        log.warning("clock jumped", extra=self._about())
                    self._seat.clock_jumped()
            case PublishAsked():
                self._house.run(self._admit(event))
            case Goodbye():
                self._goodbye = True
                self._leave()
            case _:
                log.debug("dialogue", extra={**self._about(), "said": type(event).__name__})

    def _begins(self, now: float) -> None:
        """Count what makes the source begin anew."""
        if not self._beginnings.take(1, now):
            most = self._house.limits.beginnings_per_minute
            raise LimitExceeded("beginnings of its media a minute", most)

    async def _admit(self, asked: PublishAsked) -> None:
        """Answer a wish to publish."""
        try:
            streams = self._house.streams
            orders = streams.orders
            grant = await self._look_up(asked)
            if grant is None:
                self._house.wrong_key(self.host)
                self._refuse("wrong key", _NOT_KNOWN)
                return
            self._stream = grant.hash
            seat = await streams.seat(grant, self)
            # An order that came since the look-up found nobody here to be taken off.
            if streams.orders != orders and not await self._still_right(asked, seat):
                self._refuse("wrong key", _NOT_KNOWN)
                return
            self._sit_down(seat, grant)
        except (TimeoutError, PortError) as error:
            if self._worth_a_line("keys not looked up", type(error).__name__):
                log.exception("keys not looked up", extra=self._about())
            self._refuse(
                "look-up failed", "the service cannot look keys up now"
            )  # ours, not theirs
        except Occupied:
            self._refuse("occupied", "another encoder is sending with this key")
        except Exception as error:  # noqa: BLE001  # ours, one encoder's alone: the rest go on
            self._failed(error)

    def _sit_down(self, seat: Seat, grant: Grant) -> None:
        if self._closing or self._session is None:
            seat.leave(goodbye=False)
            return
        self._session.allow()
        if not self._session.publishing:  # it took its wish back while the key was looked up
            seat.leave(goodbye=True)
            self._flush()
            return
        self._seat = seat
        self._goodbye = False
        self._house.tally.publishers += 1
        log.info("publisher on", extra={**self._about(), "slot": str(grant.slot)})
        self._flush()

    async def _look_up(self, asked: PublishAsked) -> Grant | None:
        key = StreamKey.parse(asked.name)
        # A text that is no key asks the directory too, so that it takes a wrong key's time.
        async with asyncio.timeout(_LOOK_UP_SECONDS):
            return await self._house.directory.grant(
                asked.application, key if key is not None else StreamKey(hash="", secret="")
            )

    async def _still_right(self, asked: PublishAsked, seat: Seat) -> bool:
        """Look the key up once more; where it opens nothing now, the seat is left."""
        right = False
        try:
            right = await self._look_up(asked) is not None
        finally:
            if not right:
                seat.leave(goodbye=False, why=Leaving.CLOSED)
        return right

    def _refuse(self, cause: str, description: str) -> None:
        self._house.tally.refuse(cause)
        if self._worth_a_line("refused", cause):
            log.info("refused", extra={**self._about(), "cause": cause})
        if self._session is not None and not self._closing:
            self._session.deny(_BAD_NAME, description)
        self._close(cause)

    # -- ends -------------------------------------------------------------------------------------

    def _fault(self, error: RtmpError) -> None:
        cause = type(error).__name__
        self._house.tally.refuse(cause)
        if self._worth_a_line("closed", cause):
            log.info("closed", extra={**self._about(), "cause": str(error)})
        silent = isinstance(error, TimedOut)
        self._close(str(error), Leaving.SILENT if silent else Leaving.CLOSED)

    def _failed(self, error: Exception) -> None:
        """Close for a fault of ours."""
        self._house.tally.refuse("failure")
        if self._worth_a_line("connection failed", "failure"):
            log.error("connection failed", extra=self._about(), exc_info=error)
        self._close("failure")

    def _worth_a_line(self, what: str, cause: str) -> bool:
        return self._house.worth_a_line(what, cause, self.host)

    def _close(self, reason: str, why: Leaving = Leaving.CLOSED) -> None:
        """Write what is left and close once the peer had time to read it."""
        if self._closing or self._transport is None:
            return
        self._closing = True
        self._flush()
        self._leave(why)
        log.debug("closing", extra={**self._about(), "cause": reason})
        transport = self._transport
        loop = asyncio.get_running_loop()
        loop.call_later(_FLUSH_SECONDS, transport.close)
        # A peer that reads nothing would keep the last status, and the socket, for ever.
        loop.call_later(10 * _FLUSH_SECONDS, transport.abort)

    def _leave(self, why: Leaving | None = None) -> None:
        seat, self._seat = self._seat, None
        if seat is not None:
            self._house.tally.publishers -= 1
            log.info("publisher off", extra={**self._about(), "goodbye": self._goodbye})
            seat.leave(goodbye=self._goodbye, why=why)

    def _flush(self) -> None:
        """Write what there is to say; while there is more to read, and we stay, not yet.

        A peer that closes with unread input resets the connection. What it sent before can still be
        read, its goodbye too, but not after a write has failed.
        """
        if self._session is None or self._transport is None:
            return
        data = self._unsaid = self._unsaid + self._session.outgoing()
        if not data or self._transport.is_closing():
            return
        on_air = self._seat is not None and not self._closing
        if on_air and self._clock() - self._rested < _RESTED_SECONDS:
            return
        if not self._closing and self._waits < _WAITS and _unread(self._transport):
            self._waits += 1
            return
        self._unsaid, self._waits = b"", 0
        self._spoke = self._clock()
        self._transport.write(data)

    def _about(self) -> dict[str, object]:
        return {"stream": self._stream, "peer": self._address, "by": self._scheme}


def _unread(transport: asyncio.Transport) -> int:
    """Return how many bytes the kernel holds for us."""
    sock = cast("socket.socket", transport.get_extra_info("socket"))  # what the loops have there
    with contextlib.suppress(OSError):
        (count,) = struct.unpack("i", fcntl.ioctl(sock.fileno(), termios.FIONREAD, bytes(4)))
        return int(count)
    return 0
