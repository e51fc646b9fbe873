"""The bus within one process."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager

from storage.bus.base import Mailbox, Notice, checked_topic

__all__ = ["MemoryBus", "Topics"]


class Topics:
    """Who in this process listens to what; a topic without listeners takes no room."""

    def __init__(self) -> None:
        self._boxes: dict[str, list[Mailbox]] = {}

    @asynccontextmanager
    async def listening(self, topics: Iterable[str]) -> AsyncGenerator[Mailbox, None]:
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

    def put(self, topic: str, data: bytes) -> None:
        """Give a notice to all who listen to its topic."""
        for box in self._boxes.get(topic, ()):
            box.put(Notice(topic, data))

    def lose(self) -> None:
        """Tell all listeners that notices may be missing."""
        for box in {box for boxes in self._boxes.values() for box in boxes}:
            box.lose()


class MemoryBus:
    """Notices between the tasks of one process (see `storage.bus.base.Bus`)."""

    def __init__(self) -> None:
        self._topics = Topics()

    async def publish(self, topic: str, data: bytes) -> None:
        """Say something to all who listen to the topic now."""
        self._topics.put(checked_topic(topic), data)

    @asynccontextmanager
    async def subscribe(self, *topics: str) -> AsyncGenerator[Mailbox, None]:
        """Listen to topics for the length of a block: from its first line on, nothing is missed."""
        async with self._topics.listening(topics) as box:
            yield box
