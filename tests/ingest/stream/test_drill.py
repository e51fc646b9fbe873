"""A drill: the slot on air counts as silent until another has taken over, then as returned."""

import asyncio

import pytest

from ingest.stream.failover import Mode, Policy
from tests.ingest.stream.test_live_stream import FakePorts
from tests.support.ingest.simulated_encoders import (
    BACKUP,
    PRIMARY,
    SECOND,
    SimulatedStream,
    pictures,
    seam,
    simulated_stream,
    whole,
)
from tests.support.ingest.virtual_clock import virtual_time

NOBODY = {"refused": "no other encoder is healthy"}


async def refused(stream: SimulatedStream) -> str:
    return str((await stream.live.drill(1))["refused"])


@virtual_time
async def test_a_drill_switches_as_a_stall_does_and_the_primary_returns_by_the_policy() -> None:
    ports = FakePorts()
    async with simulated_stream(ports) as stream:
        primary = await stream.add_encoder(PRIMARY)
        await stream.add_encoder(BACKUP, phase=0.7)
        await asyncio.sleep(9.05)
        facts = await stream.live.drill(1)
        # The answer is given once the state is written.
        assert stream.on_air == BACKUP
        (sink,) = ports.sinks
        first, second = pictures(sink.recorded)
        assert whole(second)
        assert abs(seam(first, second)) <= 1.05  # half a GOP
        assert facts == {
            "from": "primary",
            "to": "backup-1",
            "gap_ms": pytest.approx(second[0] - first[-1], abs=2),
            "switched_after_ms": pytest.approx(2000, abs=300),
        }
        assert ports.events == [
            ("switched", {"from": "primary", "to": "backup-1", "reason": "drill",
                          "gap_ms": facts["gap_ms"]}),
        ]  # fmt: skip
        assert primary.disconnected is None
        assert ports.state.sending == {PRIMARY, BACKUP}
        await asyncio.sleep(9.5)
        assert stream.on_air == BACKUP
        await asyncio.sleep(3)
        assert stream.on_air == PRIMARY
        assert [facts["reason"] for _, facts in ports.events] == ["drill", "returned"]
        assert "slate" not in sink.recorded


@virtual_time
async def test_a_drill_of_a_sticky_stream_stays_and_another_brings_it_back() -> None:
    ports = FakePorts()
    async with simulated_stream(ports, Policy(mode=Mode.STICKY, detect_seconds=1.0)) as stream:
        await stream.add_encoder(PRIMARY)
        await stream.add_encoder(BACKUP)
        await asyncio.sleep(5)
        assert (await stream.live.drill(1))["to"] == "backup-1"
        await asyncio.sleep(60)
        assert stream.on_air == BACKUP
        facts = await stream.live.drill(1)
        assert (facts["from"], facts["to"]) == ("backup-1", "primary")
        assert facts["switched_after_ms"] == pytest.approx(1000, abs=300)


@virtual_time
async def test_a_drill_without_another_healthy_encoder_is_refused() -> None:
    ports = FakePorts()
    async with simulated_stream(ports) as stream:
        assert "no encoder is on air" in await refused(stream)
        await stream.add_encoder(PRIMARY)
        await asyncio.sleep(3)
        assert await stream.live.drill(1) == NOBODY
        backup = await stream.add_encoder(BACKUP)
        await asyncio.sleep(3)
        backup.stalled = True
        await asyncio.sleep(3)
        assert await stream.live.drill(1) == NOBODY
        backup.stalled = False
        radio = await stream.add_encoder(SECOND, None)
        backup.leave()
        await asyncio.sleep(3)
        assert "picture" in await refused(stream)
        radio.leave()
        assert await stream.live.pause(1)
        assert "paused" in await refused(stream)
        assert len(pictures(ports.sinks[0].recorded)) == 1
        assert stream.recorded[1:] == ["slate"]


@virtual_time
async def test_a_drill_that_would_take_too_long_is_not_begun() -> None:
    ports = FakePorts()
    async with simulated_stream(ports, Policy(detect_seconds=25.0)) as stream:
        await stream.add_encoder(PRIMARY)
        await stream.add_encoder(BACKUP)
        await asyncio.sleep(30)
        assert "25 s" in await refused(stream)
        assert stream.on_air == PRIMARY


@virtual_time
async def test_a_second_drill_at_the_same_time_is_refused() -> None:
    ports = FakePorts()
    async with simulated_stream(ports) as stream:
        await stream.add_encoder(PRIMARY)
        await stream.add_encoder(BACKUP)
        await asyncio.sleep(5)
        async with asyncio.TaskGroup() as tasks:
            first = tasks.create_task(stream.live.drill(1))
            await asyncio.sleep(0.5)
            assert await refused(stream) == "another drill is on"
        assert first.result()["to"] == "backup-1"


@pytest.mark.parametrize("cause", ["standby lost", "paused", "nobody waits", "ended"])
@virtual_time
async def test_a_cancelled_drill_returns_to_the_primary_without_lost_media(cause: str) -> None:
    ports = FakePorts()
    async with simulated_stream(ports) as stream:
        await stream.add_encoder(PRIMARY)
        backup = await stream.add_encoder(BACKUP)
        await asyncio.sleep(5.05)
        drill = asyncio.create_task(stream.live.drill(1))  # noqa: TID251 # it is cancelled
        await asyncio.sleep(1)
        match cause:
            case "standby lost":
                backup.leave()
                await asyncio.sleep(1.5)
            case "paused":
                assert await stream.live.pause(1)
                assert await stream.live.resume(1)
            case "ended":
                assert await stream.live.end(1, "over")
            case _:
                drill.cancel()
        if cause == "nobody waits":
            await asyncio.wait([drill])
            assert drill.cancelled()
        else:
            assert "refused" in await drill
        await asyncio.sleep(2.2)
        if cause == "ended":
            assert stream.recorded[-2:] == ["finish", "end"]
            return
        assert stream.on_air == PRIMARY
        first, second = pictures(ports.sinks[0].recorded)
        assert whole(second)
        if cause == "paused":
            return
        # Its own buffer has the media from a keyframe on, and the next picture is shown first.
        since, _ = ports.sinks[0].shown[1]
        assert since is not None
        assert second[0] < since == pytest.approx(first[-1] + 100, abs=1)
        assert "slate" not in stream.recorded
        assert [kind for kind, _ in ports.events] == []


@virtual_time
async def test_a_primary_that_leaves_during_its_drill_causes_a_switch() -> None:
    ports = FakePorts()
    async with simulated_stream(ports) as stream:
        primary = await stream.add_encoder(PRIMARY)
        await stream.add_encoder(BACKUP)
        await asyncio.sleep(5)
        async with asyncio.TaskGroup() as tasks:
            drill = tasks.create_task(stream.live.drill(1))
            await asyncio.sleep(0.5)
            primary.leave()
        assert drill.result()["switched_after_ms"] == pytest.approx(500, abs=50)
        ((_, facts),) = ports.events
        assert facts["reason"] == "lost"
