"""Encoders whose packets come late: what is lost or shown twice when viewers go over to them."""

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
from tests.support.ingest.virtual_clock import run


@pytest.mark.parametrize("phase", [0.2, 0.5, 0.9, 1.2, 1.6])
@pytest.mark.parametrize("held", [0.4, 0.8, 1.2])
def test_a_backup_whose_packets_are_held_up_is_joined_at_its_nearest_keyframe_all_the_same(
    held: float, phase: float
) -> None:
    async def story() -> None:
        place = FakePorts()
        async with simulated_stream(place) as stage:
            primary = await stage.add_encoder(PRIMARY)
            backup = await stage.add_encoder(BACKUP, phase=phase)
            clock = asyncio.get_running_loop().time
            began = clock()
            await asyncio.sleep(8.65)
            backup.held_until = began + 8.65 + held
            await asyncio.sleep(0.4)
            primary.leave()
            await asyncio.sleep(2.5)
            assert place.states[-1].on_air == BACKUP
            (sink,) = place.sinks
            first, second = pictures(sink.told)
            assert whole(second)
            assert abs(seam(first, second)) <= 1.05  # half a GOP
            ((_, facts),) = place.events
            assert facts["gap_ms"] == pytest.approx(1000 * (seam(first, second) + 0.1), abs=2)

    run(story())


def test_a_primary_that_makes_up_for_a_stall_is_gone_back_to_when_it_has() -> None:
    async def story() -> None:
        place = FakePorts()
        async with simulated_stream(place, Policy(return_seconds=2.0)) as stage:
            primary = await stage.add_encoder(PRIMARY)
            await stage.add_encoder(BACKUP, phase=0.9)
            await asyncio.sleep(9.05)
            clock = asyncio.get_running_loop().time
            primary.held_until, primary.lags = clock() + 5.0, 4.0
            await asyncio.sleep(9.0)  # 2 s after it is back it still sends what is 2 s old
            assert stage.on_air == BACKUP
            await asyncio.sleep(7.0)
            assert stage.on_air == PRIMARY
            (sink,) = place.sinks
            _, backup, again = pictures(sink.told)
            assert abs(seam(backup, again)) <= 0.25  # a little late still
            assert [facts["reason"] for _, facts in place.events] == ["stalled", "returned"]

    run(story())


@pytest.mark.parametrize("phase", [0.3, 0.8, 1.3, 1.9])
def test_a_primary_that_dies_as_soon_as_it_is_back_costs_no_more_than_half_a_gop(
    phase: float,
) -> None:
    async def story() -> None:
        place = FakePorts()
        async with simulated_stream(place, Policy(return_seconds=2.0)) as stage:
            first = await stage.add_encoder(PRIMARY)
            await stage.add_encoder(BACKUP, phase=phase)
            await asyncio.sleep(9.05)
            first.leave()
            await asyncio.sleep(20)  # the backup is alone: nothing of it is kept
            again = await stage.add_encoder(PRIMARY)
            await asyncio.sleep(2.25)
            assert stage.on_air == PRIMARY
            again.leave()
            await asyncio.sleep(2.5)
            assert stage.on_air == BACKUP
            (sink,) = place.sinks
            *_, primary, backup = pictures(sink.told)
            assert abs(seam(primary, backup)) <= 1.05  # half a GOP

    run(story())
