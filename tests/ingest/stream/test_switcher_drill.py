"""A drill: who is on air counts as silent until another has taken over, and then as back."""

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
from tests.support.ingest.virtual_clock import run

NOBODY = {"refused": "no other encoder is well"}


async def refused(stage: SimulatedStream) -> str:
    return str((await stage.live.drill(1))["refused"])


def test_a_drill_switches_as_a_stall_does_and_the_primary_returns_by_the_policy() -> None:
    async def story() -> None:
        place = FakePorts()
        async with simulated_stream(place) as stage:
            primary = await stage.add_encoder(PRIMARY)
            await stage.add_encoder(BACKUP, phase=0.7)
            await asyncio.sleep(9.05)
            facts = await stage.live.drill(1)
            # What is answered is written down.
            assert stage.on_air == BACKUP
            (sink,) = place.sinks
            first, second = pictures(sink.told)
            assert whole(second)
            assert abs(seam(first, second)) <= 1.05  # half a GOP
            assert facts == {
                "from": "primary",
                "to": "backup-1",
                "gap_ms": pytest.approx(second[0] - first[-1], abs=2),
                "switched_after_ms": pytest.approx(2000, abs=300),
            }
            assert place.events == [
                ("switched", {"from": "primary", "to": "backup-1", "reason": "drill",
                              "gap_ms": facts["gap_ms"]}),
            ]  # fmt: skip
            assert primary.disconnected is None
            assert place.state.sending == {PRIMARY, BACKUP}
            await asyncio.sleep(9.5)
            assert stage.on_air == BACKUP
            await asyncio.sleep(3)
            assert stage.on_air == PRIMARY
            assert [facts["reason"] for _, facts in place.events] == ["drill", "returned"]
            assert "slate" not in sink.told

    run(story())


def test_a_drill_of_a_sticky_stream_stays_and_another_brings_it_back() -> None:
    async def story() -> None:
        place = FakePorts()
        async with simulated_stream(place, Policy(mode=Mode.STICKY, detect_seconds=1.0)) as stage:
            await stage.add_encoder(PRIMARY)
            await stage.add_encoder(BACKUP)
            await asyncio.sleep(5)
            assert (await stage.live.drill(1))["to"] == "backup-1"
            await asyncio.sleep(60)
            assert stage.on_air == BACKUP
            facts = await stage.live.drill(1)
            assert (facts["from"], facts["to"]) == ("backup-1", "primary")
            assert facts["switched_after_ms"] == pytest.approx(1000, abs=300)

    run(story())


def test_there_is_no_drill_without_somebody_to_take_over() -> None:
    async def story() -> None:
        place = FakePorts()
        async with simulated_stream(place) as stage:
            assert "no encoder is on air" in await refused(stage)
            await stage.add_encoder(PRIMARY)
            await asyncio.sleep(3)
            assert await stage.live.drill(1) == NOBODY
            backup = await stage.add_encoder(BACKUP)
            await asyncio.sleep(3)
            backup.stalled = True
            await asyncio.sleep(3)
            assert await stage.live.drill(1) == NOBODY
            backup.stalled = False
            radio = await stage.add_encoder(SECOND, None)
            backup.leave()
            await asyncio.sleep(3)
            assert "picture" in await refused(stage)
            radio.leave()
            assert await stage.live.pause(1)
            assert "paused" in await refused(stage)
            assert len(pictures(place.sinks[0].told)) == 1
            assert stage.told[1:] == ["slate"]

    run(story())


def test_a_drill_that_takes_longer_than_anybody_waits_is_not_begun() -> None:
    async def story() -> None:
        place = FakePorts()
        async with simulated_stream(place, Policy(detect_seconds=25.0)) as stage:
            await stage.add_encoder(PRIMARY)
            await stage.add_encoder(BACKUP)
            await asyncio.sleep(30)
            assert "25 s" in await refused(stage)
            assert stage.on_air == PRIMARY

    run(story())


def test_one_drill_at_a_time() -> None:
    async def story() -> None:
        place = FakePorts()
        async with simulated_stream(place) as stage:
            await stage.add_encoder(PRIMARY)
            await stage.add_encoder(BACKUP)
            await asyncio.sleep(5)
            async with asyncio.TaskGroup() as tasks:
                first = tasks.create_task(stage.live.drill(1))
                await asyncio.sleep(0.5)
                assert await refused(stage) == "another drill is on"
            assert first.result()["to"] == "backup-1"

    run(story())


@pytest.mark.parametrize("cause", ["standby lost", "paused", "nobody waits", "ended"])
def test_a_drill_that_is_broken_off_gives_the_air_back_without_a_hole(cause: str) -> None:
    async def story() -> None:
        place = FakePorts()
        async with simulated_stream(place) as stage:
            await stage.add_encoder(PRIMARY)
            backup = await stage.add_encoder(BACKUP)
            await asyncio.sleep(5.05)
            asked = asyncio.create_task(stage.live.drill(1))  # noqa: TID251 # it is cancelled
            await asyncio.sleep(1)
            match cause:
                case "standby lost":
                    backup.leave()
                    await asyncio.sleep(1.5)
                case "paused":
                    assert await stage.live.pause(1)
                    assert await stage.live.resume(1)
                case "ended":
                    assert await stage.live.end(1, "over")
                case _:
                    asked.cancel()
            if cause == "nobody waits":
                await asyncio.wait([asked])
                assert asked.cancelled()
            else:
                assert "refused" in await asked
            await asyncio.sleep(2.2)
            if cause == "ended":
                assert stage.told[-2:] == ["finish", "end"]
                return
            assert stage.on_air == PRIMARY
            first, second = pictures(place.sinks[0].told)
            assert whole(second)
            if cause == "paused":
                return
            # Its own ring has what was held back, from a keyframe on.
            assert abs(seam(first, second)) <= 1.05
            assert "slate" not in stage.told
            assert [kind for kind, _ in place.events] == []

    run(story())


def test_a_primary_that_leaves_during_its_drill_is_a_switch_all_the_same() -> None:
    async def story() -> None:
        place = FakePorts()
        async with simulated_stream(place) as stage:
            primary = await stage.add_encoder(PRIMARY)
            await stage.add_encoder(BACKUP)
            await asyncio.sleep(5)
            async with asyncio.TaskGroup() as tasks:
                drill = tasks.create_task(stage.live.drill(1))
                await asyncio.sleep(0.5)
                primary.leave()
            assert drill.result()["switched_after_ms"] == pytest.approx(500, abs=50)
            ((_, facts),) = place.events
            assert facts["reason"] == "lost"

    run(story())
