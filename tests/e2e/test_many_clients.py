"""More web clients than the service has descriptors: encoders can still connect."""

import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.e2e.service import SCALE, service

pytestmark = pytest.mark.e2e

DESCRIPTORS = 256
C0_AND_C1 = b"\x03" + bytes(1536)
S0_TO_S2 = 1 + 2 * 1536


def connection(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=10 * SCALE)


def shakes_hands(port: int) -> bool:
    """Return whether a connecting encoder gets the answer of the RTMP handshake."""
    with connection(port) as encoder, encoder.makefile("rb") as answer:
        encoder.sendall(C0_AND_C1)
        return len(answer.read(S0_TO_S2)) == S0_TO_S2


def test_encoders_connect_while_http_clients_use_all_their_descriptors(tmp_path: Path) -> None:
    with service(tmp_path / "data", descriptors=DESCRIPTORS) as running, ExitStack() as stack:
        rtmp = running.port_of(running.server)
        assert shakes_hands(rtmp)
        http = running.port_of(running.http)
        for _ in range(2 * DESCRIPTORS):
            client = stack.enter_context(connection(http))
            client.send(b"GET /healthz HTTP/1.1\r\n")  # a head that does not end
        for _ in range(3):
            assert shakes_hands(rtmp)
        log = running.log.read_text()
        assert 'event="few descriptors for HTTP"' in log
        assert 'event="connections refused"' in log
        assert "cannot accept" not in log
