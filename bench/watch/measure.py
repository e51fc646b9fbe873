"""Feeds two encoders to a real watch engine, in its box, and reads what it has cost.

It is asked as often as `ingest.stream.encoder_watch` asks, second by second of the media, but gets
the next second as soon as it has answered: what it does depends on their times alone.
"""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from bench.watch.two_encoders import BEHIND_MS, SentMedia
from ingest.stream.alignment import Alignment
from transcode.live.source_comparer import EngineComparer, open_comparer

_WINDOW: Final = 5.0  # seconds that are compared
_SEARCH, _FOLLOW = 3, 10  # seconds from one comparison to the next: the first is 2.5 in service
_MIB: Final = 1 << 20


class WatchCost(msgspec.Struct, kw_only=True):
    """The cost of watching two encoders; CPU is in milliseconds for each second of the media.

    `memory_mb` is what the engine holds at the end, `peak_mb` the most; of these `own_mb` is not
    shared with other engines, whose code is the same.
    """

    seconds: int = 0
    engine_ms: float = 0
    service_ms: float = 0
    start_ms: float = 0  # in all
    found_after: int | None = None
    wrong_ms: float = 0
    memory_mb: float = 0
    own_mb: float = 0
    peak_mb: float = 0


async def watched(encoders: Sequence[SentMedia], *, judges: bool) -> WatchCost:
    """Watch two encoders to their end; without `judges` by their sound alone."""
    cost, alignment = WatchCost(), Alignment()
    async with open_comparer("bench", answer_seconds=60.0) as comparer:
        for number, each in enumerate(encoders):
            comparer.begin(number, each.audio, each.video if judges else None, judged=judges)
        await _compare(comparer, alignment)
        cost.start_ms = _cpu_ms(comparer.pid)
        since = _cpu_ms(comparer.pid)
        due = _SEARCH
        for packets in zip(*(each.seconds() for each in encoders), strict=False):
            cost.seconds += 1
            own = time.process_time()
            for number, arrived in enumerate(packets):
                comparer.add(number, arrived)
            if judges:
                await comparer.judge({0: 0.0, 1: alignment.offset})
            if cost.seconds >= due:
                due = cost.seconds + (_FOLLOW if alignment.is_settled else _SEARCH)
                await _compare(comparer, alignment)
                _note(cost, alignment)
            cost.service_ms += 1000 * (time.process_time() - own)
            cost.peak_mb = max(cost.peak_mb, _resident(comparer.pid)[0])
        cost.engine_ms = (_cpu_ms(comparer.pid) - since) / cost.seconds
        cost.service_ms /= cost.seconds
        cost.memory_mb, cost.own_mb = _resident(comparer.pid)
    return cost


async def _compare(comparer: EngineComparer, alignment: Alignment) -> None:
    found = await comparer.compare(0, 1, seconds=_WINDOW, near=alignment.near)
    if found is None:
        raise SystemExit("the watch engine does not answer")
    alignment.record(found)


def _note(cost: WatchCost, alignment: Alignment) -> None:
    if alignment.offset is not None:
        right = (895_000 + BEHIND_MS) / 1000
        cost.found_after = cost.found_after or cost.seconds
        cost.wrong_ms = max(cost.wrong_ms, 1000 * abs((alignment.picture_offset or 0) - right))


def _cpu_ms(pid: int) -> float:
    """Return what the scheduler has counted for all threads of a process."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((each / "schedstat").read_text().split()[0]) for each in tasks) / 1e6


def _resident(pid: int) -> tuple[float, float]:
    """Return what a process holds in memory, and what of it is its own, in MB."""
    pages = [int(each) for each in Path(f"/proc/{pid}/statm").read_text().split()]
    size = os.sysconf("SC_PAGESIZE")
    return pages[1] * size / _MIB, (pages[1] - pages[2]) * size / _MIB
