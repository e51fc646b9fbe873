"""How many more streams a machine has room for, judged by those that it makes now. Pure.

Costs and idle CPU are in cores. Without a stream on air nothing is known: what one costs depends on
its size and on the machine.
"""

from collections.abc import Sequence
from typing import Final

from transcode.live.load_shedding import ROOM_FACTOR, RunLoad

__all__ = ["RoomMeter"]

# Weight of the newest second: a burst of some seconds changes little, a minute counts whole.
_WEIGHT: Final = 1 / 20


class RoomMeter:
    """Averages what is idle and what streams cost; told once a second."""

    def __init__(self) -> None:
        self._idle: float | None = None
        self._cost: float | None = None
        self._shedding = False

    def note(self, loads: Sequence[RunLoad], idle_cores: float) -> None:
        """Note the loads of the runs on air, and the cores that were idle meanwhile."""
        self._idle = _mean(self._idle, idle_cores)
        self._shedding = any(load.off or load.is_behind for load in loads)
        cost = sum(load.cores for load in loads) / len(loads) if loads else None
        self._cost = None if cost is None else _mean(self._cost, cost)

    @property
    def more(self) -> int | None:
        """So many more streams have room, each like the mean of those on air; None: unknown."""
        if self._idle is None or not self._cost:
            return None
        return 0 if self._shedding else int(self._idle / (ROOM_FACTOR * self._cost))


def _mean(before: float | None, now: float) -> float:
    return now if before is None else before + (now - before) * _WEIGHT
