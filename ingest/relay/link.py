"""One connection between two hosts: its frames, its keep-alives and its end.

It runs over TLS: both hosts have proved that they belong to the installation before a message is
read. Times are seconds of the event loop's clock.
"""

import asyncio
import logging
from collections.abc import Collection, Coroutine
from typing import Final, Protocol, cast

from ingest.relay.messages import (
    VERSION,
    FrameReader,
    Hello,
    Message,
    Ping,
    RelayProtocolError,
    decode,
    encode,
)
from media.loop_lag import LoopLag

log = logging.getLogger(__name__)

# A link on which nothing arrives for this long is lost; both sides send every `_PING_SECONDS`.
SILENT_SECONDS: Final = 2.0
_PING_SECONDS: Final = 0.5
_TICK_SECONDS: Final = 0.25
# The most that the other host may leave unread: 1 s of 160 Mbit/s. With more, its network is too
# slow, and the stream is better served by a host that gets the media in time.
MAX_UNSENT_BYTES: Final = 20 << 20
# Above this much unsent, older media wait; sending them resumes below a quarter of it.
_FULL_BYTES: Final = 1 << 20
# Messages of one turn of the loop are sent together up to this size, to save TLS records (16 KiB
# each) and system calls.
_BATCH_BYTES: Final = 64 << 10
# The size of the read buffer; without this buffer, uvloop allocates 256 KiB for each record.
_READ_BYTES: Final = 64 << 10


CLOSED_HERE: Final = "closed here"
"""The cause of a link that was closed for want of sessions, or because the service stops."""


class LinkCounters:
    """The bytes carried by the links in one direction; `lost` counts links lost with sessions."""

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.lost = 0


class LinkUser(Protocol):
    """The object that handles the messages of a link; each link has its own."""

    def link_ready(self) -> None:
        """Handle the other host's greeting, which has this version of the protocol."""
        ...

    def receive(self, message: Message, now: float) -> None:
        """Handle a message.

        Raises:
            RelayProtocolError: the message may not come now, or never from that side.
        """
        ...

    def link_lost(self, cause: str) -> None:
        """Handle the end of the link, by either side; called once."""
        ...


