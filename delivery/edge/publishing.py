"""The edge of a process that makes live streams: memory for its viewers, and Redis for the others.

Viewers of this process are served from memory, independent of Redis. Everything put into memory is
also queued; a task writes the queue of all streams at once, so that a slow Redis gets fewer and
larger writes. The queue of parts is bounded: when it is full, the oldest are dropped. Of each
stream's state it holds only the current one, so after an outage of Redis that state is written, not
its history.

A segment is not queued at first, since other processes can join its parts. It is queued if the
object store does not have it after some seconds.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec

from delivery.edge.base import ShownRun
from delivery.edge.changes import (
    BadEdgeMessage,
    EdgeChange,
    EdgeMessage,
    EdgeState,
    decode_state,
)
from delivery.edge.memory import MAX_RUNS, MemoryEdge
from delivery.edge.redis import (
    MEDIA_SECONDS,
    EdgeUnavailable,
    EdgeWrite,
    RedisEdgeStore,
    WriteOutcome,
)
from media.hls.timeline import Timeline
from media.no_op import do_nothing
from storage.objects.addresses import (
    is_live_part,
    is_live_segment,
    live_stream,
    live_stream_of,
)

log = logging.getLogger(__name__)

# The limit of queued parts: 5 s at 100 Mbit/s. They are mostly the same objects as in memory.
MAX_QUEUED_BYTES: Final = 64 << 20
# Parts of one write: 30 ms of a gigabit link.
_WRITE_BYTES: Final = 4 << 20
# After so many changes the whole state is written again; a process applies as many in 10 ms.
MAX_CHANGES: Final = 256
# Storing in a bucket takes some 100 ms. Parts are kept for much longer than this.
_STORED_SECONDS: Final = 5.0
_CHECK_SECONDS: Final = 1.0
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 2.0


class _Outgoing:
    """The queue of one stream, and its last written state."""

    def __init__(self) -> None:
        self.generation: int | None = None  # unknown before the first timelines
        self.state = EdgeState()
        self.written: EdgeState | None = None  # None: unknown
        self.revision = 0
        self.changes = 0  # since the whole was written
        self.parts: dict[str, bytes] = {}
        self.segments: dict[str, tuple[float, bytes]] = {}  # not stored yet, with their time
        self.kept: set[str] = set()  # segments that Redis has
        self.dropped: set[str] = set()  # of these, the ones that are stored now; parts, too
        self.is_fenced = False  # another process makes the stream now

    @property
    def is_due(self) -> bool:
        """True if there is something to write."""
        if self.generation is None or self.is_fenced:
            return False
        return bool(self.parts or self.dropped) or self.state is not self.written

    @property
    def is_over(self) -> bool:
        """True once the run has ended, and nothing of it is or will be queued."""
        if self.state is not self.written or not self.state.has_ended:
            return False
        return not (self.parts or self.segments or self.kept or self.dropped)


class _ShownInRedis:
    """What Redis has of a run; `generation` is that of its parts."""

    def __init__(self, store: RedisEdgeStore, state: EdgeState, generation: int) -> None:
        self.timelines = state.timelines
        self.playlists = state.playlists
        self._store = store
        self._generation = generation

    async def read(self, addresses: Sequence[str]) -> dict[str, bytes]:
        """Return what there is; nothing while Redis is away."""
        try:
            return await self._store.read_parts(addresses, self._generation)
        except EdgeUnavailable as error:
            log.warning("shown media not read", extra={"reason": str(error)})
            return {}


class PublishingEdge(MemoryEdge):
    """The newest media of all streams of this process, which `run` publishes.

    `clock` is in seconds.

    Attributes:
        on_published: Called with a stream and the date up to which Redis has its media, in
            microseconds since the Unix epoch, after each write.
        is_reached: True if the last write to Redis succeeded.
        written_bytes: The size of all parts that were written to Redis.
        dropped_parts: The number of parts that were not, since the queue was full.
    """

    def __init__(
        self,
        store: RedisEdgeStore,
        *,
        max_queued_bytes: int = MAX_QUEUED_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._store = store
        self._max_queued_bytes = max_queued_bytes
        self._clock = clock
        self._streams: dict[str, _Outgoing] = {}  # by hash; the one changed last is last
        self._due: dict[str, None] = {}  # streams with something to write, oldest first
        self._queued: dict[str, _Outgoing] = {}  # by the address of each queued part, oldest first
        self._queued_bytes = 0
        self._more = asyncio.Event()
        self._next_check = 0.0  # of segments that are not stored
        self.on_published: Callable[[str, int], None] = do_nothing
        self.is_reached = True
        self.written_bytes = 0
        self.dropped_parts = 0

    @property
    def queued_bytes(self) -> int:
        """The size in bytes of the parts that wait for Redis."""
        return self._queued_bytes

    def makes(self, hash_: str) -> bool:
        """Return whether this process makes a stream, as far as it knows; False after its end."""
        stream = self._streams.get(hash_)
        return stream is not None and bool(stream.state.folder) and not stream.is_fenced

    # -- writes to memory -------------------------------------------------------------------------

    async def put_part(self, address: str, data: bytes) -> None:
        """Store a part, an init section or a segment, and queue it."""
        await super().put_part(address, data)
        hash_ = live_stream_of(address)
        if hash_ is None:
            return
        stream = self._stream(hash_)
        if stream.is_fenced:
            return
        if is_live_segment(address):
            stream.segments[address] = self._clock(), data
            return
        self._queue(stream, address, data)
        self._mark(hash_, stream)

    async def put_timelines(
        self,
        folder: str,
        timelines: Mapping[str, Timeline],
        *,
        low_latency: bool,
        generation: int = 0,
    ) -> None:
        """Publish timelines of a live run here, and queue them."""
        await super().put_timelines(folder, timelines, low_latency=low_latency)
        hash_ = live_stream_of(folder)
        if hash_ is None:
            return
        stream = self._stream(hash_)
        if stream.generation is not None and generation < stream.generation:
            return  # of a run that this process had before
        is_next = stream.generation is None or generation > stream.generation
        if is_next:
            stream.generation = generation
            stream.written = None  # another process may have written
            stream.is_fenced = False
        if is_next or folder >= stream.state.folder:  # the names of an owner's runs rise
            state = stream.state.with_timelines(folder, timelines, low_latency=low_latency)
            stream.state = state
        self._mark(hash_, stream)

    async def put_playlists(self, playlists: Mapping[str, str]) -> None:
        """Store multivariant playlists here, and queue them."""
        await super().put_playlists(playlists)
        for address, text in playlists.items():
            hash_ = live_stream_of(address)
            if hash_ is not None:
                stream = self._stream(hash_)
                stream.state = stream.state.with_playlists({address: text})
                self._mark(hash_, stream)

    async def take_over(self, folder: str, *, generation: int) -> ShownRun | None:
        """Return what Redis has of a run, to which its last owner adds no more."""
        hash_ = live_stream_of(folder) or ""
        state, shown_by = EdgeState(), 0
        try:
            messages = await self._store.take_over(hash_, generation)
            for newest, message in decode_state(messages or ()):
                state, shown_by = newest, message.generation
                await asyncio.sleep(0)  # lets other tasks run
        except (EdgeUnavailable, BadEdgeMessage) as error:
            log.warning("shown run not read", extra={"stream": hash_, "reason": str(error)})
            return None
        return _ShownInRedis(self._store, state, shown_by) if state.folder == folder else None

    async def drop_parts(self, addresses: Iterable[str]) -> None:
        """Drop parts and stored segments here, in the queue and in Redis."""
        gone = list(addresses)
        await super().drop_parts(gone)
        for address in gone:
            hash_ = live_stream_of(address)
            stream = None if hash_ is None else self._streams.get(hash_)
            if hash_ is None or stream is None:
                continue
            stream.segments.pop(address, None)
            if not self._unqueue(stream, address) and is_live_part(address):
                stream.dropped.add(address)  # Redis has it, unless the queue was full
            if address in stream.kept:
                stream.kept.remove(address)
                stream.dropped.add(address)
            self._mark(hash_, stream)
            if stream.is_over:
                self._forget(hash_)

    async def drop_folder(self, prefix: str) -> None:
        """Drop everything below `prefix` here; in Redis it expires."""
        await super().drop_folder(prefix)
        hash_ = live_stream_of(prefix)
        if hash_ is not None and prefix == live_stream(hash_):
            self._forget(hash_)

    # -- the queue --------------------------------------------------------------------------------

    def _stream(self, hash_: str) -> _Outgoing:
        stream = self._streams.pop(hash_, None) or _Outgoing()
        self._streams[hash_] = stream
        while len(self._streams) > MAX_RUNS:
            self._forget(next(iter(self._streams)))
        return stream

    def _forget(self, hash_: str) -> None:
        self._due.pop(hash_, None)
        stream = self._streams.pop(hash_, None)
        if stream is not None:
            for address in list(stream.parts):
                self._unqueue(stream, address)

    def _queue(self, stream: _Outgoing, address: str, data: bytes) -> None:
        self._unqueue(stream, address)
        stream.parts[address] = data
        self._queued[address] = stream
        self._queued_bytes += len(data)
        while self._queued_bytes > self._max_queued_bytes:
            oldest, owner = next(iter(self._queued.items()))
            self._unqueue(owner, oldest)
            self.dropped_parts += 1

    def _unqueue(self, stream: _Outgoing, address: str) -> bool:
        """Take a part out of the queue; return False if it is not there."""
        data = stream.parts.pop(address, None)
        if data is None:
            return False
        del self._queued[address]
        self._queued_bytes -= len(data)
        return True

    def _mark(self, hash_: str, stream: _Outgoing) -> None:
        if stream.is_due:
            self._due[hash_] = None
            self._more.set()

    # -- writing ----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Write the queue until cancelled."""
        pause = _FIRST_PAUSE
        while True:
            await self._wait()
            try:
                await self.publish()
            except EdgeUnavailable as error:
                if self.is_reached:  # once an outage
                    log.warning("edge not published", extra={"reason": str(error)})
                    pause = _FIRST_PAUSE
                self.is_reached = False
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                if not self.is_reached:
                    log.info("edge published again")
                self.is_reached = True

    async def _wait(self) -> None:
        """Wait until something is queued, or segments have to be checked."""
        if not self._due:
            self._more.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(_CHECK_SECONDS):
                    await self._more.wait()

    async def publish(self) -> None:
        """Write up to some megabytes of the queue, the oldest first.

        Raises:
            EdgeUnavailable: Redis cannot be reached; the queue is unchanged.
        """
        self._queue_unstored()
        writes: list[tuple[_Outgoing, EdgeState, EdgeWrite]] = []
        size = 0
        for hash_ in list(self._due):
            if size >= _WRITE_BYTES:
                break
            del self._due[hash_]
            stream = self._streams[hash_]
            state = stream.state
            write = _next_write(hash_, stream, _WRITE_BYTES - size)
            writes.append((stream, state, write))
            size += sum(len(data) for _, data, _ in write.parts)
        if not writes:
            return
        try:
            outcomes = await self._store.write([write for _, _, write in writes])
        except EdgeUnavailable:
            for stream, _, write in writes:
                stream.written = None
                if self._streams.get(write.stream) is stream:
                    self._due[write.stream] = None
            raise
        self.written_bytes += size
        for (stream, state, write), outcome in zip(writes, outcomes, strict=True):
            self._record_outcome(stream, state, write, outcome)

    def _queue_unstored(self) -> None:
        """Queue the segments that should have been stored by now."""
        now = self._clock()
        if now < self._next_check:
            return
        self._next_check = now + _CHECK_SECONDS
        latest = now - _STORED_SECONDS
        for hash_, stream in self._streams.items():
            for address, (since, data) in list(stream.segments.items()):
                if since > latest or stream.generation is None:
                    break
                del stream.segments[address]
                self._queue(stream, address, data)
                self._due[hash_] = None

    def _record_outcome(
        self, stream: _Outgoing, state: EdgeState, write: EdgeWrite, outcome: WriteOutcome
    ) -> None:
        """Record the outcome of a write."""
        hash_ = write.stream
        if self._streams.get(hash_) is not stream or write.generation != stream.generation:
            return  # forgotten meanwhile, or of another generation now
        if outcome is WriteOutcome.FENCED:
            log.warning("stream published by another process", extra={"stream": hash_})
            self._forget(hash_)
            fenced = self._stream(hash_)
            fenced.generation, fenced.is_fenced = write.generation, True
            return
        for address, data, _ in write.parts:
            self._record_part(stream, address, data)
        stream.dropped.difference_update(write.dropped)
        if outcome is WriteOutcome.BEHIND:
            stream.written = None
        elif write.change or write.whole:
            stream.written, stream.revision = state, write.revision
            stream.changes = 0 if write.whole else stream.changes + 1
            if (until_us := state.shown_until_us) is not None:
                self.on_published(hash_, until_us)
        if stream.is_due:
            self._due[hash_] = None
        elif stream.is_over:
            self._forget(hash_)

    def _record_part(self, stream: _Outgoing, address: str, data: bytes) -> None:
        queued = stream.parts.get(address) is data
        if queued:
            self._unqueue(stream, address)
        if is_live_segment(address):  # if it is not queued any more, it was stored meanwhile
            (stream.kept if queued else stream.dropped).add(address)


