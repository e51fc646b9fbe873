"""The edge in Redis: what one process publishes of its streams, and others read.

A stream's state (`delivery.edge.changes.EdgeState`) is kept as the whole of some moment and the
changes since then, in order; each change is also published on the stream's topic. A state has a
revision, and a change names the revision that it follows, so it is never applied to another state.
Parts, init sections and segments are values of their own. Everything expires some time after its
last change.

A write names the generation of its process. Redis remembers the newest generation of each stream,
and a state of an older one changes nothing; a part is only read for states of its own generation.
So a process that was replaced while it was frozen or cut off cannot do harm. A script makes this
atomic; it does not write the parts, since that would take Redis four times as long.

    StorageError
    └── EdgeUnavailable     the world's: Redis cannot be reached, or refuses
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from enum import Enum
from typing import Any, Final, TypeVar

import msgspec

from storage.bus.base import Bus
from storage.bus.redis import REDIS_ERRORS, open_redis_client, running_redis_bus
from storage.errors import StorageError

STATE_SECONDS: Final = 30.0
# Parts, and segments that cannot be stored, stay as long as they are listed: their process drops
# them. This is for what remains of one that is gone, and more than its playlists pause.
MEDIA_SECONDS: Final = 300.0
# Longer than a process may be frozen and then continue.
_GENERATION_SECONDS: Final = 86_400
_READ_SECONDS: Final = 1.0  # viewers wait for it
_WRITE_SECONDS: Final = 5.0

# ARGV: generation, base and revision, the change, the whole or '', the channel, milliseconds.
_CHANGE: Final = f"""
local newest = tonumber(redis.call('GET', KEYS[1]) or '-1')
if tonumber(ARGV[1]) < newest then return -1 end
local follows = redis.call('HGET', KEYS[2], 'revision') == ARGV[2]
if ARGV[5] == '' then
    if not follows then return 0 end
    redis.call('RPUSH', KEYS[3], ARGV[4])
    redis.call('HSET', KEYS[2], 'revision', ARGV[3])
else
    redis.call('DEL', KEYS[3])
    redis.call('HSET', KEYS[2], 'revision', ARGV[3], 'whole', ARGV[5])
