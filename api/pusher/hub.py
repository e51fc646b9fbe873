"""Who in this process hears which channel, and what each has still to be sent.

A text is made once for all who hear it and put before each of them; nothing here waits for anybody.
Who does not take its texts away fast enough is let go with 4100, and the others do not notice.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from api.pusher.limits import PusherSettings
from api.pusher.protocol import OVER_CAPACITY, RECONNECT, CloseConnection, event_message
from media.no_op import do_nothing, never

__all__ = ["FRAMES", "Hub", "Subscriber", "frame"]

# The extension in a web-socket's ASGI scope with which a server takes whole frames: a function that
# sends one at once, and says whether it could. A task and a message for each cost thrice as much.
FRAMES: Final = "headend.frames"
# Texts that are still on their way when an end is ordered get so long.
_FLUSH_SECONDS: Final = 2.0


def frame(text: str) -> bytes:
    """Return the web-socket frame of a text, as a server sends it (RFC 6455, section 5.2)."""
    payload = text.encode()
    length = len(payload)
    if length < 126:
        return bytes((0x81, length)) + payload
    if length < 1 << 16:
        return b"\x81\x7e" + length.to_bytes(2, "big") + payload
    return b"\x81\x7f" + length.to_bytes(8, "big") + payload


class Subscriber:
    """One connection as the hub knows it: its name, its channels, what it has still to be sent."""

    def __init__(self, name: str, limits: PusherSettings) -> None:
        self.name = name
        self.channels: set[str] = set()
        self.end: CloseConnection | None = None
        """Why the connection is to be closed, once it is."""
        self.on_close: Callable[[float], None] = do_nothing
        """Called when an end is ordered: the writer has that many seconds left."""
        self.send_frame: Callable[[bytes], bool] = never
        """Sends a frame at once where that can be; else the text must wait for its turn."""
        self._texts: deque[str] = deque()
        self._bytes = 0
        self._most = limits.waiting
        self._most_bytes = limits.waiting_bytes
        self._more = asyncio.Event()

    def enqueue(self, text: str, ready: bytes | None = None) -> None:
        """Have a text sent; past the bounds the connection ends instead.

        `ready` is the text's frame, for who tells it to many.
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
        """Have the connection closed, after what waits or at once; the first reason stands."""
        if self.end is None:
            self.end = end
            self._more.set()
            self.on_close(flush)

    async def next(self) -> str | None:
        """Return the next text, which may take for ever; None when the end has come."""
        while not self._texts:
            if self.end is not None:
                return None
            self._more.clear()
            await self._more.wait()
        text = self._texts.popleft()
        self._bytes -= len(text)
        return text


class Hub:
    """All listeners of a process."""

    def __init__(self, limits: PusherSettings) -> None:
        self._limits = limits
        self._listeners: dict[str, Subscriber] = {}
        self._channels: dict[str, set[Subscriber]] = {}
        self._closed = False
        self._empty = asyncio.Event()

    def __len__(self) -> int:
        return len(self._listeners)

    @property
    def refusal(self) -> CloseConnection | None:
        """Why nobody more can come in now; None where somebody can."""
        if self._closed:
            return CloseConnection(OVER_CAPACITY, "the service is stopping")
        if len(self._listeners) >= self._limits.sockets:
            return CloseConnection(OVER_CAPACITY, "too many connections")
        return None

    @property
    def channels(self) -> int:
        """How many channels somebody hears."""
        return len(self._channels)

    def add(self, listener: Subscriber) -> None:
        """Take a listener in; it hears nothing yet."""
        self._listeners[listener.name] = listener

    def remove(self, listener: Subscriber) -> None:
        """Let a listener go, from all its channels."""
        for channel in tuple(listener.channels):
            self.unsubscribe(listener, channel)
        self._listeners.pop(listener.name, None)
        if not self._listeners:
            self._empty.set()

    def subscribe(self, listener: Subscriber, channel: str) -> None:
        """Let a listener hear a channel."""
        listener.channels.add(channel)
        self._channels.setdefault(channel, set()).add(listener)

    def unsubscribe(self, listener: Subscriber, channel: str) -> None:
        """Let a listener hear a channel no longer; one that nobody hears takes no room."""
        listener.channels.discard(channel)
        hearing = self._channels.get(channel)
        if hearing is not None:
            hearing.discard(listener)
            if not hearing:
                del self._channels[channel]

    def deliver(
        self, channels: Iterable[str], event: str, data: str, except_socket: str | None = None
    ) -> None:
        """Tell an event to all who hear one of the channels, except the connection `besides`."""
        for channel in channels:
            hearing = self._channels.get(channel)
            if not hearing:
                continue
            text = event_message(event, channel, data)
            ready = frame(text)
            for listener in hearing:
                if listener.name != except_socket:
                    listener.enqueue(text, ready)

    def reconnect(self, reason: str) -> None:
        """Have every client connect again, as it may have missed something."""
        for listener in self._listeners.values():
            listener.close(CloseConnection(RECONNECT, reason))

    def stop(self) -> None:
        """Let nobody more in, and have every client connect again, elsewhere or later."""
        self._closed = True
        self.reconnect("the service is stopping")

    async def wait_until_empty(self) -> None:
        """Wait until nobody is left."""
        while self._listeners:
            self._empty.clear()
            await self._empty.wait()
