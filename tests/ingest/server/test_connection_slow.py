"""Encoders on slow networks, with the low-latency policy and a healthy backup."""

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from ingest.stream.failover import LOW_LATENCY_POLICY
from tests.support.ingest import rtmp_peer
from tests.support.ingest.loopback import LoopbackPorts, Wire, loopback_listener
from tests.support.ingest.virtual_clock import virtual_sockets
from tests.support.waiting import until


@asynccontextmanager
async def primary_beside_a_backup(ports: LoopbackPorts) -> AsyncGenerator[Wire, None]:
    """Connect both encoders, and yield the primary; the backup keeps sending."""
    ports.policy = LOW_LATENCY_POLICY
    async with loopback_listener(ports) as listener, asyncio.TaskGroup() as tasks:
        primary = await listener.publishing(ports)
        backup = await listener.standby(ports)

        async def send() -> None:
            for number in range(1, 10_000):
                await backup.send(rtmp_peer.video(rtmp_peer.video_body(b"b"), 33 + 100 * number))
                await asyncio.sleep(0.1)

        sending = tasks.create_task(send())
        try:
            await until(lambda: len(ports.states[-1].sending) == 2)
            yield primary
        finally:
            sending.cancel()
            await primary.close()
            await backup.close()


def switches(ports: LoopbackPorts) -> list[str]:
    return [each.kind for each in ports.recorded if not each.kind.startswith("encoder o")]


@virtual_sockets
async def test_a_keyframe_that_takes_seconds_to_arrive_is_no_stall() -> None:
    ports = LoopbackPorts()
    async with primary_beside_a_backup(ports) as primary:
        keyframe = rtmp_peer.video(rtmp_peer.video_body(bytes(1200), key=True), 100)
        for at in range(0, len(keyframe), 200):
            await primary.send(keyframe[at : at + 200])
            await asyncio.sleep(0.5)
        assert switches(ports) == []
        assert [len(packet.data) for packet in ports.packets] == [500, 90, 300, 1200]
        # A keyframe that stops in the middle is a stall.
        await primary.send(keyframe[:200])
        await until(lambda: "switched" in switches(ports))


@virtual_sockets
async def test_an_encoder_whose_pictures_are_late_by_up_to_half_a_second_stays_on_air() -> None:
    ports = LoopbackPorts()
    chance = random.Random(7)
    clock = asyncio.get_running_loop().time
    async with primary_beside_a_backup(ports) as primary:
        began, count = clock(), 300
        for number in range(count):
            sent = began + number / 30
            # In order, as TCP delivers them: a late packet delays those after it.
            arrives = sent + (chance.uniform(0.3, 0.5) if number % 20 == 0 else 0.0)
            await asyncio.sleep(max(0.0, arrives - clock()))
            stamp = 66 + round(1000 * number / 30)
            await primary.send(rtmp_peer.video(rtmp_peer.video_body(b"p"), stamp))
        await until(lambda: len(ports.packets) == 3 + count)
        assert switches(ports) == []
        assert len(ports.runs) == 1
