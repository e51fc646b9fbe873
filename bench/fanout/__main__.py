"""The command `python -m bench.fanout`: the CPU time of one event per subscriber.

The real server and broadcaster run in a process of their own; the clients are plain sockets in
this process, and each must receive every event. The status is 0 if the target is met, 1 if it is
missed.
"""

import argparse
import base64
import json
import os
import selectors
import socket
import struct
import subprocess
import sys
import time
from typing import Final

from bench.fanout.server import CHANNEL, KEY

TARGET: Final = 30.0  # microseconds of CPU per event and subscriber
_SECONDS: Final = 60.0


def main() -> int:
    """Measure, print a line, return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.fanout", description=__doc__)
    parser.add_argument("--sockets", type=int, default=1000)
    parser.add_argument("--events", type=int, default=20)
    options = parser.parse_args()
    cost = measured(options.sockets, options.events)
    print(
        f"{options.events} events to {options.sockets} sockets: {cost:.1f} us of CPU for each"
        f" that hears one (target: at most {TARGET:.0f})"
    )
    return 0 if cost <= TARGET else 1


def measured(sockets: int, events: int) -> float:
    """Return the server's CPU time per delivery in microseconds; every delivery is checked."""
    command = [sys.executable, "-m", "bench.fanout.server", str(events)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            port = int(child.stdout.readline())
            clients = [_connect(port) for _ in range(sockets)]
            print("go", file=child.stdin, flush=True)
            _receive_all(clients, events)
            print("done", file=child.stdin, flush=True)
            spent = float(child.stdout.readline())
            for client in clients:
                client.close()
        finally:
            child.kill()
    return spent * 1e6 / (sockets * events)


def _connect(port: int) -> socket.socket:
    """Connect and subscribe, as a browser does, without compression."""
    client = socket.create_connection(("127.0.0.1", port), timeout=10)
    nonce = base64.b64encode(os.urandom(16)).decode()
    client.sendall(
        (
            f"GET /app/{KEY}?protocol=7 HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
            f"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {nonce}\r\n\r\n"
        ).encode()
    )
    _read_until(client, b"connection_established")
    message = {"event": "pusher:subscribe", "data": {"channel": CHANNEL}}
    client.sendall(_frame(json.dumps(message).encode()))
    _read_until(client, b"subscription_succeeded")
    client.setblocking(False)
    return client


def _read_until(client: socket.socket, words: bytes) -> None:
    received = b""
    while words not in received:
        piece = client.recv(4096)
        assert piece, received
        received += piece


def _frame(payload: bytes) -> bytes:
    """Return a masked text frame (RFC 6455, section 5.2); the mask of zeros changes nothing."""
    assert len(payload) < 126
    return struct.pack("!BB4x", 0x81, 0x80 | len(payload)) + payload


def _receive_all(clients: list[socket.socket], events: int) -> None:
    """Read until every client has received every event."""
    missing = dict.fromkeys(clients, events)
    deadline = time.monotonic() + _SECONDS
    with selectors.DefaultSelector() as selector:
        for client in clients:
            selector.register(client, selectors.EVENT_READ)
        while missing:
            assert time.monotonic() < deadline, f"{len(missing)} clients still wait"
            for key, _ in selector.select(1.0):
                client = key.fileobj
                assert isinstance(client, socket.socket)
                # An event is one small write, which loopback does not split.
                missing[client] -= client.recv(1 << 16).count(b'"event":"live"')
                if missing[client] == 0:
                    del missing[client]
                    selector.unregister(client)


if __name__ == "__main__":
    sys.exit(main())
