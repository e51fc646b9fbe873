"""What the bench of the catalog measures: each transaction in each way, and a loop held up."""

import asyncio
import time
from pathlib import Path

from bench.catalog.measure import hold_ups, measure
from bench.catalog.ways import WAYS


async def test_every_transaction_is_measured_in_every_way_in_each_round(tmp_path: Path) -> None:
    results = await measure(tmp_path, videos=40, rounds=2, times=3)
    assert len(results.cpu_us) == 6
    for ways in (*results.cpu_us.values(), results.hold_up_ms, results.wait_ms):
        assert set(ways) == set(WAYS)
        assert all(len(values) == 2 and min(values) > 0 for values in ways.values())


async def test_a_loop_that_is_held_up_is_noticed() -> None:
    async with hold_ups() as late:
        await asyncio.sleep(0.01)
        time.sleep(0.1)  # noqa: ASYNC251 # what holds it up, until the end of the block
    assert late.seconds >= 0.08
