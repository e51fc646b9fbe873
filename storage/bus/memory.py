"""The bus within one process."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager

from storage.bus.base import BusMessage, Mailbox, checked_topic


class Topics:
    """The subscriptions of this process, by topic."""

    def __init__(self) -> None:
        self._boxes: dict[str, list[Mailbox]] = {}

    def __contains__(self, topic: str) -> bool:
        return topic in self._boxes

    @property
    def names(self) -> tuple[str, ...]:
        """The topics that have subscribers."""
        return tuple(self._boxes)

    @asynccontextmanager
    async def subscribe(self, topics: Iterable[str]) -> AsyncGenerator[Mailbox, None]:
        """Subscribe a new mailbox to topics for the length of a block."""
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
        """Put a message into the mailboxes of its topic."""
        for box in self._boxes.get(topic, ()):
            box.put(BusMessage(topic, data))

    def mark_lost(self, topic: str | None = None) -> None:
        """Mark that messages may be missing, in the mailboxes of a topic or (None) in all."""
        topics = self._boxes.values() if topic is None else [self._boxes.get(topic, [])]
        for box in {box for boxes in topics for box in boxes}:
            box.mark_lost()


class MemoryBus:
    """Messages between the tasks of one process (see `storage.bus.base.Bus`)."""

    is_connected = True

    def __init__(self) -> None:
        self._topics = Topics()

    async def publish(self, topic: str, data: bytes) -> None:
        """Send a message to all present subscribers of the topic."""
        self._topics.deliver(checked_topic(topic), data)

    @asynccontextmanager
    async def subscribe(self, *topics: str) -> AsyncGenerator[Mailbox, None]:
        """Subscribe for the length of a block; nothing is missed from its first line on."""
        async with self._topics.subscribe(topics) as box:
            yield box
