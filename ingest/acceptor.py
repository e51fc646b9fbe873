"""Accepts the connections of a listening socket, for listeners of encoders and of other hosts.

Not by `loop.create_server`, which reports a TLS connection only after its handshake: connections
are to be counted, logged and timed out from the accept on.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Final

_BACKLOG: Final = 256
# Probably out of descriptors: accepting again at once would loop.
_PAUSE_SECONDS: Final = 1.0


class Acceptor:
    """One listening socket. A connection is passed on with the host and port of its peer.

    `on_failed` gets what keeps the system from accepting; it is tried again after a second.
    """

    def __init__(
        self,
        sock: socket.socket,
        on_accepted: Callable[[socket.socket, str, int], None],
        on_failed: Callable[[OSError], None],
    ) -> None:
        """Begin to accept on a bound socket, which `close` closes."""
        self._sock = sock
        self._on_accepted = on_accepted
        self._on_failed = on_failed
        self._is_closed = False
        sock.setblocking(False)
        sock.listen(_BACKLOG)
        self._start()

    def close(self) -> None:
        """Stop accepting, once; connections stay."""
        if self._is_closed:
            return
        self._is_closed = True
        asyncio.get_running_loop().remove_reader(self._sock)
        self._sock.close()

    def _start(self) -> None:
        if not self._is_closed:
            asyncio.get_running_loop().add_reader(self._sock, self._accept)

    def _accept(self) -> None:
        """Accept waiting connections, at most as many as the backlog holds."""
        for _ in range(_BACKLOG):
            try:
                accepted, name = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                loop = asyncio.get_running_loop()
                loop.remove_reader(self._sock)
                loop.call_later(_PAUSE_SECONDS, self._start)
                self._on_failed(error)
                return
            accepted.setblocking(False)
            host = str(name[0]).removeprefix("::ffff:")  # IPv4 through a socket of both families
            self._on_accepted(accepted, host, int(name[1]))
