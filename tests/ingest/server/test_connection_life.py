"""Pings, ticks and ends of connections on real sockets."""

import asyncio
import logging
import socket
import struct

import msgspec
import pytest

from ingest.rtmp.messages import MessageType
from ingest.rtmp.session import Session
from tests.support.ingest import rtmp_peer
from tests.support.ingest.loopback import (
    BAD_NAME,
    LIMITS,
    LoopbackPorts,
    last_description,
    loopback_listener,
    play,
    real_time,
)
from tests.support.ingest.virtual_clock import virtual_sockets
from tests.support.waiting import until

SMALL_WINDOW = rtmp_peer.whole(2, MessageType.WINDOW_SIZE, struct.pack(">I", 1))


@pytest.mark.parametrize("busy", [False, True])
def test_a_goodbye_counts_though_the_encoder_resets_the_connection(
    busy: bool, loop: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It closes before reading our last answers, while we are idle or about to answer."""

    async def scenario() -> None:
        ports = LoopbackPorts()
        async with loopback_listener(ports) as listener, listener.unread_socket() as sock:

            def leave() -> None:
                ports.meanwhile = None
                sock.send(rtmp_peer.GOODBYE)
                sock.close()

            send = asyncio.get_running_loop().sock_sendall
            await send(sock, ports.opening() + SMALL_WINDOW)
            await until(lambda: listener.counters.publishers == 1)
            await send(sock, rtmp_peer.MEDIA)
            await until(lambda: len(ports.packets) == 3)
            if busy:
                ports.meanwhile = leave
                await send(sock, rtmp_peer.audio(rtmp_peer.audio_body(b"more"), 46))
            else:
                leave()
            await until(lambda: listener.counters.publishers == 0)
        assert len(ports.packets) == 3 + busy

    caplog.set_level(logging.DEBUG)
    play(scenario(), loop)
    (off,) = [vars(record) for record in caplog.records if record.msg == "publisher off"]
    assert off["goodbye"] is True
    (lost,) = [vars(record) for record in caplog.records if record.msg == "connection lost"]
    assert "reset" in lost["cause"]


@real_time
async def test_media_received_before_a_reset_and_the_backups_buffer_go_on_air(loop: str) -> None:
    """The primary resets its connection while reads are deferred: the kernel's bytes are read."""

    def pictures(first: int, count: int, mark: bytes) -> bytes:
        return b"".join(
            rtmp_peer.video(
                rtmp_peer.video_body(mark + bytes(2_000), key=not number),
                first + 33 * number,
            )
            for number in range(count)
        )

    ports = LoopbackPorts()
    async with loopback_listener(ports) as listener:
        send = asyncio.get_running_loop().sock_sendall
        async with listener.unread_socket() as primary, listener.unread_socket() as backup:
            tracks = rtmp_peer.video(rtmp_peer.video_config()) + rtmp_peer.audio(
                rtmp_peer.audio_config()
            )
            await send(primary, ports.opening())
            await until(lambda: listener.counters.publishers == 1)
            await send(primary, tracks + pictures(0, 1, b"p"))
            await until(lambda: len(ports.packets) == 1)
            await send(backup, ports.opening("live-backup-1"))
            await until(lambda: listener.counters.publishers == 2)
            before = listener.counters.bytes_in
            await send(backup, tracks + pictures(0, 20, b"b"))
            await until(lambda: listener.counters.bytes_in >= before + 20 * 2_000)
            await send(primary, pictures(33, 20, b"p"))
            primary.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            primary.close()
            await until(lambda: listener.counters.publishers == 1)
            await send(backup, pictures(660, 20, b"b"))
            await until(lambda: len(ports.packets) >= 1 + 20 + 40)
    marks = [packet.data[:1] for packet in ports.packets]
    assert marks == [b"p"] * 21 + [b"b"] * 40


@virtual_sockets
async def test_an_encoder_that_sends_is_not_pinged_and_a_quiet_one_is() -> None:
    clock = asyncio.get_running_loop().time
    ports = LoopbackPorts()
    limits = msgspec.structs.replace(LIMITS, idle_media_seconds=100.0)
    async with loopback_listener(ports, limits=limits) as listener:
        began = clock()
        wire = await listener.publishing(ports)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(wire.closed())
            for second in range(30):
                await wire.send(rtmp_peer.audio(rtmp_peer.audio_body(b"more"), 46 + 1000 * second))
                await asyncio.sleep(1)
            assert pings(wire.read) == 0
            await asyncio.sleep(LIMITS.ping_seconds)
            assert pings(wire.read) == 1
            # It answers nothing: half-open.
        assert clock() - began == pytest.approx(29 + LIMITS.silence_seconds, abs=1)
        assert listener.counters.refused == {"TimedOut": 1}
        await wire.close()


def pings(data: bytes) -> int:
    answers = rtmp_peer.answers(data[3073:])
    return sum(
        answer.kind == MessageType.USER_CONTROL and bytes(answer.body[:2]) == b"\0\x06"
        for answer in answers
    )


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        pytest.param("goodbye", "goodbye", id="it takes its leave"),
        pytest.param("vanishes", "lost", id="its network is gone"),
        pytest.param("hangs up", "lost", id="it closes without a word"),
        pytest.param("says nothing", "silent", id="it sends no media any more"),
        pytest.param("nonsense", "closed by us", id="it breaks the protocol"),
        pytest.param("ended", "closed by us", id="its owner has enough"),
    ],
)
@real_time
async def test_the_owners_event_has_the_reason_of_a_disconnect(how: str, reason: str) -> None:
    ports = LoopbackPorts()
    limits = msgspec.structs.replace(LIMITS, idle_media_seconds=0.5)
    async with loopback_listener(ports, limits=limits) as listener:
        wire = await listener.publishing(ports)
        match how:
            case "goodbye":
                await wire.send(rtmp_peer.GOODBYE)
            case "vanishes":
                wire.reset()
            case "hangs up":
                await wire.close()
            case "nonsense":
                await wire.send(bytes([0x00]) * 4096 + b"\xff" * 65536)
            case "ended":
                await listener.listener.streams.end(1, "over")
            case _:
                pass
        await until(lambda: any(each.kind == "encoder off" for each in ports.recorded))
        assert [each.facts for each in ports.recorded if each.kind.startswith("encoder")] == [
            {"slot": "primary", "receiving_count": 1},
            {"slot": "primary", "receiving_count": 0, "reason": reason},
        ]
        await wire.close()


