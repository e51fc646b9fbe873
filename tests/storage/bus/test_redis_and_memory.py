"""Both buses behave alike; Redis may go away and come back. Runs a real redis-server."""

import asyncio
import shutil
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from storage.bus.base import Bus, BusMessage, BusUnavailable, Mailbox, MessagesLost
from storage.bus.memory import MemoryBus
from storage.bus.redis import open_redis_bus
from tests.support.free_ports import free_port

OpenBus = Callable[[], AbstractAsyncContextManager[Bus]]


@asynccontextmanager
async def redis_server(port: int, folder: Path) -> AsyncGenerator[asyncio.subprocess.Process, None]:
    program = shutil.which("redis-server")
    if program is None:
        pytest.fail("redis-server is missing: apt-get install redis-server")
    server = await asyncio.create_subprocess_exec(
        program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder),
        "--unixsocket", str(folder / "redis.socket"),
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(10):
            assert server.stdout is not None
            async for line in server.stdout:
                if b"Ready to accept connections" in line:
                    break
            else:
                pytest.fail("redis-server did not start")
        yield server
    finally:
        if server.returncode is None:
            server.kill()
        await server.wait()


@asynccontextmanager
async def memory_bus(_: Path) -> AsyncGenerator[Bus, None]:
    yield MemoryBus()


@asynccontextmanager
async def redis_bus(folder: Path) -> AsyncGenerator[Bus, None]:
    port = free_port()
    async with redis_server(port, folder), open_redis_bus(f"redis://127.0.0.1:{port}/0") as bus:
        yield bus


OPENERS = [pytest.param(memory_bus, id="memory"), pytest.param(redis_bus, id="redis")]


async def read(box: Mailbox) -> BusMessage | MessagesLost:
    async with asyncio.timeout(10):
        return await box.get()


@pytest.mark.parametrize("opener", OPENERS)
async def test_who_listens_hears_in_order_and_only_its_topics(
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
        heard = [await read(both) for _ in range(50)]
        assert [notice.data for notice in heard if isinstance(notice, BusMessage)] == [
            bytes([number]) for number in range(50)
        ]
        assert [await read(one) for _ in range(25)] == [
            BusMessage("stream.a", bytes([number])) for number in range(1, 50, 2)
        ]


@pytest.mark.parametrize("opener", OPENERS)
async def test_after_the_block_nothing_is_heard_and_others_still_hear(
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


async def test_a_mailbox_that_is_full_says_that_notices_were_lost() -> None:
    box = Mailbox(capacity=3)
    for number in range(4):
        box.put(BusMessage("t", bytes([number])))
    assert [await box.get(), await box.get()] == [MessagesLost(), BusMessage("t", b"\3")]


async def test_redis_that_went_away_and_came_back_is_heard_again_and_the_hole_is_told(
    tmp_path: Path,
) -> None:
    port = free_port()
    async with (
        redis_server(port, tmp_path) as server,
        open_redis_bus(f"redis://127.0.0.1:{port}/0") as bus,
        bus.subscribe("t") as box,
    ):
        await bus.publish("t", b"before")
        assert await read(box) == BusMessage("t", b"before")
        server.kill()
        await server.wait()
        with pytest.raises(BusUnavailable):
            await bus.publish("t", b"to nobody")
        async with redis_server(port, tmp_path):
            assert await read(box) == MessagesLost()
            await bus.publish("t", b"after")
            assert await read(box) == BusMessage("t", b"after")


async def test_a_listener_that_redis_disconnects_is_told_though_publishing_never_failed(
    tmp_path: Path,
) -> None:
    port = free_port()
    async with (
        redis_server(port, tmp_path),
        open_redis_bus(f"redis://127.0.0.1:{port}/0") as bus,
        bus.subscribe("t") as box,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"CLIENT KILL TYPE pubsub\r\n")
        assert await reader.readline() == b":1\r\n"
        writer.close()
        await writer.wait_closed()
        assert await read(box) == MessagesLost()
        await bus.publish("t", b"after")
        assert await read(box) == BusMessage("t", b"after")


async def test_two_services_in_one_redis_do_not_hear_each_other(tmp_path: Path) -> None:
    port = free_port()
    url = f"redis://127.0.0.1:{port}/0"
    async with (
        redis_server(port, tmp_path),
        open_redis_bus(url, namespace="one") as one,
        open_redis_bus(url, namespace="two") as two,
        one.subscribe("t") as box,
    ):
        await two.publish("t", b"of two")
        await one.publish("t", b"of one")
        assert await read(box) == BusMessage("t", b"of one")


async def test_redis_is_reached_by_a_socket_of_its_host(tmp_path: Path) -> None:
    async with (
        redis_server(free_port(), tmp_path),
        open_redis_bus(f"unix://{tmp_path / 'redis.socket'}") as bus,
        bus.subscribe("t") as box,
    ):
        await bus.publish("t", b"heard")
        assert await read(box) == BusMessage("t", b"heard")


async def test_no_redis_at_the_start_is_said_once_and_looked_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    port = free_port()
    async with (
        open_redis_bus(f"redis://127.0.0.1:{port}/0") as bus,
        bus.subscribe("t") as box,
    ):
        for _ in range(2):
            with pytest.raises(BusUnavailable):
                await bus.publish("t", b"to nobody")
        async with redis_server(port, tmp_path):
            assert await read(box) == MessagesLost()
            await bus.publish("t", b"heard")
            assert await read(box) == BusMessage("t", b"heard")
            lost = [each for each in caplog.records if each.message == "bus lost"]
            assert len(lost) == 1


@pytest.mark.parametrize("topic", ["", "a b", "a*", "x" * 201, "a\n"])
def test_what_is_no_topic_is_refused(topic: str) -> None:
    with pytest.raises(ValueError, match="no topic"):
        asyncio.run(MemoryBus().publish(topic, b""))
