"""Web-sockets through the real server: real sockets, clients that misbehave, many of them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress

import httpx
import pytest
import uvloop
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.support.headend.websocket_clients import (
    DEADLINE,
    KEY,
    Place,
    closing,
    heard,
    subscribed,
    words,
)
from tests.support.waiting import until


def play(scene: Callable[[], Awaitable[None]]) -> None:
    async def go() -> None:
        await scene()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(go())


def test_a_client_connects_subscribes_and_hears_its_channels_alone() -> None:
    async def scene() -> None:
        async with Place.open() as place, place.client() as client:
            await subscribed(client, "stream.a")
            place.broadcaster.hub.deliver(["stream.b", "stream.a"], "live", '{"id":1}')
            assert await heard(client) == {
                "event": "live",
                "channel": "stream.a",
                "data": {"id": 1},
            }
            await client.send(words("pusher:unsubscribe", channel="stream.a"))
            await until(lambda: place.broadcaster.hub.channels == 0)
            place.broadcaster.hub.deliver(["stream.a"], "live", "{}")
            await client.send(words("pusher:ping"))
            assert (await heard(client))["event"] == "pusher:pong"

    play(scene)


def test_the_socket_that_published_does_not_hear_its_own() -> None:
    async def scene() -> None:
        async with Place.open() as place, place.client() as one, place.client() as two:
            name = await subscribed(one, "a")
            await subscribed(two, "a")
            place.broadcaster.hub.deliver(["a"], "first", "{}", name)
            place.broadcaster.hub.deliver(["a"], "second", "{}")
            assert (await heard(one))["event"] == "second"
            assert (await heard(two))["event"] == "first"

    play(scene)


@pytest.mark.parametrize(
    ("path", "code"),
    [
        (f"/app/{KEY}", 4008),
        (f"/app/{KEY}?protocol=7{'&a=1' * 200}", 4008),
        (f"/app/{KEY}?protocol=x", 4006),
        (f"/app/{KEY}?protocol=99", 4007),
        ("/app/other?protocol=7", 4001),
        ("/app/?protocol=7", 4001),
        ("/app?protocol=7", 4001),
    ],
)
def test_a_connection_that_cannot_be_is_told_why_and_closed(path: str, code: int) -> None:
    async def scene() -> None:
        async with Place.open() as place, place.client(path) as client:
            assert (await heard(client))["data"]["code"] == code
            assert await closing(client) == code

    play(scene)


def test_other_addresses_take_no_web_socket() -> None:
    async def scene() -> None:
        async with Place.open() as place:
            for path in ("/live/x", "/apps/1", "/"):
                with pytest.raises(InvalidStatus) as refused:
                    async with place.client(path):
                        pass
                assert refused.value.response.status_code == 403

    play(scene)


def test_the_address_asked_without_an_upgrade_says_what_it_needs() -> None:
    async def scene() -> None:
        async with Place.open() as place, httpx.AsyncClient() as client:
            base = f"http://127.0.0.1:{place.port}"
            answer = await client.get(f"{base}/app/{KEY}?protocol=7")
            assert (answer.status_code, answer.headers["upgrade"]) == (426, "websocket")
            assert "web-socket" in answer.json()["message"]
            assert (await client.get(f"{base}/apples")).text == "other"

    play(scene)


def test_only_pages_of_listed_origins_connect_and_programs_do() -> None:
    async def scene() -> None:
        async with Place.open(origins="https://a.example, https://B.example/") as place:
            for origin in ("https://a.example", "https://b.example", None):
                async with place.client(origin=origin) as client:
                    assert (await heard(client))["event"] == "pusher:connection_established"
            for origin in ("https://c.example", "http://a.example", "null"):
                async with place.client(origin=origin) as client:
                    assert await closing(client) == 4009

    play(scene)


def test_there_is_room_for_so_many_and_one_that_leaves_makes_room() -> None:
    async def scene() -> None:
        async with Place.open(sockets=4) as place:
            async with place.client() as one, place.client() as two:
                await subscribed(one)
                await subscribed(two)
                async with place.client() as three:
                    assert await closing(three) == 4100
            await until(lambda: len(place.broadcaster.hub) == 0)
            async with place.client() as four:
                await subscribed(four, "a")

    play(scene)


def test_a_message_that_is_too_long_closes_its_connection_alone() -> None:
    async def scene() -> None:
        async with Place.open() as place, place.client() as good:
            await subscribed(good, "a")
            for length in (10_001, 20_000, 1 << 20):
                async with place.client() as bad:
                    await subscribed(bad, "a")
                    with suppress(ConnectionClosed):  # it was faster
                        await bad.send("x" * length)
                    assert await closing(bad) in (4009, 1009)
            place.broadcaster.hub.deliver(["a"], "live", "{}")
            assert (await heard(good))["event"] == "live"

    play(scene)


def test_bytes_and_many_pieces_are_no_messages_and_close_nothing() -> None:
    async def scene() -> None:
        async with Place.open() as place, place.client() as client:
            await subscribed(client)
            await client.send(b"\xff\x00")
            assert (await heard(client))["event"] == "pusher:error"
            await client.send(iter(['{"event":', '"pusher:ping"}']))
            assert (await heard(client))["event"] == "pusher:pong"

    play(scene)


def test_a_client_that_is_silent_is_asked_and_then_let_go() -> None:
    async def scene() -> None:
        async with Place.open(activity_seconds=1, pong_seconds=1) as place:
            async with place.client() as client:
                await subscribed(client, "a")
                assert (await heard(client))["event"] == "pusher:ping"
                assert (await heard(client))["data"]["code"] == 4201
                assert await closing(client) == 4201
            await until(lambda: len(place.broadcaster.hub) == 0)
            assert place.broadcaster.hub.channels == 0

    play(scene)


def test_a_client_that_reads_nothing_is_let_go_and_nobody_waits_for_it() -> None:
    async def scene() -> None:
        data = "x" * 8_000
        async with Place.open() as place, place.client() as good:
            await subscribed(good, "a")
            async with place.client(max_queue=1) as slow:
                await subscribed(slow, "a")
                slow.transport.pause_reading()
                sent = 0
                while len(place.broadcaster.hub) == 2:
                    place.broadcaster.hub.deliver(["a"], "live", data)
                    assert (await heard(good))["data"] == data
                    sent += 1
                    assert sent < 2_000, "it is still waited for"
                # What waited for it here and in the kernels of both sides.
                assert sent * len(data) < (4 << 20)
                slow.transport.resume_reading()
                assert await closing(slow) == 4100
            place.broadcaster.hub.deliver(["a"], "after", "{}")
            assert (await heard(good))["event"] == "after"

    play(scene)


def test_a_client_that_never_reads_again_is_cut_off(caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        async with Place.open() as place, place.client(max_queue=1, close_timeout=1) as slow:
            await subscribed(slow, "a")
            slow.transport.pause_reading()
            while len(place.broadcaster.hub):
                place.broadcaster.hub.deliver(["a"], "live", "x" * 8_000)
                await asyncio.sleep(0)
            # Its socket is gone, not only its place: the server could be stopped at once.
            await asyncio.sleep(6)
            slow.transport.resume_reading()
            assert await closing(slow) in (4100, 1006)

    with caplog.at_level(logging.ERROR):
        play(scene)
    assert caplog.records == []


def test_stopping_sends_every_client_back_with_4200() -> None:
    async def scene() -> None:
        async with AsyncExitStack() as stack:
            async with Place.open() as place:
                clients = [await stack.enter_async_context(place.client()) for _ in range(20)]
                for client in clients:
                    await subscribed(client, "a")
                place.broadcaster.hub.deliver(["a"], "last", "{}")
                began = asyncio.get_running_loop().time()
            assert asyncio.get_running_loop().time() - began < DEADLINE
            for client in clients:
                assert (await heard(client))["event"] == "last"
                assert await closing(client) == 4200

    play(scene)


def test_clients_that_vanish_leave_nothing_behind(caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        async with Place.open() as place:
            for number in range(50):
                async with place.client() as client:
                    await subscribed(client, *(f"c{number}-{each}" for each in range(5)))
                    client.transport.abort()
            await until(lambda: len(place.broadcaster.hub) == 0)
            assert place.broadcaster.hub.channels == 0

    with caplog.at_level(logging.ERROR):
        play(scene)
    assert caplog.records == []


def test_who_says_too_much_is_let_go() -> None:
    async def scene() -> None:
        async with Place.open(messages_at_once=20) as place, place.client() as client:
            await subscribed(client)
            with suppress(ConnectionClosed):  # it was faster
                for _ in range(100):
                    await client.send(words("pusher:ping"))
            assert await closing(client) == 4100

    play(scene)


async def knocked(place: Place) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect by hand; returns the connection after the upgrade's answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
    lines = [
        f"GET /app/{KEY}?protocol=7 HTTP/1.1",
        "Host: here",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
        "",
        "",
    ]
    writer.write("\r\n".join(lines).encode())
    async with asyncio.timeout(DEADLINE):
        await reader.readuntil(b"\r\n\r\n")
    return reader, writer


def framed(opcode: int, payload: bytes = b"") -> bytes:
    """Return a client's short frame; its mask changes nothing."""
    return bytes((opcode, 0x80 | len(payload), 0, 0, 0, 0)) + payload


