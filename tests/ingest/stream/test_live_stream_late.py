"""Encoders whose packets arrive late: what is lost or repeated at a switch to them."""

import asyncio

import pytest

from ingest.stream.failover import Policy
from tests.ingest.stream.test_live_stream import FakePorts
from tests.support.ingest.simulated_encoders import (
    BACKUP,
    PRIMARY,
    pictures,
    seam,
    simulated_stream,
    whole,
)
from tests.support.ingest.virtual_clock import virtual_time


@pytest.mark.parametrize("phase", [0.2, 0.5, 0.9, 1.2, 1.6])
@pytest.mark.parametrize("held", [0.4, 0.8, 1.2])
@virtual_time
async def test_a_backup_with_delayed_packets_takes_over_at_its_nearest_keyframe(
    held: float, phase: float
) -> None:
    ports = FakePorts()
    async with simulated_stream(ports) as stream:
        primary = await stream.add_encoder(PRIMARY)
        backup = await stream.add_encoder(BACKUP, phase=phase)
        clock = asyncio.get_running_loop().time
        began = clock()
        await asyncio.sleep(8.65)
        backup.held_until = began + 8.65 + held
        await asyncio.sleep(0.4)
        primary.leave()
        await asyncio.sleep(2.5)
        assert ports.states[-1].on_air == BACKUP
        (sink,) = ports.sinks
        first, second = pictures(sink.recorded)
        assert whole(second)
        assert abs(seam(first, second)) <= 1.05  # half a GOP
        ((_, facts),) = ports.events
        assert facts["gap_ms"] == pytest.approx(1000 * (seam(first, second) + 0.1), abs=2)


@virtual_time
async def test_a_primary_returns_to_air_once_it_has_caught_up_after_a_stall() -> None:
    ports = FakePorts()
    async with simulated_stream(ports, Policy(return_seconds=2.0)) as stream:
        primary = await stream.add_encoder(PRIMARY)
        await stream.add_encoder(BACKUP, phase=0.9)
        await asyncio.sleep(9.05)
        clock = asyncio.get_running_loop().time
        primary.held_until, primary.lags = clock() + 5.0, 4.0
        await asyncio.sleep(9.0)  # 2 s after its return, its packets are still 2 s old
        assert stream.on_air == BACKUP
        await asyncio.sleep(7.0)
        assert stream.on_air == PRIMARY
        (sink,) = ports.sinks
        _, backup, again = pictures(sink.recorded)
        assert abs(seam(backup, again)) <= 0.25  # a little late still
        assert [facts["reason"] for _, facts in ports.events] == ["stalled", "returned"]


@pytest.mark.parametrize("phase", [0.3, 0.8, 1.3, 1.9])
@virtual_time
async def test_a_primary_that_dies_as_soon_as_it_is_back_costs_no_more_than_half_a_gop(
    phase: float,
) -> None:
    ports = FakePorts()
    async with simulated_stream(ports, Policy(return_seconds=2.0)) as stream:
        first = await stream.add_encoder(PRIMARY)
        await stream.add_encoder(BACKUP, phase=phase)
        await asyncio.sleep(9.05)
        first.leave()
        await asyncio.sleep(20)  # the backup is alone: nothing is buffered
        again = await stream.add_encoder(PRIMARY)
        await asyncio.sleep(2.25)
        assert stream.on_air == PRIMARY
        again.leave()
        await asyncio.sleep(2.5)
        assert stream.on_air == BACKUP
        (sink,) = ports.sinks
        *_, primary, backup = pictures(sink.recorded)
        assert abs(seam(primary, backup)) <= 1.05  # half a GOP
