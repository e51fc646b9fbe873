"""uvicorn's HTTP protocol with a fast path for answers that can bypass ASGI.

An application may have a fast path (`api.http.application`), which returns an answer as a value. It
costs no ASGI scope and no messages, and no task if it is available at once: head and body leave
in one write. A file is sent with `sendfile`, without a copy in this process. Whatever `sendfile`
cannot send at once (the socket is full, or the file is not in the page cache) goes through the
transport in small pieces under its flow control, so a slow reader holds one piece at most.

A request whose answer is a `PendingResponse` is parked (`headend.http.parked`): the connection
keeps nothing of it but that object, and requests behind it wait for their turn.

uvicorn does everything else: parsing, keep-alive, pipelining, draining, and every request without
a fast path. `sendfile` needs Linux (`RWF_NOWAIT`); elsewhere all files are sent in pieces.

Measured against the same origin through ASGI alone, in requests per CPU-second: segments of 2 MB
2.5 times, playlists 1.8 times, 304 answers 1.5 times, ranges 1.4 times as many
(`python -m bench.origin --asgi`, medians of 5 rounds).
"""

import asyncio
import logging
import os
from collections.abc import Coroutine
from http import HTTPStatus
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from api.http.application import FastPath
from api.http.open_file import OpenFile
from api.http.response import HttpResponse, PendingResponse, cross_origin_response
from headend.http.limits import BoundedProtocol
from headend.http.parked import ParkedConnections
from media.no_op import do_nothing

log = logging.getLogger(__name__)

# Bytes per `sendfile` call, made after a check that both ends are in memory: the page cache evicts
# the least recently read pages, so a hole between two cached ends is rare.
_SENDFILE_BYTES: Final = 1 << 20
# Bytes sent before other connections get their turn; takes at most 1 ms.
_TURN_BYTES: Final = 4 << 20
# Bytes per write through the transport: worth a wake-up, and little to hold for each slow reader.
_PIECE_BYTES: Final = 64 * 1024


_SERVER_ERROR: Final = cross_origin_response(500, {"cache-control": "no-store"})
_NOT_IN_TIME: Final = cross_origin_response(503, {"retry-after": "1", "cache-control": "no-store"})
_DRAINING: Final = cross_origin_response(
    503, {"retry-after": "1", "cache-control": "no-store", "connection": "close"}
)

_STATUS_LINES: Final = {
    each.value: f"HTTP/1.1 {each.value} {each.phrase}".encode() for each in HTTPStatus
}


class _FileTransfer:
    """The head of a response and the bytes of its file that are still to be sent."""

    def __init__(self, head: bytes, answer: HttpResponse, file: OpenFile) -> None:
        self.file = file
        self._head = head
        self._position = answer.start
        self._stop = answer.stop

    @property
    def done(self) -> bool:
        """True once everything was sent or handed to the transport."""
        return self._position >= self._stop and not self._head

    def send(self, handle: int) -> bool:
        """Send one turn's bytes from the page cache; return False if the socket or cache runs out.

        Raises:
            OSError: the connection or the disk failed, or the file was truncated.
        """
        turn = min(self._stop, self._position + _TURN_BYTES)
        while self._head or self._position < turn:
            length = min(_SENDFILE_BYTES, turn - self._position)
            if length and not self.file.is_in_memory(self._position, self._position + length):
                return False
            try:
                if self._head:
                    # The head goes in a packet of its own, right before the file: a pacing
                    # congestion control then sends the file as acknowledgements arrive, not all
                    # in this call (BBR: 200 us for 2 MB, 280 us when they share a packet).
                    self._head = self._head[os.write(handle, self._head) :]
                self._position += self._sendfile(handle, length)
            except BlockingIOError:
                return False
        return True

    def _sendfile(self, handle: int, length: int) -> int:
        if not length:
            return 0
        sent = os.sendfile(handle, self.file.handle, self._position, length)
        if not sent:
            raise OSError("the file was truncated while it was being sent")
        return sent

    async def next_piece(self) -> bytes:
        """Return the next piece, read from disk if it is not in memory."""
        piece, self._head = self._head, b""
        if not piece:
            length = min(_PIECE_BYTES, self._stop - self._position)
            piece = await self.file.read_some(self._position, length)
            self._position += len(piece)
        return piece


