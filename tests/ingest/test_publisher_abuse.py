"""Peers on real sockets that are no encoders, or that mean no good."""

import asyncio
import contextlib
import logging
import struct

import pytest

from headend.certificates import Certificates
from ingest.rtmp.messages import MessageType
from tests.ingest.loopback import (
    LIMITS,
    Place,
    house,
    lines,
    play,
    serving,
    until,
)
from tests.ingest.rtmp import peer

# -- what is not RTMP -----------------------------------------------------------------------------

TLS_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(190)


@pytest.mark.parametrize(
    ("door", "said"),
    [
        pytest.param("v4", b"GET / HTTP/1.1\r\nHost: tv.example\r\n\r\n", id="HTTP"),
        pytest.param("v4", TLS_HELLO, id="TLS on the plain port"),
        pytest.param("v6", bytes(range(256)) * 40, id="anything"),
        pytest.param("v4", peer.HANDSHAKE + b"\xff" * 5000, id="anything behind the handshake"),
        pytest.param("tls", peer.HANDSHAKE, id="RTMP on the TLS port"),
        pytest.param("tls", b"GET / HTTP/1.1\r\n\r\n", id="HTTP on the TLS port"),
    ],
)
def test_who_speaks_something_else_is_closed_with_one_line(
    door: str,
    said: bytes,
    loop: str,
    certificates: Certificates,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)

    async def story() -> None:
        place = Place()
        async with house(place, tls=serving(certificates)) as inside:
            steady = await inside.publishing(place)
            wire = await inside.dial(door)
            await wire.send(said)
            await wire.closed()
            await until(lambda: inside.tally.connections == 1)
            assert lines(caplog.records, wire.name) in (["closed"], ["refused"])
            assert sum(inside.tally.refused.values()) == 1
            await steady.send(peer.MEDIA)
            await until(lambda: len(place.packets) == 6)
            await steady.hang_up()
            await wire.hang_up()

    play(story(), loop)
    assert [record for record in caplog.records if record.name == "asyncio"] == []
    assert not any(record.exc_info for record in caplog.records)


# -- what we write --------------------------------------------------------------------------------

PING = peer.whole(2, MessageType.USER_CONTROL, b"\0\x06\0\0\0\x01")
SMALL_WINDOW = peer.whole(2, MessageType.WINDOW_SIZE, struct.pack(">I", 1))


@pytest.mark.parametrize(
    "flood",
    [
        pytest.param(PING, id="pings"),
        pytest.param(peer.command("releaseStream", 2.0, None, "x"), id="commands"),
    ],
)
def test_a_flood_of_what_wants_answers_is_closed(flood: bytes, loop: str) -> None:
    async def story() -> None:
        place = Place()
        async with house(place) as inside, inside.deaf() as sock:
            send = asyncio.get_running_loop().sock_sendall
            await send(sock, place.opening())
            await until(lambda: inside.tally.publishers == 1)
            sent = 0
            with contextlib.suppress(ConnectionError):
                while inside.tally.connections:
                    await send(sock, flood)
                    sent += 1
            # Ten a second, and what may be said before publishing as a reserve.
            assert LIMITS.commands_before_publish <= sent
            assert inside.tally.refused == {"LimitExceeded": 1}

    play(story(), loop)


def test_a_peer_that_reads_nothing_is_closed_when_too_much_is_unread(loop: str) -> None:
    async def story() -> None:
        place = Place()
        async with house(place) as inside, inside.deaf() as sock:
            send = asyncio.get_running_loop().sock_sendall
            await send(sock, place.opening() + SMALL_WINDOW)
            await until(lambda: inside.tally.publishers == 1)
            # An acknowledgement of 16 bytes for each: the most that a peer may make us say.
            acknowledged = 0
            with contextlib.suppress(ConnectionError):
                while not inside.tally.refused:
                    await send(sock, peer.audio(peer.audio_body(b"x")))
                    acknowledged += 16
                    await asyncio.sleep(0)
            assert acknowledged < 256 << 10
            assert inside.tally.refused == {"LimitExceeded": 1}
            assert inside.tally.publishers == 0
            await until(lambda: inside.tally.connections == 0)

    play(story(), loop)
