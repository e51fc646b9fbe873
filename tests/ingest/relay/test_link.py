"""One connection between two hosts: greetings, pings, silence, floods, and invalid bytes."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from ingest.relay.link import MAX_UNSENT_BYTES, SILENT_SECONDS, RelayLink, run_ticks
from ingest.relay.messages import (
    VERSION,
    Hello,
    Message,
    PartReceived,
    Ping,
    RelayedPacket,
    encode,
)
from media.loop_lag import LoopLag
from tests.support.ingest.virtual_clock import hold_up, play_fast, virtual_sockets

PACKET = RelayedPacket(number=1, age_ms=0, video=True, dts=1, pts=1, key=True, data=bytes(1 << 20))


class User:
    """Records the calls of a link."""

    def __init__(self, *, fails: bool = False) -> None:
        self.ready = 0
        self.messages: list[Message] = []
        self.lost: list[str] = []
        self._fails = fails

    def link_ready(self) -> None:
        self.ready += 1

    def receive(self, message: Message, now: float) -> None:
        if self._fails:
            raise RuntimeError("a bug")
        self.messages.append(message)

    def link_lost(self, cause: str) -> None:
        self.lost.append(cause)


class LinkAndPeer:
    """A link over a socket pair, and the pair's other end."""

    def __init__(self, user: User, link: RelayLink, far: socket.socket) -> None:
        self.user = user
        self.link = link
        self.far = far

    async def write(self, *messages: Message) -> None:
        await self.write_bytes(b"".join(map(encode, messages)))

    async def write_bytes(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self.far, data)
        await asyncio.sleep(0.01)

    async def read(self) -> bytes:
        return await asyncio.get_running_loop().sock_recv(self.far, 1 << 20)


@asynccontextmanager
async def pair(*, fails: bool = False) -> AsyncGenerator[LinkAndPeer, None]:
    near, far = socket.socketpair()
    far.setblocking(False)
    user, lag = User(fails=fails), LoopLag()
    link = RelayLink(user, "192.0.2.9:1937", lag)
    with far:
        await asyncio.get_running_loop().create_connection(lambda: link, sock=near)
        async with asyncio.TaskGroup() as tasks:
            ticking = tasks.create_task(run_ticks({link}))
            yield LinkAndPeer(user, link, far)
            ticking.cancel()
        link.drop("over")
        await asyncio.sleep(0.01)


@virtual_sockets
async def test_messages_come_after_the_greeting_and_pings_are_not_delivered() -> None:
    async with pair() as each:
        assert await each.read() == encode(Hello(version=VERSION))
        await each.write(Hello(version=VERSION), Ping(), PartReceived(number=3), Ping())
        assert each.user.ready == 1
        assert each.user.messages == [PartReceived(number=3)]
        each.link.send(PartReceived(number=4))
        assert await each.read() == encode(PartReceived(number=4))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(encode(Hello(version=VERSION + 1)), id="another version"),
        pytest.param(encode(PartReceived(number=0)), id="no greeting"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="another protocol"),
        pytest.param(encode(Hello(version=VERSION)) + b"\0\0\0\1\xc1", id="no message"),
    ],
)
@virtual_sockets
async def test_bytes_of_another_protocol_end_the_link(data: bytes) -> None:
    async with pair() as each:
        await each.write_bytes(data)
        assert len(each.user.lost) == 1
        assert not each.link.is_open
        each.link.send(Ping())  # has no effect


def test_a_bug_ends_only_its_own_link(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with pair(fails=True) as broken, pair() as other:
            for each in (broken, other):
                await each.write(Hello(version=VERSION), PartReceived(number=0))
            assert broken.user.lost == ["failure"]
            assert other.user.lost == []

    play_fast(scenario())
    assert [record.message for record in caplog.records] == ["link failed"]


@virtual_sockets
async def test_a_silent_host_is_lost_after_two_seconds_and_one_that_pings_is_not() -> None:
    async with pair() as silent, pair() as alive:
        for _ in range(12):
            await asyncio.sleep(0.5)
            await alive.write(Hello(version=VERSION) if not alive.user.ready else Ping())
        assert silent.user.lost == [f"silent for {SILENT_SECONDS:g} s"]
        assert alive.user.lost == []
        pings = (await alive.read()).count(encode(Ping()))
        assert 6 <= pings <= 12


@virtual_sockets
async def test_the_lag_of_this_loop_is_not_taken_for_silence() -> None:
    near, far = socket.socketpair()
    with far:
        user, lag = User(), LoopLag()
        link = RelayLink(user, "-", lag)
        await asyncio.get_running_loop().create_connection(lambda: link, sock=near)
        clock = asyncio.get_running_loop().time
        for _ in range(10):
            lag.beat(clock())
            await asyncio.sleep(0.1)
        hold_up(5.0)
        link.tick(clock())
        assert user.lost == []
        link.drop("over")
        await asyncio.sleep(0.01)


@virtual_sockets
async def test_a_host_that_reads_nothing_is_dropped_before_it_costs_memory() -> None:
    async with pair() as each:
        sent_bytes = 0
        while each.link.is_open:
            each.link.send(PACKET)
            sent_bytes += len(PACKET.data)
        assert each.user.lost == ["more than 20 MiB unsent"]
        assert MAX_UNSENT_BYTES < sent_bytes < MAX_UNSENT_BYTES + (4 << 20)


@virtual_sockets
async def test_messages_of_one_turn_are_sent_together_in_their_order() -> None:
    async with pair() as each:
        assert await each.read() == encode(Hello(version=VERSION))
        messages = [PartReceived(number=number) for number in range(1000)]
        for message in messages:
            each.link.send(message)
        with pytest.raises(BlockingIOError):
            each.far.recv(1)  # nothing yet
        assert await each.read() == b"".join(map(encode, messages))


@virtual_sockets
async def test_messages_of_one_turn_that_are_large_are_sent_at_once() -> None:
    async with pair() as each:
        assert await each.read() == encode(Hello(version=VERSION))
        each.link.send(PartReceived(number=1))
        each.link.send(PACKET)
        assert each.far.recv(1 << 10).startswith(encode(PartReceived(number=1)))


@virtual_sockets
async def test_media_that_are_not_urgent_wait_for_room() -> None:
    async with pair() as each:
        async with asyncio.timeout(1):
            await each.link.drained()
        for _ in range(3):
            each.link.send(PACKET)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await each.link.drained()
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(each.link.drained())
            read = 0
            while not waiting.done():
                read += len(await each.read())
        assert read > 1 << 20
        each.link.send(PACKET)
        each.link.send(PACKET)
        each.link.drop("over")  # a loss ends the wait too
        async with asyncio.timeout(1):
            await each.link.drained()


@virtual_sockets
async def test_a_closed_link_sends_what_is_unsent() -> None:
    async with pair() as each:
        each.link.send(PACKET)
        each.link.close()
        assert each.user.lost == ["closed here"]
        received = b""
        while data := await each.read():
            received += data
        assert received.endswith(encode(PACKET))
        assert each.user.lost == ["closed here"]  # once