class FastPathProtocol(BoundedProtocol):
    """One connection; `fast_path` is the application's, `parked` the server's."""

    __slots__ = ("_handle", "_pending")

    fast_path: FastPath
    parked: ParkedConnections

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start."""
        super().connection_made(transport)
        self._handle: int = transport.get_extra_info("socket").fileno()
        self._pending: PendingResponse | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel a parked request, and forget the descriptor: another connection may get it."""
        self._handle = -1
        pending = self._unpark()
        super().connection_lost(exc)
        if pending is not None:
            pending.cancel()

    def shutdown(self) -> None:
        """End after the answer that is being sent; a parked request is not waited for."""
        if self._pending is None:
            super().shutdown()
        else:
            self._is_draining = True
            self.give_up()

    def handle_head(self) -> None:
        """Answer through the fast path, or pass the request to the application."""
        if self._is_draining or not self._try_fast_path():
            super().handle_head()

    def _try_fast_path(self) -> bool:
        """Answer the request through the fast path if possible; return True if it was."""
        parser = self.parser
        if (
            parser is None
            or self._is_busy()
            or self.expect_100_continue
            or (method := parser.get_method()) == b"HEAD"  # uvicorn leaves the bodies out
            or parser.get_http_version() != "1.1"
            or not parser.should_keep_alive()
            or parser.should_upgrade()
        ):
            return False
        try:
            answer = self.fast_path(method.decode(), self.url.decode(), self.headers, self._peer)
            if isinstance(answer, PendingResponse):
                self._park(answer)
                self._forget_request()
                return True
        except Exception:  # the per-connection edge: uvicorn would blame the client
            log.exception("request failed")
            answer = _SERVER_ERROR
        if answer is None:
            return False
        if not isinstance(answer, HttpResponse):
            self.cycle = self._new_cycle()
            self._start_task(self._send_when_ready(self.cycle, answer))
        elif answer.file is None:
            self.cycle = _COMPLETED
            self.transport.write(self._head(answer) + answer.body)
            self.on_response_complete()
        else:
            self._send_file(_FileTransfer(self._head(answer), answer, answer.file))
        return True

    def _is_busy(self) -> bool:
        """Return True while an earlier answer is being sent, or once the connection is closing."""
        return self._is_answering() or self.flow.write_paused or self.transport.is_closing()

    def _head(self, answer: HttpResponse) -> bytes:
        pairs = (*self.server_state.default_headers, *answer.headers)
        lines = [_STATUS_LINES[answer.status], *map(b": ".join, pairs), b"\r\n"]
        return b"\r\n".join(lines)

    def _send_file(self, transfer: _FileTransfer) -> None:
        """Send what the socket accepts now; a task sends the rest."""
        try:
            transfer.send(self._handle)
        except OSError as error:
            self.cycle = self._new_cycle()
            transfer.file.close()
            self._abort(error)
            return
        if transfer.done:
            transfer.file.close()
            self.cycle = _COMPLETED
            self.on_response_complete()
            return
        self.cycle = self._new_cycle()
        self._start_task(self._send_rest(self.cycle, transfer))

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        # Added to uvicorn's tasks, which it awaits while draining and cancels at the end.
        task = self.loop.create_task(work)
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)

    async def _send_when_ready(
        self,
        cycle: RequestResponseCycle,
        lookup: Coroutine[Any, Any, HttpResponse | PendingResponse],
    ) -> None:
        try:
            answer = await lookup
            if isinstance(answer, PendingResponse):
                self._park_later(cycle, answer)
                return
        except asyncio.CancelledError:
            self.transport.abort()
            raise
        except Exception:  # the per-connection edge: a failed request must not affect others
            log.exception("request failed")
            answer = _SERVER_ERROR
        if self.transport.is_closing():
            answer.close()
        elif answer.file is None:
            self.transport.write(self._head(answer) + answer.body)
            self._complete(cycle)
        else:
            await self._send_rest(cycle, _FileTransfer(self._head(answer), answer, answer.file))

    async def _send_rest(self, cycle: RequestResponseCycle, transfer: _FileTransfer) -> None:
        try:
            while not transfer.done:
                # Checked before each use: another connection may own the descriptor by now.
                if self.transport.is_closing():
                    return
                if self.flow.write_paused:
                    await self.flow.drain()
                elif transfer.send(self._handle):
                    await asyncio.sleep(0)  # other connections' turn
                else:
                    piece = await transfer.next_piece()
                    if not self.transport.is_closing():
                        self.transport.write(piece)
            self._complete(cycle)
        except OSError as error:
            self._abort(error)
        except asyncio.CancelledError:
            self.transport.abort()
            raise
        finally:
            transfer.file.close()

    # -- parked requests --------------------------------------------------------------------------

    def on_body(self, body: bytes) -> None:
        """Handle a piece of a body; that of a parked request is dropped."""
        super().on_body(b"" if self.cycle is _PARKED else body)

    def _park(self, pending: PendingResponse) -> None:
        pending.subscribe(self._answer_parked)
        self._pending = pending
        self.parked.add(self, self.loop)

    def _forget_request(self) -> None:
        """Forget the request, which is the connection's newest; a parsed head takes 2 KB."""
        self.cycle = _PARKED
        self.scope, self.headers, self.url = _NO_SCOPE, [], b""

    def _park_later(self, cycle: RequestResponseCycle, pending: PendingResponse) -> None:
        """Park a request whose answer was looked up in a task; others may be behind it by now."""
        if self.transport.is_closing():
            return
        self._park(pending)
        if self.cycle is cycle:
            self._forget_request()
        if self._is_draining:
            self.give_up()

    def _unpark(self) -> PendingResponse | None:
        """End the parked request, if there is one, and return its response."""
        pending, self._pending = self._pending, None
        if pending is not None:
            self.parked.remove(self)
            if self.cycle is _PARKED:  # else it is the cycle of the last request behind it
                self.cycle = _COMPLETED
        return pending

    def give_up(self) -> None:
        """Answer 503 in place of the parked request's response; close if the server drains."""
        pending = self._unpark()
        if pending is not None:
            pending.cancel()
            self._send_parked(_DRAINING if self._is_draining else _NOT_IN_TIME)

    def _answer_parked(self, answer: HttpResponse) -> None:
        """Send the response of the parked request."""
        if self._unpark() is None:
            answer.close()
        else:
            self._send_parked(answer)

    def _send_parked(self, answer: HttpResponse) -> None:
        """Send an answer; a failure ends this connection, not the caller's loop over many."""
        try:
            if self.transport.is_closing():
                answer.close()
                return
            head = self._head(answer)
            if answer.file is not None:
                self._send_parked_file(_FileTransfer(head, answer, answer.file))
                return
            # One write for uvloop, without a copy of a body that many answers share.
            self.transport.writelines((head, answer.body) if answer.body else (head,))
            if self._is_draining:
                self.transport.close()
            self.on_response_complete()
        except Exception:  # the per-connection edge: others wait for the same answer
            log.exception("request failed")
            answer.close()
            self.transport.abort()

    def _send_parked_file(self, transfer: _FileTransfer) -> None:
        cycle = self._new_cycle()
        if self.cycle is _COMPLETED:
            self.cycle = cycle
        self._start_task(self._send_rest(cycle, transfer))

    def _new_cycle(self) -> RequestResponseCycle:
        """Return the cycle of a request whose answer has begun, for uvicorn's own code."""
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

    def _abort(self, error: OSError) -> None:
        """Abort the connection, so that the client does not mistake the answer for complete."""
        if not isinstance(error, ConnectionError):
            log.error("object not served", extra={"reason": str(error)})
        self.transport.abort()


def _shared_cycle(*, complete: bool) -> RequestResponseCycle:
    """Return a cycle for all connections whose last request took the fast path."""
    nothing: Any = None  # not used once a request is complete
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
    cycle.response_started = True
    cycle.response_complete = complete
    return cycle


_COMPLETED: Final = _shared_cycle(complete=True)
# uvicorn sets another at the beginning of each request.
_NO_SCOPE: Final[Any] = {}
_PARKED: Final = _shared_cycle(complete=False)
