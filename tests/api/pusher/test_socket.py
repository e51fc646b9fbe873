"""The broadcaster behind the real server: who may connect, what each client hears, how it ends."""

import asyncio
import logging
from contextlib import AsyncExitStack, suppress

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.support.headend.websocket_clients import (
    DEADLINE,
    KEY,
    Place,
    closing,
    heard,
    play,
    subscribed,
    words,
)
from tests.support.plain_http import PLAIN
from tests.support.waiting import until

pytestmark = pytest.mark.real


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
        async with Place.open() as place, httpx.AsyncClient(verify=PLAIN) as client:
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
                async with asyncio.timeout(DEADLINE):
                    while len(place.broadcaster.hub) == 2:
                        place.broadcaster.hub.deliver(["a"], "live", data)
                        assert (await heard(good))["data"] == data
                slow.transport.resume_reading()
                # What waited for it here and in the kernels of both sides.
                got = 0
                async with asyncio.timeout(DEADLINE):
                    with suppress(ConnectionClosed):
                        async for message in slow:
                            got += len(message)
                assert slow.close_code == 4100
                assert len(data) < got < (4 << 20)
            place.broadcaster.hub.deliver(["a"], "after", "{}")
            assert (await heard(good))["event"] == "after"

    play(scene)


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