def test_who_pings_without_end_and_does_not_read_gets_the_answers_to_some() -> None:
    pings = framed(0x89, b"p" * 125) * 100

    async def scene() -> None:
        async with Place.open() as place:
            reader, writer = await knocked(place)
            sent = heard_back = 0
            async with asyncio.timeout(DEADLINE):
                while sent < 32 << 20:
                    writer.write(pings)
                    await writer.drain()
                    sent += len(pings)
            writer.write(framed(0x81, words("pusher:ping").encode()))
            async with asyncio.timeout(DEADLINE):
                last = b""
                while b"pusher:pong" not in last:
                    piece = await reader.read(1 << 20)
                    heard_back += len(piece)
                    last = last[-100:] + piece
            assert heard_back < 8 << 20
            writer.close()

    play(scene)


def test_a_message_in_more_pieces_than_anybody_sends_ends_the_connection() -> None:
    async def scene() -> None:
        async with Place.open() as place:
            reader, writer = await knocked(place)
            writer.write(framed(0x01))  # a text, not at its end
            async with asyncio.timeout(DEADLINE):
                with suppress(ConnectionError):
                    while not reader.at_eof():
                        writer.write(framed(0x00) * 100)
                        await writer.drain()
                        with suppress(TimeoutError):
                            async with asyncio.timeout(0.01):
                                await reader.read(1000)
            writer.close()
            await until(lambda: len(place.broadcaster.hub) == 0)

    play(scene)