def _next_write(hash_: str, stream: _Outgoing, max_bytes: int) -> EdgeWrite:
    """Return the next write of a stream: parts, and the state if all parts are among them."""
    parts: list[tuple[str, bytes, float]] = []
    for address, data in stream.parts.items():
        if max_bytes <= 0:
            break
        max_bytes -= len(data)
        parts.append((address, data, MEDIA_SECONDS))
    write = EdgeWrite(
        stream=hash_,
        generation=stream.generation or 0,
        parts=parts,
        dropped=sorted(stream.dropped),
    )
    if len(parts) < len(stream.parts) or stream.state is stream.written:
        return write
    base, revision, written = stream.revision, stream.revision + 1, stream.written
    if written is None:
        base, revision = 0, secrets.randbits(48)  # a number that no state had
    message = partial(_message, revision, write.generation, stream.state)
    return msgspec.structs.replace(
        write,
        base=base,
        revision=revision,
        change=b"" if written is None else message(base, written),
        whole=message(None, EdgeState())
        if written is None or stream.changes >= MAX_CHANGES
        else b"",
    )


def _message(
    revision: int, generation: int, new: EdgeState, base: int | None, old: EdgeState
) -> bytes:
    return EdgeMessage(base, revision, generation, EdgeChange.between(old, new)).encode()
