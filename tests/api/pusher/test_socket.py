"""The broadcaster behind the real server: accepted clients, their events, and disconnects."""

import asyncio
import logging
from collections.abc import Collection
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path

import httpx
import pytest
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidStatus

from api.pusher.grants import holding_in
from api.pusher.protocol import ChannelGrant, granted_auth, signature
from storage.catalog import open_catalog
from storage.catalog.records.common import Change
from storage.errors import CatalogUnavailable
from tests.support.api.application import NOW_US
from tests.support.headend.websocket_clients import (
    DEADLINE,
    KEY,
    SECRET,
    BroadcastServer,
    Json,
    client_event,
    close_code,
    receive_event,
    run_on_uvloop,
    subscribe,
)
from tests.support.plain_http import PLAIN
from tests.support.sql import migrated
from tests.support.waiting import until

pytestmark = pytest.mark.real


def test_a_client_connects_subscribes_and_gets_events_of_its_channels_only() -> None:
    async def scenario() -> None:
        async with BroadcastServer.open() as server, server.client() as client:
            await subscribe(client, "stream.a")
            server.broadcaster.hub.deliver(["stream.b", "stream.a"], "live", '{"id":1}')
            assert await receive_event(client) == {
                "event": "live",
                "channel": "stream.a",
                "data": {"id": 1},
            }
            await client.send(client_event("pusher:unsubscribe", channel="stream.a"))
            await until(lambda: server.broadcaster.hub.channels == 0)
            server.broadcaster.hub.deliver(["stream.a"], "live", "{}")
            await client.send(client_event("pusher:ping"))
            assert (await receive_event(client))["event"] == "pusher:pong"

    run_on_uvloop(scenario)


def test_the_publishing_socket_does_not_get_its_own_event() -> None:
    async def scenario() -> None:
        async with (
            BroadcastServer.open() as server,
            server.client() as publisher,
            server.client() as other,
        ):
            name = await subscribe(publisher, "a")
            await subscribe(other, "a")
            server.broadcaster.hub.deliver(["a"], "first", "{}", name)
            server.broadcaster.hub.deliver(["a"], "second", "{}")
            assert (await receive_event(publisher))["event"] == "second"
            assert (await receive_event(other))["event"] == "first"

    run_on_uvloop(scenario)


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
def test_a_refused_connection_gets_an_error_and_is_closed(path: str, code: int) -> None:
    async def scenario() -> None:
        async with BroadcastServer.open() as server, server.client(path) as client:
            assert (await receive_event(client))["data"]["code"] == code
            assert await close_code(client) == code

    run_on_uvloop(scenario)


def test_other_addresses_take_no_web_socket() -> None:
    async def scenario() -> None:
        async with BroadcastServer.open() as server:
            for path in ("/live/x", "/apps/1", "/"):
                with pytest.raises(InvalidStatus) as refused:
                    async with server.client(path):
                        pass
                assert refused.value.response.status_code == 403

    run_on_uvloop(scenario)


def test_the_address_asked_without_an_upgrade_says_what_it_needs() -> None:
    async def scenario() -> None:
        async with BroadcastServer.open() as server, httpx.AsyncClient(verify=PLAIN) as client:
            base = f"http://127.0.0.1:{server.port}"
            answer = await client.get(f"{base}/app/{KEY}?protocol=7")
            assert (answer.status_code, answer.headers["upgrade"]) == (426, "websocket")
            assert "web-socket" in answer.json()["message"]
            assert (await client.get(f"{base}/apples")).text == "other"

    run_on_uvloop(scenario)


def test_only_pages_of_listed_origins_connect_and_programs_do() -> None:
    async def scenario() -> None:
        async with BroadcastServer.open(origins="https://a.example, https://B.example/") as server:
            for origin in ("https://a.example", "https://b.example", None):
                async with server.client(origin=origin) as client:
                    assert (await receive_event(client))["event"] == "pusher:connection_established"
            for origin in ("https://c.example", "http://a.example", "null"):
                async with server.client(origin=origin) as client:
                    assert await close_code(client) == 4009

    run_on_uvloop(scenario)


