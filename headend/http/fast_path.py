"""uvicorn's HTTP protocol with a shortcut for answers that need no application around them.

Such an answer needs no scope and no messages, and no task where it is at hand: its head and body
leave in one write. A file leaves by `sendfile`, without a copy in this process. What `sendfile`
does not take, because the socket is full or the file is not in memory, goes through the transport
in small pieces; its flow control says when to go on, so a slow reader holds one of them at most.

All else is uvicorn's: parsing, keep-alive, pipelining, draining, and every request that has no
shortcut. Linux only where files are concerned (`RWF_NOWAIT`): elsewhere pieces carry all of them.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Sequence
from http import HTTPStatus
from typing import Any, Final, cast

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from api.http.media_response import Answer
from api.http.open_file import OpenFile
from headend.http.limits import BoundedProtocol
from media.no_op import do_nothing

__all__ = ["Shortcut", "ShortcutProtocol"]

# Asked with method, target, headers (names in lower case) and the peer's address, None for a local
# socket: an answer, a way to wait for one, or None where the application must be asked.
Shortcut = Callable[
    [str, str, Sequence[tuple[bytes, bytes]], str | None],
    Answer | Coroutine[Any, Any, Answer] | None,
]

log = logging.getLogger(__name__)

# Given to `sendfile` at a time, after looking whether both ends are in memory: the page cache lets
# go of what was read longest ago, so a hole with both ends still there is rare.
_STRETCH: Final = 1 << 20
# After so much the other connections have their turn: 1 ms at most.
_TURN: Final = 4 << 20
# What goes through the transport: enough to wake up for, little to hold for each slow reader.
_PIECE: Final = 64 * 1024


_FAILED: Final = Answer(500, ((b"content-length", b"0"), (b"cache-control", b"no-store")))

_STATUS_LINES: Final = {
    each.value: f"HTTP/1.1 {each.value} {each.phrase}".encode() for each in HTTPStatus
}


class _Sending:
    """A file's bytes that are still to be sent, behind the head of the answer."""

    def __init__(self, head: bytes, answer: Answer, file: OpenFile) -> None:
        self.file = file
        self._head = head
        self._at = answer.start
        self._stop = answer.stop

    @property
    def over(self) -> bool:
        """Whether all was handed on."""
        return self._at >= self._stop and not self._head

    def push(self, handle: int) -> bool:
        """Send from memory as much as the socket takes in one turn; say whether it took a turn.

        Raises:
            OSError: the connection or the disk failed, or the file is shorter than it was.
        """
        turn = min(self._stop, self._at + _TURN)
        while self._head or self._at < turn:
            length = min(_STRETCH, turn - self._at)
            if length and not self.file.is_in_memory(self._at, self._at + length):
                return False
            try:
                if self._head:
                    # At once before its file, and by itself: a congestion control that paces then
                    # sends the file as acknowledgements come, and not all in this call (measured
                    # with BBR: 200 us for 2 MB, against 280 us when they share a packet).
                    self._head = self._head[os.write(handle, self._head) :]
                self._at += self._sendfile(handle, length)
            except BlockingIOError:
                return False
        return True

    def _sendfile(self, handle: int, length: int) -> int:
        if not length:
            return 0
        sent = os.sendfile(handle, self.file.handle, self._at, length)
        if not sent:
            raise OSError("a file became shorter while it was sent")
        return sent

    async def piece(self) -> bytes:
        """Take the next piece, from the disk where it has to be."""
        found, self._head = self._head, b""
        if not found:
            found = await self.file.take(self._at, min(_PIECE, self._stop - self._at))
            self._at += len(found)
        return found


