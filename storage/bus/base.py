"""Notices between tasks and processes: at most once, in order, to whoever listens now.

    StorageError
    └── BusUnavailable      the world's: the bus cannot be reached; what was said went to nobody

A notice says that something changed; who hears it asks the catalog. So a subscriber that may have
missed some is told with `Lost`, and asks anew.
"""

import asyncio
import re
from collections import deque
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

import msgspec

from storage.errors import StorageError

__all__ = ["Bus", "BusMessage", "BusUnavailable", "Mailbox", "MessagesLost", "checked_topic"]

# A subscriber that is this far behind is better off asking for the present state.
MAILBOX_CAPACITY: Final = 1024
_TOPIC: Final = re.compile(r"[0-9A-Za-z_.:-]{1,200}")


class BusUnavailable(StorageError):
    """The bus cannot be reached."""


class BusMessage(msgspec.Struct, frozen=True):
    """What was published under a topic."""

    topic: str
    data: bytes


class MessagesLost(msgspec.Struct, frozen=True):
    """Notices may be missing at this place: the bus was away, or the reader too slow."""


class Mailbox:
    """What one subscriber has still to read, bounded.

    When it is full, all that waits is replaced by one `Lost`: old notices are the cheapest to lose,
    and who lost one must ask anew anyway.
    """

    def __init__(self, capacity: int = MAILBOX_CAPACITY) -> None:
        self._waiting = capacity
        self._notices: deque[BusMessage | MessagesLost] = deque()
        self._more = asyncio.Event()

    def put(self, notice: BusMessage) -> None:
        """Add a notice; never waits."""
        if len(self._notices) >= self._waiting:
            self.mark_lost()
        self._notices.append(notice)
        self._more.set()

    def mark_lost(self) -> None:
        """Put `Lost` in place of all that waits."""
        self._notices.clear()
        self._notices.append(MessagesLost())
        self._more.set()

    async def get(self) -> BusMessage | MessagesLost:
        """Return the next notice; waits for it."""
        while not self._notices:
            self._more.clear()
            await self._more.wait()
        return self._notices.popleft()


class Bus(Protocol):
    """Carries notices."""

    async def publish(self, topic: str, data: bytes) -> None:
        """Say something to all who listen to the topic now."""
        ...

    def subscribe(self, *topics: str) -> AbstractAsyncContextManager[Mailbox]:
        """Listen to topics for the length of a block: from its first line on, nothing is missed."""
        ...


def checked_topic(topic: str) -> str:
    """Return the topic.

    Raises:
        ValueError: it is no name of 1 to 200 letters, digits and `_.:-`.
    """
    if not _TOPIC.fullmatch(topic):
        raise ValueError(f"no topic: {topic[:40]!r}")
    return topic
