"""How long the stretches of a video will still take, from how long they took so far. Pure.

Each worker goes on as fast as all did on average, and takes the next stretch when it has ended one:
so the last stretch, which one worker makes while the others have nothing left, is counted as long
as it takes. Times are microseconds; what is done is counted in what stretches cost.
"""

import heapq
from collections.abc import Sequence
from typing import Final

import msgspec

from media.ticks import MICROSECONDS

__all__ = ["SpanPace", "seconds_remaining"]

# From taking a stretch to its first picture: an engine starts and decodes from a keyframe on.
_START_US: Final = 600_000


class SpanPace(msgspec.Struct, frozen=True):
    """A stretch: its cost and what of it is done, when it was begun and last written down.

    `state` is running or done; any other one waits, and its times say nothing.
    """

    state: str
    cost: int
    done: int = 0
    begun_us: int = 0
    changed_us: int = 0

    @property
    def busy_us(self) -> int:
        """How long what is done of it took, but for the start."""
        return max(0, self.changed_us - self.begun_us - _START_US) if self.done else 0

    def remaining_us(self, pace: float, now_us: int) -> float:
        """Return how long it will still take where a piece of its cost takes `pace`."""
        left = max(0, self.cost - self.done) * pace
        if self.state != "running":
            return _START_US + left
        if not self.done:
            return max(0, _START_US - max(0, now_us - self.begun_us)) + left
        return max(0.0, left - max(0, now_us - self.changed_us))


def seconds_remaining(spans: Sequence[SpanPace], now_us: int, *, idle_workers: int = 0) -> int:
    """Return the seconds until all are done, 0 where nothing is known yet.

    `spans` are in the order in which they are taken; `free` workers beside those of the stretches
    that run are about to take one.
    """
    taken = [each for each in spans if each.state in ("running", "done")]
    work, busy = sum(each.done for each in taken), sum(each.busy_us for each in taken)
    if not work or not busy:
        return 0
    pace = busy / work
    workers = [each.remaining_us(pace, now_us) for each in taken if each.state == "running"]
    workers += [0.0] * idle_workers
    workers = workers or [0.0]
    heapq.heapify(workers)
    for each in spans:
        if each.state not in ("running", "done"):
            heapq.heapreplace(workers, workers[0] + each.remaining_us(pace, now_us))
    return round(max(workers) / MICROSECONDS)
