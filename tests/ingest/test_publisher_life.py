"""How connections are looked after, and how they end, on real sockets."""

import asyncio
import logging
import struct

import msgspec
import pytest

from ingest.rtmp.messages import MessageType
from tests.ingest.loopback import LIMITS, Place, house, play, play_fast, until
from tests.ingest.rtmp import peer

SMALL_WINDOW = peer.whole(2, MessageType.WINDOW_SIZE, struct.pack(">I", 1))


@pytest.mark.parametrize("busy", [False, True])
def test_a_goodbye_counts_though_the_encoder_resets_the_connection(
    busy: bool, loop: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It closes without having read our last answers, at rest or while we are about to answer."""

    async def story() -> None:
        place = Place()
        async with house(place) as inside, inside.deaf() as sock:

            def leave() -> None:
                place.meanwhile = None
                sock.send(peer.GOODBYE)
                sock.close()

            send = asyncio.get_running_loop().sock_sendall
            await send(sock, place.opening() + SMALL_WINDOW)
            await until(lambda: inside.tally.publishers == 1)
            await send(sock, peer.MEDIA)
            await until(lambda: len(place.packets) == 3)
            if busy:
                place.meanwhile = leave
                await send(sock, peer.audio(peer.audio_body(b"more"), 46))
            else:
                leave()
            await until(lambda: inside.tally.publishers == 0)
        assert len(place.packets) == 3 + busy

    caplog.set_level(logging.DEBUG)
    play(story(), loop)
    (off,) = [vars(record) for record in caplog.records if record.msg == "publisher off"]
    assert off["goodbye"] is True
    (lost,) = [vars(record) for record in caplog.records if record.msg == "connection lost"]
    assert "reset" in lost["cause"]


def test_an_encoder_that_sends_is_not_pinged_and_a_quiet_one_is() -> None:
    async def story() -> None:
        clock = asyncio.get_running_loop().time
        place = Place()
        limits = msgspec.structs.replace(LIMITS, idle_media_seconds=100.0)
        async with house(place, limits=limits) as inside:
            began = clock()
            wire = await inside.publishing(place)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(wire.closed())
                for second in range(30):
                    await wire.send(peer.audio(peer.audio_body(b"more"), 46 + 1000 * second))
                    await asyncio.sleep(1)
                assert pings(wire.read) == 0
                await asyncio.sleep(LIMITS.ping_seconds)
                assert pings(wire.read) == 1
                # It answers nothing: half-open.
            assert clock() - began == pytest.approx(29 + LIMITS.silence_seconds, abs=1)
            assert inside.tally.refused == {"TimedOut": 1}
            await wire.hang_up()

    play_fast(story())


def pings(data: bytes) -> int:
    answers = peer.answers(data[3073:])
    return sum(
        answer.kind == MessageType.USER_CONTROL and bytes(answer.body[:2]) == b"\0\x06"
        for answer in answers
    )