def test_connections_are_limited_and_a_closed_one_makes_room() -> None:
    async def scenario() -> None:
        async with BroadcastServer.open(sockets=4) as server:
            async with server.client() as one, server.client() as two:
                await subscribe(one)
                await subscribe(two)
                async with server.client() as three:
                    assert await close_code(three) == 4100
            await until(lambda: len(server.broadcaster.hub) == 0)
            async with server.client() as four:
                await subscribe(four, "a")

    run_on_uvloop(scenario)


def test_a_silent_client_is_pinged_and_then_disconnected() -> None:
    async def scenario() -> None:
        async with BroadcastServer.open(activity_seconds=1, pong_seconds=1) as server:
            async with server.client() as client:
                await subscribe(client, "a")
                assert (await receive_event(client))["event"] == "pusher:ping"
                assert (await receive_event(client))["data"]["code"] == 4201
                assert await close_code(client) == 4201
            await until(lambda: len(server.broadcaster.hub) == 0)
            assert server.broadcaster.hub.channels == 0

    run_on_uvloop(scenario)


def test_a_client_that_reads_nothing_is_disconnected_and_delays_no_other() -> None:
    async def scenario() -> None:
        data = "x" * 8_000
        async with BroadcastServer.open() as server, server.client() as good:
            await subscribe(good, "a")
            async with server.client(max_queue=1) as slow:
                await subscribe(slow, "a")
                slow.transport.pause_reading()
                async with asyncio.timeout(DEADLINE):
                    while len(server.broadcaster.hub) == 2:
                        server.broadcaster.hub.deliver(["a"], "live", data)
                        assert (await receive_event(good))["data"] == data
                slow.transport.resume_reading()
                # These bytes waited in the server and in the kernel's buffers of both sides.
                received_bytes = 0
                async with asyncio.timeout(DEADLINE):
                    with suppress(ConnectionClosed):
                        async for message in slow:
                            received_bytes += len(message)
                assert slow.close_code == 4100
                assert len(data) < received_bytes < (4 << 20)
            server.broadcaster.hub.deliver(["a"], "after", "{}")
            assert (await receive_event(good))["event"] == "after"

    run_on_uvloop(scenario)


def test_stopping_sends_every_client_back_with_4200() -> None:
    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            async with BroadcastServer.open() as server:
                clients = [await stack.enter_async_context(server.client()) for _ in range(20)]
                for client in clients:
                    await subscribe(client, "a")
                server.broadcaster.hub.deliver(["a"], "last", "{}")
                began = asyncio.get_running_loop().time()
            assert asyncio.get_running_loop().time() - began < DEADLINE
            for client in clients:
                assert (await receive_event(client))["event"] == "last"
                assert await close_code(client) == 4200

    run_on_uvloop(scenario)