class ShortcutProtocol(BoundedProtocol):
    """A connection; `shortcut` is the application's."""

    shortcut: Shortcut

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin; whatever the socket does not take pauses the writer, be it a single byte."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)
        self._handle: int = transport.get_extra_info("socket").fileno()
        self._peer = self.client[0] if self.client else None

    def connection_lost(self, exc: Exception | None) -> None:
        """End; the descriptor may be another connection's from now on."""
        self._handle = -1
        super().connection_lost(exc)

    def on_headers_complete(self) -> None:
        """Take the shortcut, or make a request of the application."""
        self.head_came()
        if not self._take_shortcut():
            super().on_headers_complete()

    def _take_shortcut(self) -> bool:
        """Answer the request if that can be done now; say whether it was."""
        parser = self.parser
        if (
            parser is None
            or self._is_busy()
            or self.expect_100_continue
            or parser.get_http_version() != "1.1"
            or not parser.should_keep_alive()
            or parser.should_upgrade()
        ):
            return False
        found = self.shortcut(
            parser.get_method().decode(), self.url.decode(), self.headers, self._peer
        )
        if found is None:
            return False
        if not isinstance(found, Answer):
            self.cycle = self._cycle()
            self._go_on(self._send_later(self.cycle, found))
        elif found.file is None:
            self.cycle = _ANSWERED
            self.transport.write(self._head(found) + found.body)
            self.on_response_complete()
        else:
            self._send_file(_Sending(self._head(found), found, found.file))
        return True

    def _is_busy(self) -> bool:
        """Say whether an earlier answer is still under way, or the connection is at its end."""
        cycle = cast("RequestResponseCycle | None", self.cycle)  # None before the first request
        unfinished = cycle is not None and not cycle.response_complete
        return unfinished or self.flow.write_paused or self.transport.is_closing()

    def _head(self, answer: Answer) -> bytes:
        pairs = (*self.server_state.default_headers, *answer.headers)
        lines = [_STATUS_LINES[answer.status], *map(b": ".join, pairs), b"\r\n"]
        return b"\r\n".join(lines)

    def _send_file(self, sending: _Sending) -> None:
        """Send what the socket takes now; a task sends the rest."""
        try:
            sending.push(self._handle)
        except OSError as error:
            self.cycle = self._cycle()
            sending.file.close()
            self._give_up(error)
            return
        if sending.over:
            sending.file.close()
            self.cycle = _ANSWERED
            self.on_response_complete()
            return
        self.cycle = self._cycle()
        self._go_on(self._send_rest(self.cycle, sending))

    def _go_on(self, work: Coroutine[Any, Any, None]) -> None:
        # Among uvicorn's tasks: it waits for them when it drains, and cancels them in the end.
        task = self.loop.create_task(work)
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)

    async def _send_later(
        self, cycle: RequestResponseCycle, coming: Coroutine[Any, Any, Answer]
    ) -> None:
        try:
            answer = await coming
        except asyncio.CancelledError:
            self.transport.abort()
            raise
        except Exception:  # the edge of a connection: what one request meets, no other does
            log.exception("request failed")
            answer = _FAILED
        if self.transport.is_closing():
            answer.close()
        elif answer.file is None:
            self.transport.write(self._head(answer) + answer.body)
            self._complete(cycle)
        else:
            await self._send_rest(cycle, _Sending(self._head(answer), answer, answer.file))

    async def _send_rest(self, cycle: RequestResponseCycle, sending: _Sending) -> None:
        try:
            while not sending.over:
                # Asked each time before the descriptor is used: it may be another connection's.
                if self.transport.is_closing():
                    return
                if self.flow.write_paused:
                    await self.flow.drain()
                elif sending.push(self._handle):
                    await asyncio.sleep(0)  # the others' turn
                else:
                    piece = await sending.piece()
                    if not self.transport.is_closing():
                        self.transport.write(piece)
            self._complete(cycle)
        except OSError as error:
            self._give_up(error)
        except asyncio.CancelledError:
            self.transport.abort()
            raise
        finally:
            sending.file.close()

    def _cycle(self) -> RequestResponseCycle:
        """Return a request in the middle of its answer, as the rest of the protocol knows it."""
        cycle = RequestResponseCycle(
            scope=self.scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=[],
            message_event=asyncio.Event(),
            expect_100_continue=False,
            keep_alive=True,
            on_response=self.on_response_complete,
        )
        cycle.response_started = True
        return cycle

    def _complete(self, cycle: RequestResponseCycle) -> None:
        cycle.response_complete = True
        cycle.message_event.set()
        if not cycle.keep_alive:  # the server is draining
            self.transport.close()
        self.on_response_complete()

    def _give_up(self, error: OSError) -> None:
        """End a connection in the middle of an answer, so that nobody takes it for whole."""
        if not isinstance(error, ConnectionError):
            log.error("object not served", extra={"reason": str(error)})
        self.transport.abort()


def _answered() -> RequestResponseCycle:
    """Return a request that is over, for the connections whose last one took the shortcut."""
    nothing: Any = None  # nobody looks at these once a request is over
    cycle = RequestResponseCycle(
        scope=nothing,
        transport=nothing,
        flow=nothing,
        logger=log,
        access_logger=log,
        access_log=False,
        default_headers=[],
        message_event=asyncio.Event(),
        expect_100_continue=False,
        keep_alive=True,
        on_response=do_nothing,
    )
    cycle.response_started = cycle.response_complete = True
    return cycle


_ANSWERED: Final = _answered()
