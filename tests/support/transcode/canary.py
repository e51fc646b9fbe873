"""A file that must not be opened and a server that must not be connected to, both watched."""

import ctypes
import os
import socket
import struct
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_ACCESS, _OPEN = 0x1, 0x20  # inotify(7)
_EVENT = struct.Struct("=iIII")


@dataclass(frozen=True)
class Canary:
    """`path` is a film outside the sandbox, `web` the address of a server on the loopback."""

    path: Path
    web: str
    _events: int
    _server: socket.socket

    @property
    def port(self) -> int:
        return self._server.getsockname()[1]

    def alarms(self) -> list[str]:
        """Return the violations since the last call."""
        return [*self._opened(), *self._called()]

    def _opened(self) -> list[str]:
        try:
            data = os.read(self._events, 4096)
        except BlockingIOError:
            return []
        return ["the file was opened"] * (len(data) // _EVENT.size)

    def _called(self) -> list[str]:
        calls: list[str] = []
        while True:
            # The kernel establishes a connection before it is accepted.
            try:
                line, (host, _) = self._server.accept()
            except BlockingIOError:
                return calls
            line.close()
            calls.append(f"{host} called")


@contextmanager
def canary(film: Path) -> Generator[Canary]:
    """Watch a file and listen on a port for the length of the block."""
    libc = ctypes.CDLL(None, use_errno=True)
    events = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    assert events >= 0, os.strerror(ctypes.get_errno())
    try:
        assert libc.inotify_add_watch(events, bytes(film), _ACCESS | _OPEN) >= 0
        with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
            server.setblocking(False)
            yield Canary(film, f"http://127.0.0.1:{server.getsockname()[1]}", events, server)
    finally:
        os.close(events)
