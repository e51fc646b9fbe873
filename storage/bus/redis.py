"""The bus over Redis publish/subscribe, between processes and machines.

Each process holds one connection that subscribes to all topics by a pattern: another subscriber
costs Redis nothing, and the order of subscriptions cannot matter. Messages are few and small. The
connection is watched and reopened with growing pauses when Redis goes away. Each time Redis
confirms the pattern, all subscribers receive `MessagesLost`, which also covers the silent
reconnections of redis-py.

Where there are many messages, a bus instead subscribes only to the topics that have subscribers; a
subscriber receives `MessagesLost` once its topic is confirmed.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from redis import asyncio as aioredis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from storage.bus.base import BusUnavailable, Mailbox, checked_topic
from storage.bus.memory import Topics

log = logging.getLogger(__name__)

_SECONDS: Final = 5.0  # for each operation of Redis
# The longest silence before a ping: a host that vanished does not close its connections.
_QUIET_SECONDS: Final = 5.0
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 2.0
# What redis-py raises if Redis cannot be reached or refuses, and uvloop (RuntimeError) on a write
# to a connection that has just been closed.
REDIS_ERRORS: Final = (RedisError, OSError, RuntimeError)


class RedisBus:
    """Messages over Redis (see `storage.bus.base.Bus`); open it with `open_redis_bus`.

    With `every_topic` it receives all messages of the namespace, otherwise those of the topics that
    it has subscribers for. The log shows its `name`.
    """

    # Any: redis-py annotates its client in part only.
    def __init__(
        self, client: Any, namespace: str, *, every_topic: bool = True, name: str = "bus"
    ) -> None:
        self._client = client
        self._name = name
        self._prefix = f"{namespace}:"
        self._every_topic = every_topic
        self._pubsub: Any = None  # redis-py's, while it receives messages
        self._topics = Topics()
        self._connected = asyncio.Event()
        self._tried = asyncio.Event()

    @property
    def is_connected(self) -> bool:
        """True while Redis answers, as far as is known."""
        return self._connected.is_set()

    async def publish(self, topic: str, data: bytes) -> None:
        """Send a message to all present subscribers of the topic.

        Raises:
            BusUnavailable: Redis cannot be reached.
        """
        channel = self._prefix + checked_topic(topic)
        try:
            async with asyncio.timeout(_SECONDS):
                await self._client.publish(channel, data)
        except REDIS_ERRORS as error:
            raise BusUnavailable(f"notice not published: {type(error).__name__}") from error

    @asynccontextmanager
    async def subscribe(self, *topics: str) -> AsyncGenerator[Mailbox, None]:
        """Subscribe for the length of a block; nothing is missed from its first line on.

        While Redis is unavailable no message arrives; `MessagesLost` follows when it is back.
        """
        try:
            async with self._topics.subscribe(topics) as box:
                await self._subscribe_to(topics)
                yield box
        finally:
            await self._unsubscribe_from(topics)

    async def _subscribe_to(self, topics: Iterable[str]) -> None:
        """Subscribe to topics; without a connection, this happens when there is one."""
        channels = [self._prefix + topic for topic in topics]
        if channels and self._has_own_topics():
            with suppress(*REDIS_ERRORS):
                async with asyncio.timeout(_SECONDS):
                    await self._pubsub.subscribe(*channels)

    async def _unsubscribe_from(self, topics: Iterable[str]) -> None:
        """Unsubscribe from those of the topics that have no subscriber any more."""
        channels = [self._prefix + topic for topic in topics if topic not in self._topics]
        if channels and self._has_own_topics():
            with suppress(*REDIS_ERRORS):
                async with asyncio.timeout(_SECONDS):
                    await self._pubsub.unsubscribe(*channels)

    def _has_own_topics(self) -> bool:
        """Return whether topics are subscribed to one by one, over a connection that is open."""
        pubsub = self._pubsub
        return not self._every_topic and pubsub is not None and pubsub.connection.is_connected

    async def run(self) -> None:
        """Receive messages and reconnect, until cancelled."""
        pause = _FIRST_PAUSE
        while True:
            try:
                await self._listen()
            except REDIS_ERRORS as error:
                if self._connected.is_set() or not self._tried.is_set():
                    # Once an outage; processes poll meanwhile.
                    log.warning("%s lost", self._name, extra={"reason": type(error).__name__})
                    pause = _FIRST_PAUSE
                self._connected.clear()
                self._tried.set()
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _listen(self) -> None:
        """Receive over one connection until it fails."""
        pubsub = self._client.pubsub()
        try:
            async with asyncio.timeout(_SECONDS):
                if self._every_topic:
                    await pubsub.psubscribe(f"{self._prefix}*")
                else:  # to an empty topic, so that there is a connection to watch
                    await pubsub.subscribe(self._prefix)
            self._pubsub = pubsub
            pinged = False
            while True:
                async with asyncio.timeout(_QUIET_SECONDS + _SECONDS):  # redis-py may reconnect
                    message = await pubsub.get_message(timeout=_QUIET_SECONDS)
                if message is not None:
                    await self._handle_message(message)
                elif pinged:
                    raise TimeoutError("no answer to the ping")
                else:
                    async with asyncio.timeout(_SECONDS):
                        await pubsub.ping()
                pinged = message is None
        finally:
            self._pubsub = None
            await pubsub.aclose()

    async def _handle_message(self, message: dict[str, Any]) -> None:  # Any: redis-py's
        kind = message["type"]
        if kind == "pong":
            return
        topic = message["channel"].decode(errors="replace").removeprefix(self._prefix)
        if kind in {"pmessage", "message"}:
            self._topics.deliver(topic, message["data"])
        elif kind == "psubscribe" or (kind == "subscribe" and not topic):
            if self._every_topic:
                # Earlier messages were missed; from now on all arrive.
                self._topics.mark_lost()
            self._connected.set()
            self._tried.set()
            log.info("%s listens", self._name)
            await self._subscribe_to(self._topics.names)
        elif kind == "subscribe":
            self._topics.mark_lost(topic)

    async def wait_tried(self) -> None:
        """Wait until the first attempt to reach Redis has succeeded or failed."""
        await self._tried.wait()


@asynccontextmanager
async def open_redis_client(url: str) -> AsyncGenerator[Any, None]:  # Any: redis-py's client
    """Open connections to Redis for the length of the block; Redis need not be available.

    Operations have no time limit: call each under `asyncio.timeout`.

    Raises:
        BusUnavailable: the URL is not one of Redis.
    """
    # A socket of the same host has no connection that could vanish.
    keepalive = {} if url.startswith("unix:") else {"socket_keepalive": True}
    try:
        client: Any = aioredis.Redis.from_url(  # pyright: ignore[reportUnknownMemberType]  # Any: redis-py annotates in part only
            url,
            # One immediate retry, since a pooled connection may be older than an outage of Redis; a
            # message that arrives twice does no harm.
            retry=Retry(NoBackoff(), 1),
            socket_connect_timeout=_SECONDS,
            # The callers bound their operations. redis-py's own limit is `wait_for`, which before
            # Python 3.12 may lose a cancellation (cpython gh-86296).
            socket_timeout=None,
            **keepalive,
        )
    except ValueError:
        # The URL may hold a password, and so may the text of the error: neither is shown.
        raise BusUnavailable("the address of Redis is no redis:// URL") from None
    try:
        yield client
    finally:
        await client.aclose()


@asynccontextmanager
async def open_redis_bus(url: str, *, namespace: str = "headend") -> AsyncGenerator[RedisBus, None]:
    """Open the bus for the length of the block; services that share a Redis differ in namespace.

    Redis need not be available: the bus tries to connect again, also after outages.

    Raises:
        BusUnavailable: the URL is not one of Redis.
    """
    async with open_redis_client(url) as client, running_redis_bus(client, namespace) as bus:
        await bus.wait_tried()  # the first attempt ends in `_SECONDS`
        yield bus


@asynccontextmanager
async def running_redis_bus(
    client: Any,  # redis-py's
    namespace: str,
    *,
    every_topic: bool = True,
    name: str = "bus",
) -> AsyncGenerator[RedisBus, None]:
    """Run a bus over open connections for the length of the block (see `RedisBus`)."""
    bus = RedisBus(client, namespace, every_topic=every_topic, name=name)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(bus.run())
        try:
            yield bus
        finally:
            running.cancel()
