"""The bus over Redis, between processes and machines (publish and subscribe).

One connection a process listens to all topics by a pattern, so listening to one more costs Redis
nothing and no order of subscribing can go wrong; notices are few and small. The connection is
watched: when Redis goes away it is opened again with growing pauses. Whenever Redis confirms the
pattern, all subscribers are told that notices may be missing: that covers the times, too, when
redis-py reconnects without a word.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

from redis import asyncio as aioredis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from storage.bus.base import BusUnavailable, Mailbox, checked_topic
from storage.bus.memory import Topics

__all__ = ["RedisBus", "open_redis_bus"]

log = logging.getLogger(__name__)

_SECONDS: Final = 5.0  # for anything that Redis is asked
# The longest silence before the connection is tried: a host that vanished sends no word.
_QUIET: Final = 5.0
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 2.0
_AWAY: Final = (RedisError, OSError, TimeoutError)


class RedisBus:
    """Notices over Redis (see `storage.bus.base.Bus`); `open_redis_bus` makes one."""

    # Any: redis-py annotates its client in part only.
    def __init__(self, client: Any, namespace: str) -> None:
        self._client = client
        self._prefix = f"{namespace}:"
        self._topics = Topics()
        self._up = asyncio.Event()

    async def publish(self, topic: str, data: bytes) -> None:
        """Say something to all who listen to the topic now.

        Raises:
            BusUnavailable: Redis cannot be reached.
        """
        channel = self._prefix + checked_topic(topic)
        try:
            async with asyncio.timeout(_SECONDS):
                await self._client.publish(channel, data)
        except _AWAY as error:
            raise BusUnavailable(f"notice not published: {type(error).__name__}") from error

    @asynccontextmanager
    async def subscribe(self, *topics: str) -> AsyncGenerator[Mailbox, None]:
        """Listen to topics for the length of a block: from its first line on, nothing is missed.

        While Redis is away nothing is heard; `Lost` comes when it is back.
        """
        async with self._topics.subscribe(topics) as box:
            yield box

    async def run(self) -> None:
        """Listen for as long as the bus is open."""
        pause = _FIRST_PAUSE
        while True:
            try:
                await self._listen()
            except _AWAY as error:
                if self._up.is_set():
                    log.warning("bus lost", extra={"reason": type(error).__name__})
                    pause = _FIRST_PAUSE
                self._up.clear()
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _listen(self) -> None:
        """Listen over one connection until it fails."""
        listening = self._client.pubsub()
        try:
            async with asyncio.timeout(_SECONDS):
                await listening.psubscribe(f"{self._prefix}*")
            asked = False
            while True:
                message = await listening.get_message(timeout=_QUIET)
                if message is not None:
                    self._handle_message(message)
                elif asked:
                    raise TimeoutError("no word since the ping")
                else:
                    async with asyncio.timeout(_SECONDS):
                        await listening.ping()
                asked = message is None
        finally:
            await listening.aclose()

    def _handle_message(self, message: dict[str, Any]) -> None:  # Any: redis-py's
        if message["type"] == "psubscribe":
            # From here on nothing is missed; what was said before went by.
            self._topics.mark_lost()
            self._up.set()
            log.info("bus listens")
        elif message["type"] == "pmessage":
            topic = message["channel"].decode(errors="replace").removeprefix(self._prefix)
            self._topics.deliver(topic, message["data"])

    async def wait_connected(self) -> None:
        """Wait until the bus listens."""
        await self._up.wait()


@asynccontextmanager
async def open_redis_bus(url: str, *, namespace: str = "headend") -> AsyncGenerator[RedisBus, None]:
    """Open the bus for the length of the block; services that share a Redis differ in namespace.

    Raises:
        BusUnavailable: Redis cannot be reached now; later on it may come and go.
    """
    try:
        client: Any = aioredis.Redis.from_url(  # pyright: ignore[reportUnknownMemberType]  # Any: redis-py annotates in part only
            url,
            # Once more at once, for a pooled connection may be from before Redis went away; a
            # notice that arrives twice does no harm.
            retry=Retry(NoBackoff(), 1),
            socket_connect_timeout=_SECONDS,
            socket_timeout=_SECONDS,
            socket_keepalive=True,
        )
    except ValueError:
        # The text may hold a password, and so may what was said of it: both stay out.
        raise BusUnavailable("the address of Redis is no redis:// URL") from None
    bus = RedisBus(client, namespace)
    try:
        try:
            async with asyncio.timeout(_SECONDS):
                await client.ping()
        except _AWAY as error:
            raise BusUnavailable(f"Redis cannot be reached: {type(error).__name__}") from error
        async with asyncio.TaskGroup() as tasks:
            pumping = tasks.create_task(bus.run())
            try:
                async with asyncio.timeout(_SECONDS):
                    await bus.wait_connected()
                yield bus
            finally:
                pumping.cancel()
    finally:
        await client.aclose()
