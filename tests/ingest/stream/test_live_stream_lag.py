"""A held-up event loop must not change the slot on air, free slots or shorten reconnect windows."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from headend.roles.loop_watch import watch_loop
from headend.supervision import BackgroundTask, run_in_background
from ingest.stream.failover import LOW_LATENCY_POLICY, Policy
from ingest.stream.live_stream import ANSWER_SECONDS, SlotOccupied
from media.loop_lag import LoopLag
from tests.ingest.stream.test_live_stream import FakePorts, FakePublisher
from tests.support.ingest.simulated_encoders import (
    BACKUP,
    GRANT,
    PRIMARY,
    SimulatedStream,
    simulated_stream,
)
from tests.support.ingest.virtual_clock import hold_up, virtual_time


@asynccontextmanager
async def stream_on_a_watched_loop(
    ports: FakePorts, policy: Policy | None = None
) -> AsyncGenerator[SimulatedStream, None]:
    lag = LoopLag()
    async with (
        run_in_background(BackgroundTask("loop", lambda: watch_loop(lag))),
        simulated_stream(ports, policy, lag=lag) as stream,
    ):
        yield stream


@pytest.mark.parametrize("policy", [Policy(), LOW_LATENCY_POLICY], ids=["normal", "low"])
@pytest.mark.parametrize("phase", [0.0, 0.03, 0.07])
@virtual_time
async def test_healthy_encoders_keep_their_places_while_the_loop_is_held_up(
    phase: float, policy: Policy
) -> None:
    ports = FakePorts()
    async with stream_on_a_watched_loop(ports, policy) as stage:
        await stage.add_encoder(PRIMARY)
        await stage.add_encoder(BACKUP, phase=phase)
        await asyncio.sleep(7.0 + phase)
        # The shortest delay is just below the threshold of a lag.
        for seconds in (0.24, 0.5, 0.8, 2.5, 30.0, 2.5):
            hold_up(seconds)
            await asyncio.sleep(1.0)
            assert stage.on_air == PRIMARY
        assert ports.events == []
        assert stage.recorded == ["begin VideoTrack AudioTrack"]


@virtual_time
async def test_an_encoder_that_fails_while_the_loop_is_held_up_again_and_again_is_replaced() -> (
    None
):
    ports = FakePorts()
    async with stream_on_a_watched_loop(ports) as stage:
        primary = await stage.add_encoder(PRIMARY)
        await stage.add_encoder(BACKUP)
        await asyncio.sleep(7.0)
        primary.stalled = True
        for _ in range(6):
            hold_up(0.9)
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)
        assert stage.on_air == BACKUP


@virtual_time
async def test_a_run_waits_longer_for_its_encoder_when_none_could_connect() -> None:
    ports = FakePorts()
    async with stream_on_a_watched_loop(ports) as stage:
        encoder = await stage.add_encoder(PRIMARY)
        await asyncio.sleep(3.0)
        stage.stop()
        encoder.leave()
        await asyncio.sleep(1.0)
        hold_up(GRANT.reconnect_seconds)
        await asyncio.sleep(2.0)  # the encoder's dialogue takes its time
        await stage.add_encoder(PRIMARY)
        await asyncio.sleep(2.0)
        assert stage.on_air == PRIMARY
        assert len(ports.sinks) == 1
        stage.stop()
        await asyncio.sleep(GRANT.reconnect_seconds)
        assert len(ports.sinks) == 1


@virtual_time
async def test_an_encoder_keeps_its_slot_while_its_packets_cannot_be_read() -> None:
    ports = FakePorts()
    clock = asyncio.get_running_loop().time
    async with stream_on_a_watched_loop(ports) as stage:
        holder = await stage.add_encoder(PRIMARY)
        await asyncio.sleep(1.0)
        holder.last = clock()
        hold_up(ANSWER_SECONDS + 1)
        # It is read on the loop's next turn.
        asyncio.get_running_loop().call_soon(setattr, holder, "last", None)
        with pytest.raises(SlotOccupied):
            await stage.live.attach(GRANT, FakePublisher())
        assert holder.disconnected is None
