"""Networks that delay packets, with the low-latency policy: what counts as a failure."""

import asyncio
import random
from collections.abc import Callable
from itertools import pairwise

import pytest

from ingest.stream.failover import LOW_LATENCY_POLICY
from tests.ingest.stream.test_live_stream import FakePorts
from tests.support.ingest.simulated_encoders import (
    BACKUP,
    PRIMARY,
    SimulatedEncoder,
    pictures,
    seam,
    simulated_stream,
    whole,
)
from tests.support.ingest.virtual_clock import virtual_time

PICTURE_SECONDS = 1 / 30

# A network: seconds in which all packets arrive at once, then seconds in which none arrives.
Network = Callable[[random.Random], tuple[float, float]]


def retransmission(chance: random.Random) -> tuple[float, float]:
    """A packet is lost now and then, and the second time its retransmission, too."""
    return chance.uniform(0.2, 4.0), chance.choice([0.3, chance.uniform(0.3, 0.6)])


def congestion(chance: random.Random) -> tuple[float, float]:
    """Some packets pass, the next ones are late by up to half a second, and so on."""
    return PICTURE_SECONDS, chance.uniform(0.0, 0.5)


def radio(chance: random.Random) -> tuple[float, float]:
    """Long pauses with short bursts between them: a mobile network at the edge of a cell."""
    return chance.choice([0.04, 0.1, 6.0]), chance.uniform(0.4, 0.6)


async def hold_packets(encoder: SimulatedEncoder, network: Network, chance: random.Random) -> None:
    clock = asyncio.get_running_loop().time
    while True:
        passing, held_seconds = network(chance)
        await asyncio.sleep(passing)
        encoder.held_until = clock() + held_seconds
        await asyncio.sleep(held_seconds + 0.001)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("network", [retransmission, congestion, radio])
@virtual_time
async def test_an_encoder_whose_packets_are_held_up_is_not_switched_away_from(
    network: Network, seed: int
) -> None:
    """For two minutes, with a backup whose network is as bad."""

    ports = FakePorts()
    async with (
        simulated_stream(ports, LOW_LATENCY_POLICY) as stream,
        asyncio.TaskGroup() as tasks,
    ):
        holding: list[asyncio.Task[None]] = []
        for slot, phase in ((PRIMARY, 0.0), (BACKUP, 0.7)):
            encoder = await stream.add_encoder(slot, phase=phase)
            encoder.interval, encoder.gop = PICTURE_SECONDS, 60
            chance = random.Random(f"{seed} {slot}")
            holding.append(tasks.create_task(hold_packets(encoder, network, chance)))
        await asyncio.sleep(120)
        for task in holding:
            task.cancel()
        assert ports.events == []
        assert {each.kind for each in ports.recorded} == {"encoder on"}
        assert stream.recorded == ["begin VideoTrack AudioTrack"]
        (received,) = pictures(ports.sinks[0].recorded)
        assert len(received) > 3000
        assert all(33 <= later - sooner <= 34 for sooner, later in pairwise(received))


@pytest.mark.parametrize("stall", [0.9, 1.5])
@virtual_time
async def test_when_both_encoders_stall_shortly_nothing_is_lost(stall: float) -> None:
    """As when the service's own network fails."""

    ports = FakePorts()
    async with simulated_stream(ports, LOW_LATENCY_POLICY) as stream:
        encoders = [await stream.add_encoder(PRIMARY), await stream.add_encoder(BACKUP)]
        await asyncio.sleep(7.05)
        now = asyncio.get_running_loop().time()
        for encoder in encoders:
            encoder.held_until = now + stall
        await asyncio.sleep(10.0)
        assert ports.events == []
        (received,) = pictures(ports.sinks[0].recorded)
        assert whole(received)


@virtual_time
async def test_when_both_encoders_stall_for_good_the_slate_begins_as_late_as_with_one() -> None:
    ports = FakePorts()
    async with simulated_stream(ports, LOW_LATENCY_POLICY) as stream:
        encoders = [await stream.add_encoder(PRIMARY), await stream.add_encoder(BACKUP)]
        await asyncio.sleep(7.05)
        for encoder in encoders:
            encoder.stalled = True
        await asyncio.sleep(1.9)
        assert ports.events == []
        await asyncio.sleep(0.5)
        assert ports.events == [("slate", {"reason": "stalled"})]


@pytest.mark.parametrize("phase", [0.0, 0.3, 0.6, 0.9, 1.1, 1.4, 1.6, 1.9])
@virtual_time
async def test_a_stall_is_noticed_within_a_second_and_the_backup_goes_on_from_there(
    phase: float,
) -> None:
    ports = FakePorts()
    async with simulated_stream(ports, LOW_LATENCY_POLICY) as stream:
        primary = await stream.add_encoder(PRIMARY)
        await stream.add_encoder(BACKUP, phase=phase)
        await asyncio.sleep(9.05)
        primary.stalled = True
        await asyncio.sleep(0.6)
        assert stream.on_air == PRIMARY
        # The newest packet arrived up to 0.1 s before. From then on, a keyframe that is due
        # within half of the keyframe interval is waited for.
        await asyncio.sleep(0.46)
        assert stream.on_air == BACKUP
        first, second = pictures(ports.sinks[0].recorded)
        assert whole(second)
        assert abs(seam(first, second)) <= 1.11  # half a GOP, and a picture
        assert second[-1] / 1000 >= asyncio.get_running_loop().time() - 0.2


@virtual_time
async def test_the_backups_buffer_reaches_back_to_the_moment_of_the_loss() -> None:
    """Also if its keyframe before that moment is as old as it can be, and the stall is long."""

    ports = FakePorts()
    async with simulated_stream(ports, LOW_LATENCY_POLICY) as stream:
        primary = await stream.add_encoder(PRIMARY)
        backup = await stream.add_encoder(BACKUP)
        backup.gop = 80  # 8 s
        await asyncio.sleep(19.55)
        primary.stalled = True
        backup.held_until = asyncio.get_running_loop().time() + 1.5
        await asyncio.sleep(2.3)
        assert stream.on_air == BACKUP
        first, second = pictures(ports.sinks[0].recorded)
        assert whole(second)
        assert second[0] < first[-1] < second[-1]