@virtual_sockets
async def test_a_second_encoder_is_refused_as_occupied_and_the_owner_gets_an_event() -> None:
    ports = LoopbackPorts()
    async with loopback_listener(ports) as listener:
        first = await listener.publishing(ports)
        second = await listener.dial()
        await second.send(ports.opening())

        async def chatting() -> None:
            while True:
                await first.send(rtmp_peer.audio(rtmp_peer.audio_body(b"more"), 46))
                await asyncio.sleep(0.2)

        async with asyncio.TaskGroup() as tasks:
            talk = tasks.create_task(chatting())
            assert await second.status() == BAD_NAME
            talk.cancel()
        assert (
            last_description(await second.read_to_end())
            == "another encoder is sending with this key"
        )
        await until(lambda: any(each.kind == "refused" for each in ports.recorded))
        await second.close()
        await first.close()


def test_a_fault_on_the_tick_of_one_connection_ends_no_other(
    loop: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    faults = [KeyError("a bug of ours")]
    whole = Session.tick

    def tick(session: Session, now: float) -> None:
        if faults:
            raise faults.pop()
        whole(session, now)

    async def scenario() -> None:
        ports = LoopbackPorts()
        async with loopback_listener(ports) as listener:
            wires = [await listener.dial() for _ in range(2)]
            await until(lambda: listener.counters.connections == 2)
            monkeypatch.setattr(Session, "tick", tick)
            await until(lambda: not faults and listener.counters.connections == 1)
            wires.append(await listener.publishing(ports))
            for wire in wires:
                await wire.close()

    play(scenario(), loop)
    assert [record.msg for record in caplog.records if record.exc_info] == ["connection failed"]
