"""The bus within one process."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager

from storage.bus.base import BusMessage, Mailbox, checked_topic

__all__ = ["MemoryBus", "Topics"]


class Topics:
    """Who in this process listens to what; a topic without listeners takes no room."""

    def __init__(self) -> None:
        self._boxes: dict[str, list[Mailbox]] = {}

    @asynccontextmanager
    async def subscribe(self, topics: Iterable[str]) -> AsyncGenerator[Mailbox, None]:
        """Let a new box listen to topics for the length of a block."""
        box = Mailbox()
        names = {checked_topic(topic) for topic in topics}
        for name in names:
            self._boxes.setdefault(name, []).append(box)
        try:
            yield box
        finally:
            for name in names:
                self._boxes[name].remove(box)
                if not self._boxes[name]:
                    del self._boxes[name]

    def deliver(self, topic: str, data: bytes) -> None:
        """Give a notice to all who listen to its topic."""
        for box in self._boxes.get(topic, ()):
            box.put(BusMessage(topic, data))

    def mark_lost(self) -> None:
        """Tell all listeners that notices may be missing."""
        for box in {box for boxes in self._boxes.values() for box in boxes}:
            box.mark_lost()


class MemoryBus:
    """Notices between the tasks of one process (see `storage.bus.base.Bus`)."""

    def __init__(self) -> None:
        self._topics = Topics()

    async def publish(self, topic: str, data: bytes) -> None:
        """Say something to all who listen to the topic now."""
        self._topics.deliver(checked_topic(topic), data)

    @asynccontextmanager
    async def subscribe(self, *topics: str) -> AsyncGenerator[Mailbox, None]:
        """Listen to topics for the length of a block: from its first line on, nothing is missed."""
        async with self._topics.subscribe(topics) as box:
            yield box
