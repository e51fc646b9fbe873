"""Attacks without credentials on the HTTP port, and on the RTMP port with wrong keys.

Each attack takes a few seconds at most and reads as little as possible. Each uses its own source
address, so that a limit per client does not block the next attack.
"""

import json
import socket
import threading
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from typing import Final

import msgspec

from tests.support.e2e.hostile_peer import Target
from tests.support.in_thread import in_thread
from tests.support.ingest import rtmp_peer

_WRONG_KEY: Final = "AbCdEfGhIjKl_00000000-1111-2222-3333-444444444444"
_KEYS_OF_A_BODY: Final = 80_000


class AttackedPorts(msgspec.Struct, frozen=True):
    """The ports of the attacked service, and the path of something public."""

    http: int
    rtmp: int
    playlist: str
    web_socket: str


def _connect(target: AttackedPorts, home: str, *, room: int | None = None) -> socket.socket:
    sock = socket.socket()
    sock.settimeout(10)
    if room is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
    sock.bind((home, 0))
    sock.connect(("127.0.0.1", target.http))
    return sock


def _request(path: str, *lines: str, method: str = "GET", body: bytes = b"") -> bytes:
    head = [f"{method} {path} HTTP/1.1", "Host: headend", *lines]
    if body:
        head.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*head, "", ""]).encode() + body


def pipeline_without_reading(target: AttackedPorts, home: str) -> None:
    """Send 20,000 requests over one connection without reading the responses."""
    with _connect(target, home, room=4096) as sock, suppress(OSError):
        sock.settimeout(2)
        for _ in range(20):
            sock.sendall(_request(target.playlist) * 1000)
        time.sleep(1)


def hold_many_connections(target: AttackedPorts, home: str) -> None:
    """Open 500 connections and send nothing."""
    with ExitStack() as sockets, suppress(OSError):
        for _ in range(500):
            sockets.enter_context(_connect(target, home))
        time.sleep(2)


def send_many_keys(target: AttackedPorts, home: str) -> None:
    """Send a JSON object of 80,000 unknown keys, without a valid token."""
    body = json.dumps({f"key{number}": 0 for number in range(_KEYS_OF_A_BODY)}).encode()
    with _connect(target, home) as sock, suppress(OSError):
        lines = ("Content-Type: application/json", "Authorization: Bearer wrong")
        sock.sendall(_request("/api/projects/1/streams", *lines, method="POST", body=body))
        sock.recv(65_536)


def guess_tokens(target: AttackedPorts, home: str) -> None:
    """Try 100 tokens."""
    for _ in range(100):
        with _connect(target, home) as sock, suppress(OSError):
            sock.sendall(_request("/api/projects", "Authorization: Bearer wrong"))
            sock.recv(65_536)


def request_the_description(target: AttackedPorts, home: str) -> None:
    """Request the OpenAPI description 30 times."""
    with suppress(OSError):
        for _ in range(30):
            with _connect(target, home) as sock:
                sock.sendall(_request("/schema/openapi.yaml", "Connection: close"))
                while sock.recv(65_536):
                    pass


def take_web_sockets(target: AttackedPorts, home: str) -> None:
    """Open 300 WebSockets and keep them open."""
    lines = (
        *("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"),
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    )
    with ExitStack() as sockets, suppress(OSError):
        for _ in range(300):
            sock = sockets.enter_context(_connect(target, home))
            sock.sendall(_request(target.web_socket, *lines))
        time.sleep(2)


def guess_stream_keys(target: AttackedPorts, home: str) -> None:
    """Publish with 20 wrong keys."""
    for _ in range(20):
        with suppress(OSError), Target(port=target.rtmp, secure_port=0, home=home).dial() as line:
            line.send_bytes(rtmp_peer.opening(name=_WRONG_KEY))
            line.receive_for(0.2)


ATTACKS: Final[tuple[Callable[[AttackedPorts, str], None], ...]] = (
    pipeline_without_reading,
    hold_many_connections,
    send_many_keys,
    guess_tokens,
    request_the_description,
    take_web_sockets,
    guess_stream_keys,
)


class AttackLog(msgspec.Struct):
    """The attacks so far; `broken` are their unexpected errors."""

    count: int = 0
    broken: list[str] = msgspec.field(default_factory=list[str])


@contextmanager
def attacking(target: AttackedPorts) -> Generator[AttackLog]:
    """Run all attacks in turn, from 250 addresses, for the length of the block."""
    attacks, over = AttackLog(), threading.Event()

    def attack_on() -> None:
        while not over.wait(0.5):
            attack = ATTACKS[attacks.count % len(ATTACKS)]
            home = f"127.9.0.{attacks.count // len(ATTACKS) % 250 + 1}"
            try:
                attack(target, home)
            except OSError as error:
                attacks.broken.append(f"{attack.__name__}: {error}")
            attacks.count += 1

    with in_thread(attack_on, over.set):
        yield attacks
