"""A hostile peer's connection, from its own address, so that per-address limits stay apart."""

import select
import socket
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.support.e2e.service import SCALE
from tests.support.ingest import rtmp_peer

AT_ONCE = 3.0  # seconds: for immediate reactions of the service, on a busy machine


@dataclass(frozen=True)
class Target:
    """The attacked ports, the attacker's address, and the key of its own stream, if any."""

    port: int
    secure_port: int
    home: str
    key: str = ""

    @contextmanager
    def dial(
        self, *, secure: bool = False, room: int | None = None
    ) -> Generator["HostileConnection"]:
        """Connect; `room` is the size of the kernel's receive buffer."""
        with socket.socket() as sock:
            if room is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
            sock.settimeout(10 * SCALE)
            sock.bind((self.home, 0))
            sock.connect(("127.0.0.1", self.secure_port if secure else self.port))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            yield HostileConnection(sock)

    @contextmanager
    def publishing(self) -> Generator["HostileConnection"]:
        """Connect and publish."""
        with self.dial() as line:
            line.send_bytes(rtmp_peer.opening(name=self.key))
            line.wait_for_leave()
            yield line


class HostileConnection:
    """The attacker's end of a connection."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.read = b""
        self.closed = False
        self.began = time.monotonic()

    def send_bytes(self, data: bytes) -> bool:
        """Send; return whether the connection is still open."""
        try:
            self.sock.sendall(data)
        except OSError:
            self.closed = True
        return not self.closed

    def receive_for(self, seconds: float) -> bool:
        """Read for so many seconds; return whether the connection is still open."""
        deadline = time.monotonic() + seconds
        while not self.closed:
            remaining = deadline - time.monotonic()
            if remaining <= 0 or not select.select([self.sock], [], [], remaining)[0]:
                break
            try:
                data = self.sock.recv(65_536)
            except OSError:
                data = b""
            self.read += data
            self.closed = not data
        return not self.closed

    def wait_for(self, words: bytes, within: float) -> None:
        """Read until the service has sent this."""
        deadline = time.monotonic() + within * SCALE
        while words not in self.read:
            assert time.monotonic() < deadline, f"not told {words!r}: {self.read[-300:]!r}"
            assert self.receive_for(0.05) or words in self.read, f"closed: {self.read[-300:]!r}"

    def wait_for_leave(self) -> None:
        """Read until publishing is accepted. (The answer to FCPublish has the same words.)"""
        self.wait_for(b"onStatus", AT_ONCE)
        self.receive_for(0.02)
        (status,) = rtmp_peer.statuses(self.read)
        assert status == (1, "status", "NetStream.Publish.Start")

    def must_close(self, within: float, *, not_before: float = 0.0) -> None:
        """Read to the end, which must come within so many seconds of the connect."""
        deadline = self.began + within * SCALE
        while self.receive_for(max(0.0, deadline - time.monotonic())):
            assert time.monotonic() < deadline, f"still open after {within} s"
        lasted = time.monotonic() - self.began
        assert lasted >= not_before - 0.1, f"closed after {lasted:.1f} s"

    def send_at_rate(
        self, pieces: Iterator[bytes], *, seconds: float, bytes_per_second: float
    ) -> None:
        """Send pieces at a rate until the connection or the time ends, without reading."""
        began, sent_bytes = time.monotonic(), 0
        for piece in pieces:
            ahead = sent_bytes / bytes_per_second - (time.monotonic() - began)
            if time.monotonic() - began >= seconds:
                return
            if not self.send_bytes(piece) or not self.receive_for(max(0.0, ahead)):
                return
            sent_bytes += len(piece)


# An attack returns when it is done, or fails if it was not disconnected in time.
Run = Callable[[Target], None]
