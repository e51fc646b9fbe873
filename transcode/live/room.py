"""How many more streams a machine has room for, judged by those that it transcodes. Pure.

Costs and idle CPU are in cores. What a stream costs depends on its size and on the machine: those
on air are the best measure, those that were on air last the next best. Before the first one there
is a rule of thumb.
"""

from collections.abc import Sequence
from typing import Final, Literal

from transcode.live.load_shedding import ROOM_FACTOR, RunLoad

# `running`: the streams on air; `before`: those that were on air last; `usual`: a stream of 1080p
# at 30 pictures a second with the standard resolutions.
RoomBasis = Literal["running", "before", "usual"]

# bench.ladder: 17 to 20 CPU seconds for 20 s of 1080p30, its packets kept as the top rendition and
# three encoded below it (docs/benches.md).
USUAL_CORES: Final = 1.0
# Weight of the newest second: a burst of some seconds changes little, a minute counts whole.
_WEIGHT: Final = 1 / 20


class RoomMeter:
    """Averages the idle cores and the cost of a stream; updated once a second."""

    def __init__(self) -> None:
        self.basis: RoomBasis = "usual"
        """What `more` is based on."""
        self._idle: float | None = None
        self._cost = USUAL_CORES
        self._shedding = False

    def note(self, loads: Sequence[RunLoad], idle_cores: float) -> None:
        """Note the loads of the runs on air, and the cores that were idle meanwhile."""
        self._idle = _mean(self._idle, idle_cores)
        self._shedding = any(load.off or load.is_behind for load in loads)
        cost = sum(load.cores for load in loads) / len(loads) if loads else 0.0
        # A run that has just begun has no cost yet.
        if cost:
            self._cost = _mean(self._cost if self.basis == "running" else None, cost)
            self.basis = "running"
        elif self.basis == "running" and not loads:
            self.basis = "before"

    @property
    def more(self) -> int | None:
        """How many more streams have room, each like the mean of the `basis`; None: unknown."""
        if self._idle is None:
            return None
        return 0 if self._shedding else int(self._idle / (ROOM_FACTOR * self._cost))


def _mean(before: float | None, now: float) -> float:
    return now if before is None else before + (now - before) * _WEIGHT
