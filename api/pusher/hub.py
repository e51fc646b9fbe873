"""The subscriptions of this process, and the outgoing queue of each connection.

A message is encoded once for all subscribers and queued for each; nothing here waits. A connection
that reads too slowly is closed with 4100, without an effect on the others.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from api.pusher.limits import PusherSettings
from api.pusher.protocol import OVER_CAPACITY, RECONNECT, CloseConnection, event_message
from media.fair_share import FairShare, Holder, Refusal
from media.no_op import do_nothing, never

# The ASGI extension of a web-socket scope with which a server sends whole frames: a function that
# sends one at once and returns whether it could. A task and a message cost three times as much.
FRAMES: Final = "headend.frames"
# How long queued messages may still be sent after a close was requested.
_FLUSH_SECONDS: Final = 2.0


def frame(text: str) -> bytes:
    """Return the unmasked web-socket frame of a text (RFC 6455, section 5.2)."""
    payload = text.encode()
    length = len(payload)
    if length < 126:
        return bytes((0x81, length)) + payload
    if length < 1 << 16:
        return b"\x81\x7e" + length.to_bytes(2, "big") + payload
    return b"\x81\x7f" + length.to_bytes(8, "big") + payload


class Subscriber:
    """One connection: its socket id, its channels and its queue of outgoing messages."""

    def __init__(self, name: str, limits: PusherSettings) -> None:
        self.name = name
        self.channels: set[str] = set()
        self.end: CloseConnection | None = None
        """Why the connection is being closed, or None."""
        self.on_close: Callable[[float], None] = do_nothing
        """Called when a close is requested, with the seconds left to the writer."""
        self.send_frame: Callable[[bytes], bool] = never
        """Sends a frame at once and returns True, or returns False: the text must be queued."""
        self._texts: deque[str] = deque()
        self._bytes = 0
        self._most = limits.waiting
        self._most_bytes = limits.waiting_bytes
        self._more = asyncio.Event()

    def enqueue(self, text: str, ready: bytes | None = None) -> None:
        """Queue a text; close the connection if its queue is full.

        `ready` is the frame of the text, encoded once for all subscribers.
        """
        if self.end is not None or (ready and not self._texts and self.send_frame(ready)):
            return
        if len(self._texts) >= self._most or self._bytes + len(text) > self._most_bytes:
            self._texts.clear()
            self._bytes = 0
            self.close(CloseConnection(OVER_CAPACITY, "too much is waiting to be read"), flush=0)
            return
        self._texts.append(text)
        self._bytes += len(text)
        self._more.set()

    def close(self, end: CloseConnection, *, flush: float = _FLUSH_SECONDS) -> None:
        """Close the connection, after at most `flush` seconds; the first reason counts."""
        if self.end is None:
            self.end = end
            self._more.set()
            self.on_close(flush)

    async def next(self) -> str | None:
        """Wait for the next text and return it; None once the connection is to be closed."""
        while not self._texts:
            if self.end is not None:
                return None
            self._more.clear()
            await self._more.wait()
        text = self._texts.popleft()
        self._bytes -= len(text)
        return text


class Hub:
    """All subscribers of a process."""

    def __init__(self, limits: PusherSettings) -> None:
        self._subscribers: dict[str, Subscriber] = {}
        self._channels: dict[str, set[Subscriber]] = {}
        self._places = FairShare(limits.sockets)
        self._closed = False
        self._empty = asyncio.Event()

    def __len__(self) -> int:
        return len(self._subscribers)

    def admit(self, holders: tuple[Holder, ...]) -> CloseConnection | None:
        """Admit a connection of these holders, or return the close that refuses it.

        `leave` must be called at the end of an admitted one, with the same holders.
        """
        if self._closed:
            return CloseConnection(OVER_CAPACITY, "the service is stopping")
        match self._places.acquire(holders):
            case Refusal.ALL:
                return CloseConnection(OVER_CAPACITY, "too many connections")
            case Refusal.SHARE:
                return CloseConnection(OVER_CAPACITY, "too many connections of one client")
            case None:
                return None

    def leave(self, holders: tuple[Holder, ...]) -> None:
        """Count the end of an admitted connection."""
        self._places.release(holders)

    @property
    def channels(self) -> int:
        """The number of channels with subscribers."""
        return len(self._channels)

    def add(self, subscriber: Subscriber) -> None:
        """Add a subscriber without channels."""
        self._subscribers[subscriber.name] = subscriber

    def remove(self, subscriber: Subscriber) -> None:
        """Remove a subscriber from all its channels."""
        for channel in tuple(subscriber.channels):
            self.unsubscribe(subscriber, channel)
        self._subscribers.pop(subscriber.name, None)
        if not self._subscribers:
            self._empty.set()

    def subscribe(self, subscriber: Subscriber, channel: str) -> None:
        """Subscribe a connection to a channel."""
        subscriber.channels.add(channel)
        self._channels.setdefault(channel, set()).add(subscriber)

    def unsubscribe(self, subscriber: Subscriber, channel: str) -> None:
        """Unsubscribe a connection; a channel without subscribers is dropped."""
        subscriber.channels.discard(channel)
        subscribers = self._channels.get(channel)
        if subscribers is not None:
            subscribers.discard(subscriber)
            if not subscribers:
                del self._channels[channel]

    def deliver(
        self, channels: Iterable[str], event: str, data: str, except_socket: str | None = None
    ) -> None:
        """Send an event to the subscribers of the channels, except the socket `except_socket`."""
        for channel in channels:
            subscribers = self._channels.get(channel)
            if not subscribers:
                continue
            text = event_message(event, channel, data)
            ready = frame(text)
            for subscriber in subscribers:
                if subscriber.name != except_socket:
                    subscriber.enqueue(text, ready)

    def reconnect(self, reason: str) -> None:
        """Make every client reconnect, since it may have missed events."""
        for subscriber in self._subscribers.values():
            subscriber.close(CloseConnection(RECONNECT, reason))

    def stop(self) -> None:
        """Accept no more connections, and make every client reconnect elsewhere or later."""
        self._closed = True
        self.reconnect("the service is stopping")

    async def wait_until_empty(self) -> None:
        """Wait until all connections are closed."""
        while self._subscribers:
            self._empty.clear()
            await self._empty.wait()