class RelayLink(asyncio.BufferedProtocol):
    """The asyncio protocol of a connection to another host; `peer` is that host's address."""

    def __init__(
        self, user: LinkUser, peer: str, lag: LoopLag, counters: LinkCounters | None = None
    ) -> None:
        self.peer = peer
        self._counters = LinkCounters() if counters is None else counters
        self.is_open = True
        self._user = user
        self._lag = lag
        self._loop = asyncio.get_running_loop()
        self._clock = self._loop.time
        self._transport: asyncio.Transport | None = None
        self._reader = FrameReader()
        self._received = memoryview(bytearray(_READ_BYTES))
        self._batch: list[bytes] = []
        self._batch_bytes = 0
        self._greeted = False
        self._drained = asyncio.Event()
        self._drained.set()
        self._last_received = self._last_sent = self._clock()

    @property
    def last_received(self) -> float:
        """When the other host last sent something."""
        return self._last_received

    def send(self, message: Message) -> None:
        """Send a message, in this turn of the loop; a link that carries too little is dropped."""
        if not self.is_open or self._transport is None:
            return
        self._last_sent = self._clock()
        frame = encode(message)
        if not self._batch:
            self._loop.call_soon(self._send_batch)
        self._batch.append(frame)
        self._batch_bytes += len(frame)
        if self._batch_bytes >= _BATCH_BYTES:
            self._send_batch()

    def _send_batch(self) -> None:
        if not self._batch or self._transport is None:
            return
        data = b"".join(self._batch)
        self._clear_batch()
        self._counters.bytes_out += len(data)
        self._transport.write(data)
        if self._transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            self.drop(f"more than {MAX_UNSENT_BYTES >> 20} MiB unsent")

    def _clear_batch(self) -> None:
        self._batch.clear()
        self._batch_bytes = 0

    async def drained(self) -> None:
        """Wait until there is room for media that are not urgent, or until the link is lost."""
        await self._drained.wait()

    def close(self) -> None:
        """Send what is unsent and close the connection."""
        self._send_batch()
        self._end(CLOSED_HERE)
        if self._transport is not None:
            self._transport.close()

    def drop(self, cause: str) -> None:
        """Close the connection at once."""
        self._end(cause)
        if self._transport is not None:
            self._transport.abort()

    def tick(self, now: float) -> None:
        """Send a keep-alive when it is time, and drop a link on which nothing arrives."""
        if self._lag.elapsed(self._last_received, self._lag.read_until(now)) >= SILENT_SECONDS:
            self.drop(f"silent for {SILENT_SECONDS:g} s")
        elif now - self._last_sent >= _PING_SECONDS:
            self.send(Ping())
            self._send_batch()

    # -- what the loop calls ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet the other host."""
        self._transport = cast("asyncio.Transport", transport)  # as of every stream connection
        self._transport.set_write_buffer_limits(high=_FULL_BYTES)
        self._last_received = self._clock()
        self.send(Hello(version=VERSION))

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 # one size is enough
        """Return the buffer that the loop reads into."""
        return self._received

    def buffer_updated(self, nbytes: int) -> None:
        """Handle the messages that the loop has read."""
        if not self.is_open:
            return
        self._last_received = now = self._clock()
        self._counters.bytes_in += nbytes
        try:
            for frame in self._reader.receive(self._received[:nbytes]):
                self._handle(decode(frame), now)
                if not self.is_open:
                    return
        except RelayProtocolError as error:
            self.drop(str(error))
        except Exception:  # a bug on one link must not end the others
            log.exception("link failed", extra={"peer": self.peer})
            self.drop("failure")

    def _handle(self, message: Message, now: float) -> None:
        if not self._greeted:
            if not isinstance(message, Hello) or message.version != VERSION:
                raise RelayProtocolError(f"version {VERSION} of the relay protocol is expected")
            self._greeted = True
            self._user.link_ready()
        elif not isinstance(message, Ping):
            self._user.receive(message, now)

    def pause_writing(self) -> None:
        """Hold back media that are not urgent."""
        self._drained.clear()

    def resume_writing(self) -> None:
        """Resume sending them."""
        self._drained.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the end of the connection."""
        self._transport = None
        self._end("closed by the other host" if exc is None else str(exc))

    def _end(self, cause: str) -> None:
        if self.is_open:
            self.is_open = False
            self._clear_batch()
            self._drained.set()
            self._user.link_lost(cause)


async def run_ticks(links: Collection[RelayLink]) -> None:
    """Advance the time of all links, until cancelled."""
    clock = asyncio.get_running_loop().time
    while True:
        await asyncio.sleep(_TICK_SECONDS)
        now = clock()
        for link in list(links):
            link.tick(now)


class RelayLinks:
    """The links of a host in one direction, and the tasks for them; all end with `close`."""

    def __init__(self, tasks: asyncio.TaskGroup, lag: LoopLag) -> None:
        self.lag = lag
        self.links: set[RelayLink] = set()
        self.counters = LinkCounters()
        self._tasks = tasks
        self._running: set[asyncio.Task[None]] = set()
        self._is_ticking = False

    def start(self, work: Coroutine[None, None, None]) -> None:
        """Start a task that ends with `close`."""
        task = self._tasks.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def add(self, link: RelayLink) -> None:
        """Advance the time of a link that is open."""
        self.links.add(link)
        if not self._is_ticking:
            self._is_ticking = True
            self.start(run_ticks(self.links))

    def close(self) -> None:
        """Cancel the tasks, and close all links."""
        for task in self._running:
            task.cancel()
        for link in list(self.links):
            link.close()
