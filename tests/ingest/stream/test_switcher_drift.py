"""How far a run's own time is from the clock after many switches: each loses or repeats media."""

import asyncio
import random
from itertools import accumulate, pairwise

import pytest

from ingest.stream.failover import Policy
from tests.ingest.stream.test_live_stream import FakePorts, Sink
from tests.support.ingest.simulated_encoders import (
    BACKUP,
    PRIMARY,
    SimulatedEncoder,
    SimulatedStream,
    pictures,
    simulated_stream,
    whole_at,
)
from tests.support.ingest.virtual_clock import virtual_time

FRAME = 1 / 30


async def add_pair(stream: SimulatedStream, phase: float) -> list[SimulatedEncoder]:
    """Add two encoders with a keyframe every 2 s, of which the backup's come `phase` later."""
    encoders: list[SimulatedEncoder] = []
    for slot, late in ((PRIMARY, 0.0), (BACKUP, phase)):
        encoder = await stream.add_encoder(slot, phase=late)
        encoder.gop, encoder.interval = 60, FRAME
        encoders.append(encoder)
    return encoders


async def show_slate(encoders: list[SimulatedEncoder], sink: Sink) -> float:
    """Stop the encoders for a while; return how long ago the slate began when it was ordered."""
    for encoder in encoders:
        encoder.stalled = True
    await asyncio.sleep(6)
    late = sink.late[-1]
    assert sink.recorded[-1] == "slate"
    for encoder in encoders:
        encoder.stalled = False
    await asyncio.sleep(6)
    return late


def losses(recorded: list[str]) -> list[float]:
    """Return the seconds lost at each seam of a run; below 0: repeated."""
    sources = pictures(recorded)
    assert all(whole_at(FRAME, source) for source in sources)
    return [(after[0] - before[-1]) / 1000 - FRAME for before, after in pairwise(sources)]


# Seeds with which the losses add up to 2.5 s and more unless they are balanced.
@pytest.mark.parametrize("seed", [1, 2, 10])
@virtual_time
async def test_after_many_drills_the_runs_time_is_near_the_clock(seed: int) -> None:
    moments = random.Random(seed)
    ports = FakePorts()
    async with simulated_stream(ports, Policy(return_seconds=1.0)) as stream:
        encoders = await add_pair(stream, moments.uniform(0, 2))
        for _ in range(20):
            await asyncio.sleep(moments.uniform(6, 8))
            assert "refused" not in await stream.live.drill(1)
            assert stream.on_air == BACKUP
        await asyncio.sleep(6)
        (sink,) = ports.sinks
        lost = losses(sink.recorded)
        assert len(lost) == 40
        behind = list(accumulate(lost, initial=0.0))
        assert max(map(abs, behind)) <= 2.1  # a second, and half of a GOP
        for each, before in zip(lost, behind, strict=False):
            assert abs(each) <= 1.05 + max(0.0, abs(before) - 0.95)
        assert sum(abs(each) > 1.05 for each in lost) <= 5
        # The slate lasts by as much longer or shorter, so after it nothing is left of that.
        assert abs(behind[-1]) > 0.3
        assert await show_slate(encoders, sink) == pytest.approx(2.1 + behind[-1], abs=0.25)
        assert await show_slate(encoders, sink) == pytest.approx(2.1, abs=0.25)
