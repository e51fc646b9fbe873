"""How long the stretches of a video will still take, from how long they took so far. Pure.

Each worker goes on as fast as all did on average, and takes the next stretch when it has ended one:
so the last stretch, which one worker makes while the others have nothing left, is counted as long
as it takes. Times are microseconds; what is done is counted in what stretches cost.
"""

import heapq
from collections.abc import Sequence
from typing import Final

import msgspec

__all__ = ["SpanPace", "seconds_left"]

_MICROSECONDS: Final = 1_000_000


class SpanPace(msgspec.Struct, frozen=True):
    """A stretch: its cost and what of it is done, when it was begun and last written down.

    `state` is running or done; any other one waits, and its times say nothing.
    """

    state: str
    cost: int
    done: int = 0
    begun_us: int = 0
    changed_us: int = 0


def seconds_left(spans: Sequence[SpanPace], now_us: int, *, free: int = 0) -> int:
    """Return the seconds until all are done, 0 where nothing is known yet.

    `spans` are in the order in which they are taken; `free` workers beside those of the stretches
    that run are about to take one.
    """
    work = busy = 0
    for each in spans:
        if each.state in ("running", "done"):
            until_us = each.changed_us if each.state == "done" else now_us
            work += each.done
            busy += max(0, until_us - each.begun_us)
    if not work or not busy:
        return 0
    workers = [
        float(max(0, each.cost - each.done)) for each in spans if each.state == "running"
    ] + [0.0] * free
    workers = workers or [0.0]
    heapq.heapify(workers)
    for each in spans:
        if each.state not in ("running", "done"):
            heapq.heapreplace(workers, workers[0] + each.cost)
    return round(max(workers) * busy / work / _MICROSECONDS)
