"""Both buses behave alike; Redis may go away and come back. Runs a real redis-server."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from redis.asyncio.client import PubSub

from storage.bus.base import Bus, BusMessage, BusUnavailable, Mailbox, MessagesLost
from storage.bus.memory import MemoryBus
from storage.bus.redis import RedisBus, open_redis_bus, open_redis_client, running_redis_bus
from tests.support.free_ports import free_port
from tests.support.redis_server import RedisServer, redis_server
from tests.support.waiting import until

OpenBus = Callable[[], AbstractAsyncContextManager[Bus]]


@asynccontextmanager
async def memory_bus(_: Path) -> AsyncGenerator[Bus, None]:
    yield MemoryBus()


@asynccontextmanager
async def redis_bus(folder: Path) -> AsyncGenerator[Bus, None]:
    with redis_server(folder) as server:
        async with open_redis_bus(server.url) as bus:
            yield bus


OPENERS = [pytest.param(memory_bus, id="memory"), pytest.param(redis_bus, id="redis")]


async def read(box: Mailbox) -> BusMessage | MessagesLost:
    async with asyncio.timeout(10):
        return await box.get()


@pytest.mark.parametrize("opener", OPENERS)
async def test_subscribers_receive_in_order_and_only_their_topics(
    opener: Callable[[Path], AbstractAsyncContextManager[Bus]], tmp_path: Path
) -> None:
    async with (
        opener(tmp_path) as bus,
        bus.subscribe("stream.a", "stream.b") as both,
        bus.subscribe("stream.a") as one,
    ):
        await bus.publish("stream.c", b"for nobody")
        for number in range(50):
            await bus.publish("stream.a" if number % 2 else "stream.b", bytes([number]))
        messages = [await read(both) for _ in range(50)]
        assert [notice.data for notice in messages if isinstance(notice, BusMessage)] == [
            bytes([number]) for number in range(50)
        ]
        assert [await read(one) for _ in range(25)] == [
            BusMessage("stream.a", bytes([number])) for number in range(1, 50, 2)
        ]


@pytest.mark.parametrize("opener", OPENERS)
async def test_after_the_block_nothing_is_received_and_others_still_receive(
    opener: Callable[[Path], AbstractAsyncContextManager[Bus]], tmp_path: Path
) -> None:
    async with opener(tmp_path) as bus, bus.subscribe("t") as stays:
        async with bus.subscribe("t") as leaves:
            await bus.publish("t", b"1")
            assert await read(leaves) == BusMessage("t", b"1")
        await bus.publish("t", b"2")
        assert [await read(stays), await read(stays)] == [
            BusMessage("t", b"1"),
            BusMessage("t", b"2"),
        ]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await leaves.get()


async def test_a_full_mailbox_reports_that_notices_were_lost() -> None:
    box = Mailbox(capacity=3)
    for number in range(4):
        box.put(BusMessage("t", bytes([number])))
    assert [await box.get(), await box.get()] == [MessagesLost(), BusMessage("t", b"\3")]


async def test_after_an_outage_of_redis_notices_arrive_again_and_the_loss_is_reported(
    tmp_path: Path,
) -> None:
    with redis_server(tmp_path) as server:
        async with open_redis_bus(server.url) as bus, bus.subscribe("t") as box:
            await bus.publish("t", b"before")
            assert await read(box) == BusMessage("t", b"before")
            server.stop()
            with pytest.raises(BusUnavailable):
                await bus.publish("t", b"to nobody")
            server.start()
            assert await read(box) == MessagesLost()
            await bus.publish("t", b"after")
            assert await read(box) == BusMessage("t", b"after")


def disconnect_listeners(server: RedisServer) -> None:
    assert server.command("CLIENT", "KILL", "TYPE", "pubsub") == 1


async def test_a_subscriber_that_redis_disconnects_learns_of_losses(
    tmp_path: Path,
) -> None:
    with redis_server(tmp_path) as server:
        async with open_redis_bus(server.url) as bus, bus.subscribe("t") as box:
            disconnect_listeners(server)
            assert await read(box) == MessagesLost()
            await bus.publish("t", b"after")
            assert await read(box) == BusMessage("t", b"after")


async def test_a_connection_that_the_loop_has_closed_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """uvloop says so by a RuntimeError, which redis-py passes on."""
    subscribe, closed = PubSub.psubscribe, [True, True]

    async def on_closed(self: PubSub, *patterns: str) -> None:
        if closed:
            closed.pop()
            raise RuntimeError(
                "unable to perform operation on <TCPTransport>; the handler is closed"
            )
        await subscribe(self, *patterns)

    monkeypatch.setattr(PubSub, "psubscribe", on_closed)
    with redis_server(tmp_path) as server:
        async with open_redis_bus(server.url) as bus, bus.subscribe("t") as box:
            assert await read(box) == MessagesLost()
            await bus.publish("t", b"heard")
            assert await read(box) == BusMessage("t", b"heard")
    assert not closed


async def test_a_task_that_publishes_ends_once_it_is_cancelled(tmp_path: Path) -> None:
    """At whichever of its steps; before Python 3.12 `asyncio.wait_for` goes on at some of them."""
    lost = 0
    with redis_server(tmp_path) as server:
        async with open_redis_bus(server.url) as bus, asyncio.TaskGroup() as tasks:
            for steps in range(100):
                task = tasks.create_task(publish_for(1, bus))
                for _ in range(steps):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait({task})
                lost += not task.cancelled()
    assert not lost


async def publish_for(seconds: float, bus: Bus) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while loop.time() < end:
        await bus.publish("t", b"again")


async def test_two_services_in_one_redis_do_not_receive_each_others_notices(tmp_path: Path) -> None:
    with redis_server(tmp_path) as server:
        async with (
            open_redis_bus(server.url, namespace="one") as one,
            open_redis_bus(server.url, namespace="two") as two,
            one.subscribe("t") as box,
        ):
            await two.publish("t", b"of two")
            await one.publish("t", b"of one")
            assert await read(box) == BusMessage("t", b"of one")


async def test_redis_is_reached_by_a_socket_of_its_host(tmp_path: Path) -> None:
    with redis_server(tmp_path) as server:
        async with open_redis_bus(f"unix://{server.socket}") as bus, bus.subscribe("t") as box:
            await bus.publish("t", b"heard")
            assert await read(box) == BusMessage("t", b"heard")


async def test_a_missing_redis_at_the_start_is_logged_once_and_retried(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = RedisServer(free_port(), tmp_path)
    async with open_redis_bus(server.url) as bus, bus.subscribe("t") as box:
        for _ in range(2):
            with pytest.raises(BusUnavailable):
                await bus.publish("t", b"to nobody")
        server.start()
        try:
            assert await read(box) == MessagesLost()
            await bus.publish("t", b"heard")
            assert await read(box) == BusMessage("t", b"heard")
            lost = [each for each in caplog.records if each.message == "bus lost"]
            assert len(lost) == 1
        finally:
            server.stop()


# -- a bus that subscribes to its topics one by one -----------------------------------------------


@asynccontextmanager
async def bus_of_topics(url: str) -> AsyncGenerator[RedisBus, None]:
    async with (
        open_redis_client(url) as client,
        running_redis_bus(client, "few", every_topic=False) as bus,
    ):
        yield bus


def channels(server: RedisServer) -> set[str]:
    channels = server.command("PUBSUB", "CHANNELS")
    return {each.decode().removeprefix("few:") for each in channels} - {""}


async def test_a_bus_of_topics_receives_those_alone_that_have_subscribers(tmp_path: Path) -> None:
    with redis_server(tmp_path) as server:
        async with bus_of_topics(server.url) as bus:
            async with bus.subscribe("a") as one, bus.subscribe("a") as other:
                assert await read(one) == MessagesLost()
                await until(lambda: channels(server) == {"a"})
                async with bus.subscribe("b") as both:
                    assert await read(both) == MessagesLost()
                    assert channels(server) == {"a", "b"}
                await until(lambda: channels(server) == {"a"})
                for topic in ("a", "b"):
                    await bus.publish(topic, topic.encode())
                for box in (one, other):
                    messages = [each async for each in until_message(box)]
                    assert messages[-1] == BusMessage("a", b"a")
                    assert {*messages[:-1]} <= {MessagesLost()}
            await until(lambda: channels(server) == set())


async def until_message(box: Mailbox) -> AsyncGenerator[BusMessage | MessagesLost, None]:
    """Yield what a subscriber gets, up to the first message."""
    while True:
        message = await read(box)
        yield message
        if isinstance(message, BusMessage):
            return


async def test_a_bus_of_topics_receives_them_again_after_any_outage(tmp_path: Path) -> None:
    with redis_server(tmp_path) as server:
        async with bus_of_topics(server.url) as bus, bus.subscribe("early") as early:
            assert await read(early) == MessagesLost()
            disconnect_listeners(server)
            assert await read(early) == MessagesLost()
            server.stop()
            async with bus.subscribe("late") as late:  # while there is no Redis
                server.start()
                assert await read(early) == await read(late) == MessagesLost()
                await until(lambda: channels(server) == {"early", "late"})
                for topic, box in (("early", early), ("late", late)):
                    await bus.publish(topic, b"again")
                    messages = [each async for each in until_message(box)]
                    assert messages[-1] == BusMessage(topic, b"again")


@pytest.mark.parametrize("topic", ["", "a b", "a*", "x" * 201, "a\n"])
async def test_what_is_no_topic_is_refused(topic: str) -> None:
    with pytest.raises(ValueError, match="no topic"):
        await MemoryBus().publish(topic, b"")
