"""The edge of a process that serves viewers of streams which other processes make.

It reads what `delivery.edge.publishing` wrote to Redis: a state of each stream, which says what its
playlists list; the changes of states, which are published; and the parts. It is a `MemoryEdge` that
fills itself: viewers are served from memory, and what is missing there is read.

A stream is *followed* from the first request for it until 30 s after the last one, by a task of its
own (`_follow`), which subscribes first and then reads, so that it misses nothing between the two:

    first request            a state            4.5 s without confirmation
    ------------> reading -----------> known -------------> stale
                     |                 ^   |                  |
       no state, or  |         a state |   | gone, or Redis   | read again:
       no answer     |                 |   v away for 3 s     | known or empty
                     '---------------> empty <----------------'

- *Known*: memory has the state with number `revision`, which Redis had at `confirmed`. Each
  published change is applied to it. After 3 s without one, Redis is asked whether it has the same
  revision.
- *Empty*: `revision` is None. The stream is off air, or Redis is away. There is nothing to show:
  viewers get the stored playlists, or a 503 if they wait. The state is read again after 3 s; while
  Redis is away (`failed`) requests cause that, too, at most once a second.
- *Stale*: there is a state, but it may be older than what viewers got elsewhere, and so may be the
  stored playlists: this process was stopped or cut off, and its mailbox may hold old changes.
  Nothing is shown before Redis was read.

After 30 s without a request the task ends, and the stream's media leave the memory.

Every change names the revision that it changes. If that is the present one, the change is applied;
if the change is older, it is a duplicate; otherwise some were missed, and the state is read.

The generation in a state says which host made it. The names of parts are used again by the next
owner of a stream, so parts are read by the generation of the state that lists them, and a state of
another generation empties the memory of the stream's parts first.

A part is read once for all viewers (`_fetching`). While viewers wait for the parts of a rendition
(`wanted`), a new part is read before the playlist that lists it is shown, so that they find it in
memory. A segment that is not stored yet is joined from its parts. A part that is not listed may
have been listed by another process a moment earlier: Redis is asked for it, but at most 20 times a
second for a stream, since more of such requests are guesses.

What may be called when: `local_part`, `local_playlist` and `timeline` at any time; they return at
once, and return None for a stream that is not known. Where `knows` returns False, `catch_up` comes
first, which waits for a bounded time; `get_part` calls it by itself. Only the task of a stream
changes its `state`, `revision` and `generation`, except that `drop_folder` removes the state. A
failure of Redis is no exception for callers: what cannot be read is not there.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from delivery.edge.base import CachedPlaylist
from delivery.edge.changes import BadEdgeMessage, EdgeMessage, EdgeState, decode_state
from delivery.edge.memory import MAX_RUNS, MemoryEdge
from delivery.edge.redis import EdgeUnavailable, RedisEdgeStore
from media.hls.timeline import Timeline
from storage.bus.base import Bus, BusMessage, Mailbox
from storage.objects.addresses import is_live_segment, live_stream, live_stream_of

log = logging.getLogger(__name__)

# A paused or buffering player resumes within this time.
LINGER_SECONDS: Final = 30.0
# Parts arrive at least every second. After this silence, the state is compared with Redis.
SILENCE_SECONDS: Final = 3.0
# How long after the silence a state is still shown while Redis is queried.
_DOUBT_SECONDS: Final = 1.5
# How long the first request for a stream waits for the subscription.
_FIRST_SECONDS: Final = 1.0
# How long later ones wait while Redis is unreachable; it is retried once a second.
_AGAIN_SECONDS: Final = 0.5
_RETRY_SECONDS: Final = 1.0
# How long after a blocking request new parts of the rendition are read at once.
_WANTED_SECONDS: Final = 10.0
# Renditions that requests may name before the state lists them: more than a ladder has.
_MOST_UNLISTED: Final = 16
# Concurrent reads: each uses a connection.
_READS: Final = 32
# Changes applied per turn of the loop when a state is read: 1 ms of work.
_AT_ONCE: Final = 32
# Queries of Redis per second for parts that a stream does not list. Another process may have listed
# them a moment earlier; more requests are guesses.
_GUESSES: Final = 20
# Changes up to so many revisions older than the current state are duplicates.
_KNOWN_REVISIONS: Final = 1 << 20


class _Followed:
    """A followed stream; only its task changes `state` and `revision`."""

    def __init__(self, now: float) -> None:
        self.used = now  # when a viewer last requested something
        self.confirmed = now  # when Redis last had this state
        self.failed: float | None = None  # when Redis could not be reached; None: it could since
        self.ready = asyncio.Event()  # the state was read, or could not be
        self.box: Mailbox | None = None  # None before the state was first requested
        self.state = EdgeState()
        self.revision: int | None = None  # None: there is no state
        self.generation = 0  # of the state, and of its parts
        self.wanted: dict[str, float] = {}  # when parts were last requested, by rendition
        self.guesses = 0  # in the second `guess_second`
        self.guess_second = 0

    def want(self, rendition: str) -> None:
        """Record that a viewer requests parts of a rendition.

        The name is the viewer's: few are recorded that the state does not list, or not yet.
        """
        if rendition in self.state.timelines or len(self.wanted) < _MOST_UNLISTED:
            self.wanted[rendition] = self.used


class RemoteEdge(MemoryEdge):
    """The newest media of streams that other processes make; open it with `open_remote_edge`.

    `clock` is in seconds. At most `max_streams` are followed at the same time.

    Attributes:
        read_bytes: The size of all parts that were read from Redis.
        failed_reads: The number of reads that failed.
    """

    def __init__(
        self,
        store: RedisEdgeStore,
        bus: Bus,
        tasks: asyncio.TaskGroup,
        *,
        linger_seconds: float = LINGER_SECONDS,
        silence_seconds: float = SILENCE_SECONDS,
        max_streams: int = MAX_RUNS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._store = store
        self._bus = bus
        self._tasks = tasks
        self._running: set[asyncio.Task[Any]] = set()
        self._linger_seconds = linger_seconds
        self._silence_seconds = silence_seconds
        self._max_streams = max_streams
        self._clock = clock
        self._followed: dict[str, _Followed] = {}  # by hash
        # By address and generation.
        self._fetching: dict[tuple[str, int], asyncio.Task[bytes | None]] = {}
        self._reads = asyncio.Semaphore(_READS)
        self.read_bytes = 0
        self.failed_reads = 0

    @property
    def followed(self) -> tuple[str, ...]:
        """The hashes of the followed streams."""
        return tuple(self._followed)

    def close(self) -> None:
        """Stop following all streams."""
        for task in self._running:
            task.cancel()

    # -- viewers ----------------------------------------------------------------------------------

    def knows(self, address: str) -> bool:
        """Return whether the state of an address's stream is known; True if it is of no stream."""
        hash_ = live_stream_of(address)
        if hash_ is None:
            return True
        followed = self._followed.get(hash_)
        return followed is not None and followed.ready.is_set() and not self._must_be_read(followed)

    async def catch_up(self, address: str) -> None:
        """Follow the stream that an address belongs to; return once its present state is known.

        It is still unknown then if Redis does not answer, or if too many streams are followed.
        """
        hash_ = live_stream_of(address)
        if hash_ is None:
            return
        followed = self._followed.get(hash_)
        if followed is None:
            if len(self._followed) >= self._max_streams:
                return
            followed = self._followed[hash_] = _Followed(self._clock())
            self._start(self._follow(hash_, followed))
        followed.used = self._clock()
        if followed.box is None:
            await followed.ready.wait()  # bounded by the task
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_AGAIN_SECONDS):
                while self._must_be_read(followed) and self._followed.get(hash_) is followed:
                    followed.ready.clear()
                    followed.box.mark_lost()
                    await followed.ready.wait()
                await followed.ready.wait()

    def _is_stale(self, followed: _Followed) -> bool:
        """Return whether the state is unconfirmed: this process was stopped or cut off."""
        doubtful = followed.confirmed + self._silence_seconds + _DOUBT_SECONDS
        return followed.revision is not None and self._clock() > doubtful

    def _must_be_read(self, followed: _Followed) -> bool:
        failed = followed.failed
        return self._is_stale(followed) or (
            failed is not None and self._clock() >= failed + _RETRY_SECONDS
        )

    async def get_part(self, address: str) -> bytes | None:
        """Return a part, an init section or a segment, read from Redis if need be."""
        data = self.local_part(address)
        if data is not None or live_stream_of(address) is None:
            return data
        await self.catch_up(address)
        followed = self._touch(address)
        if followed is None or followed.revision is None:
            return None
        data = self._cached(address)
        if data is not None:
            return data
        followed.want(address.split("/")[-2])
        if not self._lists(address) and not self._may_guess(followed):
            return None
        return await self._fetch(address, followed.generation)

    def local_part(self, address: str) -> bytes | None:
        """Return a part from this process's memory; `get_part` may still find it elsewhere."""
        return super().local_part(address) if self._may_show(address) else None

    def local_playlist(
        self, address: str, *, low_latency: bool = False, skip: bool = False
    ) -> CachedPlaylist | None:
        """Return a playlist, or None if the stream is not followed or has none."""
        if not self._may_show(address):
            return None
        return super().local_playlist(address, low_latency=low_latency, skip=skip)

    def timeline(self, address: str) -> Timeline | None:
        """Return the timeline behind the media playlist at `address` of a live run."""
        return super().timeline(address) if self._may_show(address) else None

    def wait(
        self, address: str, msn: int, part: int | None, ready: Callable[[], None]
    ) -> Callable[[], None]:
        """Call `ready` once a media playlist lists a part; return what cancels that."""
        followed = self._touch(address)
        if followed is not None:
            followed.want(address.split("/")[-2])
        return super().wait(address, msn, part, ready)

    def _touch(self, address: str) -> _Followed | None:
        """Record that a viewer requests something of a stream; return it if it is followed."""
        hash_ = live_stream_of(address)
        followed = None if hash_ is None else self._followed.get(hash_)
        if followed is not None:
            followed.used = self._clock()
        return followed

    def _may_show(self, address: str) -> bool:
        """Record that a viewer requests something; return whether this process has the newest."""
        followed = self._touch(address)
        return followed is None or not self._is_stale(followed)

    async def drop_folder(self, prefix: str) -> None:
        """Drop everything below `prefix` here; a stream that is still published is read again."""
        await super().drop_folder(prefix)
        followed = self._followed.get(live_stream_of(prefix) or "")
        if followed is not None:
            followed.state, followed.revision = EdgeState(), None

    # -- parts ------------------------------------------------------------------------------------

    def _lists(self, address: str) -> bool:
        """Return whether a playlist lists a part, or a segment whose parts it lists."""
        folder, _, name = address.rpartition("/")
        timeline = super().timeline(f"{folder}/index.m3u8")
        if timeline is None:
            return False
        if any(part.uri == name for part in timeline.parts):
            return True
        return any(
            closed.parts
            and (closed.segment.uri == name or any(part.uri == name for part in closed.parts))
            for closed in reversed(timeline.recent)
        )

    def _may_guess(self, followed: _Followed) -> bool:
        second = int(followed.used)
        if second != followed.guess_second:
            followed.guess_second, followed.guesses = second, 0
        followed.guesses += 1
        return followed.guesses <= _GUESSES

    async def _fetch(self, address: str, generation: int) -> bytes | None:
        """Return a part or segment; concurrent requests share one read."""
        return await asyncio.shield(self._reading(address, generation))

    def _reading(self, address: str, generation: int) -> asyncio.Task[bytes | None]:
        key = address, generation
        task = self._fetching.get(key)
        if task is None:
            task = self._fetching[key] = self._start(self._read(address, generation))
            task.add_done_callback(lambda _: self._fetching.pop(key, None))
        return task

    async def _read(self, address: str, generation: int) -> bytes | None:
        data = await self._join(address, generation) if is_live_segment(address) else None
        if data is None:
            try:
                async with self._reads:
                    data = await self._store.read_part(address, generation)
            except EdgeUnavailable:
                self.failed_reads += 1
                return None
            self.read_bytes += len(data or b"")
        if data is not None and self._has_generation(address, generation):
            await self.put_part(address, data)
        return data

    def _has_generation(self, address: str, generation: int) -> bool:
        """Return whether the known state of an address's stream is of this generation."""
        followed = self._followed.get(live_stream_of(address) or "")
        return followed is not None and followed.generation == generation

    async def _join(self, address: str, generation: int) -> bytes | None:
        """Return a segment joined from its parts, None unless all are there."""
        folder, _, name = address.rpartition("/")
        timeline = super().timeline(f"{folder}/index.m3u8")
        for closed in () if timeline is None else reversed(timeline.recent):
            if closed.segment.uri == name and closed.parts and not closed.segment.gap:
                uris = [part.uri for part in closed.parts]
                parts = [await self._part(f"{folder}/{uri}", generation) for uri in uris]
                present = [part for part in parts if part is not None]
                return b"".join(present) if len(present) == len(parts) else None
        return None

    async def _part(self, address: str, generation: int) -> bytes | None:
        data = self._cached(address)
        return data if data is not None else await self._fetch(address, generation)

    def _cached(self, address: str) -> bytes | None:
        """Return a part from memory, without recording a request."""
        return super().local_part(address)

    # -- following a stream -----------------------------------------------------------------------

    async def _follow(self, hash_: str, followed: _Followed) -> None:
        """Keep the state of a stream up to date until it was not requested for some time."""
        try:
            async with self._bus.subscribe(hash_) as box:
                while self._clock() < followed.used + self._linger_seconds:
                    await self._handle_next(hash_, followed, box)
                    followed.box = box
                    followed.ready.set()
        except Exception:  # a failed stream must not stop the others
            log.exception("stream not followed", extra={"stream": hash_})
        finally:
            del self._followed[hash_]
            followed.ready.set()
            await self.drop_folder(live_stream(hash_))

    async def _handle_next(self, hash_: str, followed: _Followed, box: Mailbox) -> None:
        """Handle the next published change, or a silence."""
        is_first = followed.box is None
        try:
            async with asyncio.timeout(_FIRST_SECONDS if is_first else self._silence_seconds):
                message = await box.get()
        except TimeoutError:
            message = None
        try:
            if self._is_stale(followed):  # and so may be the changes in the mailbox
                await self._load(hash_, followed)
            elif isinstance(message, BusMessage) and message.data:
                await self._apply(hash_, followed, EdgeMessage.decode(message.data))
            elif message is not None or is_first or not await self._is_current(hash_, followed):
                await self._load(hash_, followed)
        except EdgeUnavailable:  # the bus logs it once
            followed.failed = self._clock()
            await self._lose(hash_, followed)
        except BadEdgeMessage as error:
            if is_first or followed.revision is not None:
                log.warning("edge not read", extra={"stream": hash_, "reason": str(error)})
            followed.confirmed -= self._silence_seconds
            await self._lose(hash_, followed)

    async def _is_current(self, hash_: str, followed: _Followed) -> bool:
        """Return whether Redis has the same state.

        Raises:
            EdgeUnavailable: Redis cannot be reached.
        """
        asked_at = self._clock()
        revision = await self._store.read_revision(hash_)
        followed.failed = None
        if revision is None or revision != followed.revision:
            return False
        followed.confirmed = asked_at
        return True

    async def _load(self, hash_: str, followed: _Followed) -> None:
        """Read the present state.

        Raises:
            EdgeUnavailable: Redis cannot be reached.
            BadEdgeMessage: the state is not of this form.
        """
        asked_at = self._clock()
        messages = await self._store.read_state(hash_)
        followed.failed = None
        if messages is None:
            await self._lose(hash_, followed)
            return
        state = EdgeState()
        revision: int | None = None
        generation = followed.generation
        for newest, message in decode_state(messages):
            state, revision, generation = newest, message.revision, message.generation
            if message.base is None or revision % _AT_ONCE == 0:
                await asyncio.sleep(0)  # lets other tasks run
        await self._set_generation(hash_, followed, generation)
        await self._show(followed, state, revision, asked_at)

    async def _apply(self, hash_: str, followed: _Followed, message: EdgeMessage) -> None:
        """Apply a published change, or read the state if the change does not follow it.

        Raises:
            EdgeUnavailable: Redis cannot be reached.
            BadEdgeMessage: the change does not fit, or the state is not of this form.
        """
        revision = followed.revision
        if revision is not None and message.base == revision:
            now = self._clock()
            state = message.change.applied(followed.state)
            await self._set_generation(hash_, followed, message.generation)
            await self._show(followed, state, message.revision, now)
        elif revision is None or not 0 <= revision - message.revision < _KNOWN_REVISIONS:
            await self._load(hash_, followed)

    async def _set_generation(self, hash_: str, followed: _Followed, generation: int) -> None:
        """Set the generation; drop the previous owner's parts, whose names the next one reuses.

        The listed media of the previous owner are stored.
        """
        if generation != followed.generation:
            followed.generation = generation
            below = f"{live_stream(hash_)}/"
            await self.drop_parts([name for name in self._parts if name.startswith(below)])

    async def _read_wanted(self, followed: _Followed, state: EdgeState) -> None:
        """Read the newest parts of renditions with waiting viewers."""
        oldest = self._clock() - _WANTED_SECONDS
        before = followed.state.timelines_of(state.folder)
        reading = [
            self._reading(address, followed.generation)
            for name, timeline in state.timelines.items()
            if followed.wanted.get(name, oldest) > oldest
            for uri in _newest_parts(timeline) - _newest_parts(before.get(name))
            if self._cached(address := f"{state.folder}/{name}/{uri}") is None
        ]
        for task in reading:
            await asyncio.shield(task)

    async def _show(
        self, followed: _Followed, state: EdgeState, revision: int | None, confirmed: float
    ) -> None:
        """Publish a state to viewers, after reading the parts that they wait for.

        `confirmed` is when Redis had this state.
        """
        await self._read_wanted(followed, state)
        before, followed.state, followed.revision = followed.state, state, revision
        followed.confirmed = confirmed
        if before.folder not in {"", state.folder} and not before.has_ended:
            await super().drop_folder(before.folder)  # its end is stored
        old_timelines = before.timelines_of(state.folder)
        timelines = {
            name: timeline
            for name, timeline in state.timelines.items()
            if old_timelines.get(name) is not timeline
        }
        if state.playlists != before.playlists:
            await self.put_playlists(state.playlists)
        if timelines:
            await self.put_timelines(state.folder, timelines, low_latency=state.low_latency)

    async def _lose(self, hash_: str, followed: _Followed) -> None:
        """Drop a state that Redis no longer has, unless Redis had it a moment ago."""
        if followed.revision is None:
            return
        if self._clock() >= followed.confirmed + self._silence_seconds:
            await self.drop_folder(live_stream(hash_))

    def _start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = self._tasks.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task


def _newest_parts(timeline: Timeline | None) -> set[str]:
    """Return the URIs of the parts of the open segment and of the one before."""
    if timeline is None:
        return set()
    closed = timeline.recent[-1].parts if timeline.recent else ()
    return {part.uri for part in (*closed, *timeline.parts)}


@asynccontextmanager
async def open_remote_edge(
    store: RedisEdgeStore,
    *,
    linger_seconds: float = LINGER_SECONDS,
    silence_seconds: float = SILENCE_SECONDS,
) -> AsyncGenerator[RemoteEdge, None]:
    """Open the edge for the length of the block."""
    async with store.receive_changes() as bus, asyncio.TaskGroup() as tasks:
        edge = RemoteEdge(
            store, bus, tasks, linger_seconds=linger_seconds, silence_seconds=silence_seconds
        )
        try:
            yield edge
        finally:
            edge.close()
