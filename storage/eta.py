"""Estimate how long the remaining spans of a video will take, from the time spent so far. Pure.

The model assumes that every worker keeps the average pace of all workers and takes the next span
when it finishes one. The last span, which runs while the other workers are idle, is therefore
counted in full. Times are microseconds; work is counted in the spans' cost units.
"""

import heapq
from collections.abc import Sequence
from typing import Final

import msgspec

from media.ticks import MICROSECONDS

# From leasing a span to its first picture: the engine starts and decodes from a keyframe.
_START_US: Final = 600_000


class SpanPace(msgspec.Struct, frozen=True):
    """One span: its cost, the cost done so far, when it began and when it was last recorded.

    `state` is "running" or "done"; any other value means waiting, and the times are then ignored.
    """

    state: str
    cost: int
    done: int = 0
    begun_us: int = 0
    changed_us: int = 0

    @property
    def busy_us(self) -> int:
        """The time spent on the work done so far, without the start-up."""
        return max(0, self.changed_us - self.begun_us - _START_US) if self.done else 0

    def remaining_us(self, us_per_cost: float, now_us: int) -> float:
        """Return the time that is left when one unit of cost takes `us_per_cost`."""
        remaining = max(0, self.cost - self.done) * us_per_cost
        if self.state != "running":
            return _START_US + remaining
        if not self.done:
            return max(0, _START_US - max(0, now_us - self.begun_us)) + remaining
        return max(0.0, remaining - max(0, now_us - self.changed_us))


def seconds_remaining(spans: Sequence[SpanPace], now_us: int, *, idle_workers: int = 0) -> int:
    """Return the seconds until all spans are done, or 0 while no pace is known yet.

    `spans` are in the order in which they are leased. `idle_workers` are workers, besides those of
    the running spans, that are about to lease one.
    """
    begun = [each for each in spans if each.state in ("running", "done")]
    work, busy = sum(each.done for each in begun), sum(each.busy_us for each in begun)
    if not work or not busy:
        return 0
    pace = busy / work
    workers = [each.remaining_us(pace, now_us) for each in begun if each.state == "running"]
    workers += [0.0] * idle_workers
    workers = workers or [0.0]
    heapq.heapify(workers)
    for each in spans:
        if each.state not in ("running", "done"):
            heapq.heapreplace(workers, workers[0] + each.remaining_us(pace, now_us))
    return round(max(workers) / MICROSECONDS)
