"""Connections are passed on as they come; a system that has none left is asked again later."""

import asyncio
import socket
from collections.abc import Generator

import pytest

from ingest.acceptor import Acceptor
from tests.support.waiting import until


class Door:
    """A listening socket on loopback, and what its acceptor reported."""

    def __init__(self) -> None:
        self.accepted: list[tuple[socket.socket, str, int]] = []
        self.failures: list[OSError] = []
        self.sock = socket.create_server(("::1", 0), family=socket.AF_INET6)
        self.address = self.sock.getsockname()[:2]

    def open(self) -> Acceptor:
        return Acceptor(
            self.sock,
            lambda sock, host, port: self.accepted.append((sock, host, port)),
            self.failures.append,
        )


@pytest.fixture
def door() -> Generator[Door]:
    door = Door()
    yield door
    door.sock.close()
    for sock, _, _ in door.accepted:
        sock.close()


async def test_each_connection_is_passed_on_with_its_peer_until_the_end(door: Door) -> None:
    acceptor = door.open()
    clients = [socket.create_connection(door.address) for _ in range(3)]
    await until(lambda: len(door.accepted) == 3)
    assert [(host, port) for _, host, port in door.accepted] == [
        client.getsockname()[:2] for client in clients
    ]
    assert not any(sock.getblocking() for sock, _, _ in door.accepted)
    acceptor.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(door.address)
    for client in clients:
        client.close()
    assert door.failures == []


async def test_a_socket_that_fails_is_not_asked_again_at_once(door: Door) -> None:
    acceptor = door.open()
    door.sock.shutdown(socket.SHUT_RDWR)  # from now on each accept fails at once
    await until(lambda: door.failures != [])
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(door.failures) == 1
    acceptor.close()