def test_clients_that_vanish_leave_nothing_behind(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with BroadcastServer.open() as server:
            for number in range(50):
                async with server.client() as client:
                    await subscribe(client, *(f"c{number}-{each}" for each in range(5)))
                    client.transport.abort()
            await until(lambda: len(server.broadcaster.hub) == 0)
            assert server.broadcaster.hub.channels == 0

    with caplog.at_level(logging.ERROR):
        run_on_uvloop(scenario)
    assert caplog.records == []


def test_a_client_that_sends_too_much_is_disconnected() -> None:
    async def scenario() -> None:
        async with BroadcastServer.open(messages_at_once=20) as server, server.client() as client:
            await subscribe(client)
            with suppress(ConnectionClosed):  # it was faster
                for _ in range(100):
                    await client.send(client_event("pusher:ping"))
            assert await close_code(client) == 4100

    run_on_uvloop(scenario)


async def subscribe_by(
    client: ClientConnection, socket: str, channel: str, grant: ChannelGrant
) -> Json:
    """Subscribe to a private channel by a grant; return the answer."""
    auth = granted_auth(KEY, sign, socket, channel, grant)
    await client.send(client_event("pusher:subscribe", channel=channel, auth=auth))
    return await receive_event(client)


def sign(socket: str, subject: str) -> str:
    return signature(SECRET, f"{socket}:{subject}")


def test_a_private_channel_ends_with_its_token_or_session_in_every_process(tmp_path: Path) -> None:
    """Another process ends them: each has a catalog of its own on the database."""
    channel, other = "private-project.1", "private-project.2"

    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            enter = stack.enter_async_context
            location = migrated(tmp_path / "catalog.db")
            here, there = [await enter(open_catalog(location, migrate=False)) for _ in range(2)]
            record, _ = await here.tokens.add("mine", None, Change(1), write=False)
            lasting, _ = await here.tokens.add("lasting", None, Change(1), write=False)
            secret = await here.sessions.add(lasting.id, NOW_US)
            principal = await here.sessions.authenticate(secret, NOW_US)
            assert principal is not None
            by_token, by_session = (
                ChannelGrant(record.id),
                ChannelGrant(lasting.id, principal.session),
            )
            server = await enter(
                BroadcastServer.open(find_holding=holding_in(here, lambda: NOW_US))
            )
            for grant, end in (
                (by_token, partial(there.tokens.revoke, record.id, Change(NOW_US))),
                (by_session, partial(there.sessions.remove, secret)),
            ):
                client = await enter(server.client())
                socket = await subscribe(client, "stream.a")
                for name, each in ((channel, grant), (other, ChannelGrant(lasting.id))):
                    answer = await subscribe_by(client, socket, name, each)
                    assert answer["event"] == "pusher_internal:subscription_succeeded"
                await end()
                ended = await receive_event(client)
                assert (ended["event"], ended["channel"]) == ("pusher:subscription_error", channel)
                assert ended["data"]["status"] == 401
                for name in (channel, "stream.a", other):
                    server.broadcaster.hub.deliver([name], "live", "{}")
                assert [(await receive_event(client))["channel"] for _ in range(2)] == [
                    "stream.a",
                    other,
                ]
                # The signature of the time before opens nothing any more.
                again = await subscribe_by(client, socket, channel, grant)
                assert (again["event"], again["channel"]) == ("pusher:subscription_error", channel)
                server.broadcaster.hub.deliver([channel, "stream.a"], "live", "{}")
                assert (await receive_event(client))["channel"] == "stream.a"

    run_on_uvloop(scenario)


def test_however_often_a_token_joins_it_is_looked_up_about_once_a_second() -> None:
    """All visitors of a website may share one, and come back at once after a restart."""
    looks = 0

    async def hold(grants: Collection[ChannelGrant]) -> frozenset[ChannelGrant]:
        nonlocal looks
        looks += 1
        return frozenset(grants)

    async def scenario() -> None:
        async with BroadcastServer.open(find_holding=hold) as server, server.client() as client:
            socket = await subscribe(client)
            began = asyncio.get_running_loop().time()
            for _ in range(100):
                await subscribe_by(client, socket, "private-project.1", ChannelGrant(1))
                await client.send(client_event("pusher:unsubscribe", channel="private-project.1"))
            seconds = asyncio.get_running_loop().time() - began
            assert looks <= 2 + 2 * seconds

    run_on_uvloop(scenario)


def test_private_channels_outlast_a_catalog_that_does_not_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """No event leaves a catalog that is away, and clients must not be sent away for it."""
    looks = 0

    async def fail(_grants: Collection[ChannelGrant]) -> frozenset[ChannelGrant]:
        nonlocal looks
        looks += 1
        raise CatalogUnavailable("away")

    async def scenario() -> None:
        async with BroadcastServer.open(find_holding=fail) as server, server.client() as client:
            socket = await subscribe(client)
            answer = await subscribe_by(client, socket, "private-project.1", ChannelGrant(1))
            assert answer["event"] == "pusher_internal:subscription_succeeded"
            await until(lambda: looks >= 3)
            server.broadcaster.hub.deliver(["private-project.1"], "live", "{}")
            assert (await receive_event(client))["event"] == "live"

    with caplog.at_level(logging.WARNING):
        run_on_uvloop(scenario)
    assert [record.message for record in caplog.records] == ["private channels not checked"]