end
redis.call('SET', KEYS[1], ARGV[1], 'EX', {_GENERATION_SECONDS})
redis.call('PEXPIRE', KEYS[2], ARGV[7])
redis.call('PEXPIRE', KEYS[3], ARGV[7])
redis.call('PUBLISH', ARGV[6], follows and ARGV[4] or '')
return 1
"""

# ARGV: generation. The answer is false to a generation that is over, else the state.
_TAKE_OVER: Final = f"""
if tonumber(ARGV[1]) < tonumber(redis.call('GET', KEYS[1]) or '-1') then return false end
redis.call('SET', KEYS[1], ARGV[1], 'EX', {_GENERATION_SECONDS})
local whole = redis.call('HGET', KEYS[2], 'whole')
if not whole then return {{}} end
return {{whole, unpack(redis.call('LRANGE', KEYS[3], 0, -1))}}
"""
# Parts that are read at once: 16 s of a rendition.
_READ_AT_ONCE: Final = 32

_T = TypeVar("_T")


class EdgeUnavailable(StorageError):
    """Redis cannot be reached, or refuses."""


class WriteOutcome(Enum):
    """The outcome of a write."""

    DONE = 1
    BEHIND = 0  # the state has another revision: write the whole
    FENCED = -1  # another process makes the stream now


class EdgeWrite(msgspec.Struct, frozen=True, kw_only=True):
    """A write to a stream: first `parts`, then the state that lists them.

    `parts` holds the address, data and lifetime in seconds of each; `dropped` are addresses.
    `change` leads from the revision `base` to `revision`, `whole` is the whole state of `revision`;
    both are empty if only parts are written.
    """

    stream: str
    generation: int
    parts: Sequence[tuple[str, bytes, float]] = ()
    dropped: Sequence[str] = ()
    base: int = 0
    revision: int = 0
    change: bytes = b""
    whole: bytes = b""


class RedisEdgeStore:
    """The edge in Redis; open it with `open_edge_store`.

    `state_seconds` is how long a state lasts without a change.
    """

    # Any: redis-py annotates its client in part only.
    def __init__(
        self, client: Any, namespace: str, *, state_seconds: float = STATE_SECONDS
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._prefix = f"{namespace}:"
        self._state_ms = round(state_seconds * 1000)

    async def write(self, writes: Sequence[EdgeWrite]) -> list[WriteOutcome]:
        """Write streams in one pipeline, and return the outcome of each.

        Raises:
            EdgeUnavailable: Redis cannot be reached; it is unknown what was written.
        """
        pipeline: Any = self._client.pipeline(transaction=False)
        places: list[int | None] = []  # of each change among the results
        for each in writes:
            self._add(pipeline, each)
            places.append(len(pipeline) - 1 if each.change or each.whole else None)
        results: list[int] = await _answer(pipeline.execute(), _WRITE_SECONDS)
        return [
            WriteOutcome.DONE if place is None else WriteOutcome(results[place]) for place in places
        ]

    def _add(self, pipeline: Any, write: EdgeWrite) -> None:
        stream, generation = write.stream, write.generation
        for address, data, seconds in write.parts:
            pipeline.set(self._part(generation, address), data, px=round(seconds * 1000))
        if write.dropped:
            pipeline.unlink(*(self._part(generation, address) for address in write.dropped))
        if write.change or write.whole:
            pipeline.eval(
                _CHANGE, 3, self._key("generation", stream), self._key("state", stream),
                self._key("changes", stream),
                generation, write.base, write.revision, write.change, write.whole,
                self._prefix + stream, self._state_ms,
            )  # fmt: skip

    async def read_state(self, stream: str) -> list[bytes] | None:
        """Return the whole of a stream's state and the changes since, None if there is none.

        Raises:
            EdgeUnavailable: Redis cannot be reached.
        """
        pipeline: Any = self._client.pipeline(transaction=True)
        pipeline.hget(self._key("state", stream), "whole")
        pipeline.lrange(self._key("changes", stream), 0, -1)
        whole, changes = await _answer(pipeline.execute(), _READ_SECONDS)
        return None if whole is None else [whole, *changes]

    async def take_over(self, stream: str, generation: int) -> list[bytes] | None:
        """Refuse the states of older generations from now on; return what `read_state` does.

        None is also returned if a later generation makes the stream.

        Raises:
            EdgeUnavailable: Redis cannot be reached.
        """
        work = self._client.eval(
            _TAKE_OVER, 3, self._key("generation", stream), self._key("state", stream),
            self._key("changes", stream), generation,
        )  # fmt: skip
        messages: list[bytes] | None = await _answer(work, _READ_SECONDS)
        return messages or None

    async def read_revision(self, stream: str) -> int | None:
        """Return the revision of a stream's state, None if there is none.

        Raises:
            EdgeUnavailable: Redis cannot be reached.
        """
        revision: bytes | None = await _answer(
            self._client.hget(self._key("state", stream), "revision"), _READ_SECONDS
        )
        return None if revision is None else int(revision)

    async def read_part(self, address: str, generation: int) -> bytes | None:
        """Return a part, an init section or a segment of a generation, None if there is none.

        Raises:
            EdgeUnavailable: Redis cannot be reached.
        """
        return await _answer(self._client.get(self._part(generation, address)), _READ_SECONDS)

    async def read_parts(self, addresses: Sequence[str], generation: int) -> dict[str, bytes]:
        """Return those of these parts, init sections and segments that there are, by address.

        Raises:
            EdgeUnavailable: Redis cannot be reached.
        """
        found: dict[str, bytes] = {}
        for start in range(0, len(addresses), _READ_AT_ONCE):
            batch = addresses[start : start + _READ_AT_ONCE]
            keys = [self._part(generation, address) for address in batch]
            values: list[bytes | None] = await _answer(self._client.mget(keys), _READ_SECONDS)
            pairs = zip(batch, values, strict=True)
            found |= {address: value for address, value in pairs if value is not None}
        return found

    def receive_changes(self) -> AbstractAsyncContextManager[Bus]:
        """Open a bus for the length of the block, whose topics are streams, by hash.

        A subscriber gets the changes of a stream's state. `MessagesLost` comes first, and whenever
        changes may be missing: read the state. A message without data means the same.
        """
        return running_redis_bus(self._client, self._namespace, every_topic=False, name="edge bus")

    def _part(self, generation: int, address: str) -> str:
        return self._key("part", f"{generation}:{address}")

    def _key(self, kind: str, name: str) -> str:
        return f"{self._prefix}{kind}:{name}"


async def _answer(work: Awaitable[_T], seconds: float) -> _T:
    """Wait for an answer of Redis, and translate its errors."""
    try:
        async with asyncio.timeout(seconds):
            return await work
    except REDIS_ERRORS as error:
        raise EdgeUnavailable(f"the edge in Redis: {type(error).__name__}") from error


@asynccontextmanager
async def open_edge_store(
    url: str, *, namespace: str, state_seconds: float = STATE_SECONDS
) -> AsyncGenerator[RedisEdgeStore, None]:
    """Open the edge in Redis for the length of the block; Redis need not be available.

    Services that share a Redis differ in namespace.

    Raises:
        BusUnavailable: the URL is not one of Redis.
    """
    async with open_redis_client(url) as client:
        yield RedisEdgeStore(client, f"{namespace}.edge", state_seconds=state_seconds)
