"""The protocol of the bus: messages between tasks and processes, at most once and in order.

    StorageError
    └── BusUnavailable      a fault outside Headend: the bus cannot be reached; the message is lost

A message only says that something changed; its receiver then reads the catalog. A subscriber that
may have missed messages receives `MessagesLost` and reads the present state.
"""

import asyncio
import re
from collections import deque
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

import msgspec

from storage.errors import StorageError

# A subscriber that is this far behind does better to read the present state.
MAILBOX_CAPACITY: Final = 1024
_TOPIC: Final = re.compile(r"[0-9A-Za-z_.:-]{1,200}")


class BusUnavailable(StorageError):
    """The bus cannot be reached."""


class BusMessage(msgspec.Struct, frozen=True):
    """A message that was published under a topic."""

    topic: str
    data: bytes


class MessagesLost(msgspec.Struct, frozen=True):
    """Messages may be missing here: the bus was unavailable, or the subscriber too slow."""


class Mailbox:
    """The bounded queue of one subscriber.

    When it is full, its whole content is replaced by one `MessagesLost`: a subscriber that lost one
    message must read the present state anyway.
    """

    def __init__(self, capacity: int = MAILBOX_CAPACITY) -> None:
        self._capacity = capacity
        self._messages: deque[BusMessage | MessagesLost] = deque()
        self._more = asyncio.Event()

    def put(self, message: BusMessage) -> None:
        """Add a message, without waiting."""
        if len(self._messages) >= self._capacity:
            self.mark_lost()
        self._messages.append(message)
        self._more.set()

    def mark_lost(self) -> None:
        """Replace all queued messages by one `MessagesLost`."""
        self._messages.clear()
        self._messages.append(MessagesLost())
        self._more.set()

    async def get(self) -> BusMessage | MessagesLost:
        """Wait for the next message and return it."""
        while not self._messages:
            self._more.clear()
            await self._more.wait()
        return self._messages.popleft()


class Bus(Protocol):
    """Carries messages from publishers to the present subscribers of a topic."""

    @property
    def is_connected(self) -> bool:
        """True while messages arrive, as far as is known."""
        ...

    async def publish(self, topic: str, data: bytes) -> None:
        """Send a message to all present subscribers of the topic.

        Raises:
            BusUnavailable: the bus cannot be reached.
        """
        ...

    def subscribe(self, *topics: str) -> AbstractAsyncContextManager[Mailbox]:
        """Subscribe for the length of a block; nothing is missed from its first line on."""
        ...


def checked_topic(topic: str) -> str:
    """Return a text unchanged if it is a valid topic.

    Raises:
        ValueError: the text is not 1 to 200 letters, digits and `_.:-`.
    """
    if not _TOPIC.fullmatch(topic):
        raise ValueError(f"no topic: {topic[:40]!r}")
    return topic
