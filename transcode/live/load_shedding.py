"""Which rungs are made when the machine cannot make all of them: pure, asked about once a second.

A run that falls behind loses rungs, the costliest first, until what is left fits into the CPU that
it gets. Each run looks after itself: where all of them get too little, each gives up its own share.
What was shed comes back when the machine has had room for it for a while, the cheapest first, one
at a time over all runs; a rung that had to go again soon after waits twice as long the next time.

Costs and room are cores: seconds of CPU for a second of media, or for a second of the clock.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

__all__ = ["IN_TIME_SECONDS", "KEEPING_PACE", "Governor", "RunLoad"]

# A run's media are 0.5 to 1.5 s behind its encoder when all is well: part, lookahead, a report each
# second.
IN_TIME_SECONDS: Final = 1.5
# Players are 6 s and more behind the newest segment, and what is decided needs time.
LATE_SECONDS: Final = 3.0
# So far ahead it is asked where the present pace leads.
FORESIGHT_SECONDS: Final = 4.0
# Below it a run does not catch up.
KEEPING_PACE: Final = 1.02
# A rung goes at the next cut, behind what the engine has taken in: that long one decision takes
# until it shows. Who is much later still does not wait for that.
SETTLE_SECONDS: Final = 6.0
VERY_LATE_SECONDS: Final = 7.0
# What is shed must make good for what was missed, too.
SHED_FACTOR: Final = 1.15
# A rung comes back where its cost and a quarter of it have been idle for this long.
ROOM_FACTOR: Final = 1.25
ROOM_SECONDS: Final = 10.0
MOST_ROOM_SECONDS: Final = 320.0
# A rung that is shed within this time of its return came back too soon.
RETURN_SECONDS: Final = 60.0


class RunLoad(msgspec.Struct, frozen=True, kw_only=True):
    """How a run stands.

    `late` is how far its newest media are behind its encoder, in seconds, and `pace` how many
    seconds of media it makes in one of the clock; `cores` is the CPU that its engine gets. `costs`
    are those of its encoded rungs by name, what is off included, `off` what is off, and `least` how
    many encoded rungs must stay: one, unless the source's own packets make the top rung.
    """

    stream: str
    late: float
    pace: float
    cores: float
    costs: dict[str, float]
    off: frozenset[str]
    least: int

    @property
    def is_late(self) -> bool:
        """Whether it is too far behind, or soon will be at its present pace."""
        return self.late + FORESIGHT_SECONDS * max(0.0, 1 - self.pace) > LATE_SECONDS


class _Memory(msgspec.Struct):
    """What is kept of a run between two questions."""

    changed: float
    returned: float | None = None
    patience: float = ROOM_SECONDS


class Governor:
    """Decides for all runs of a machine; `now` is in seconds of a clock that never goes back."""

    def __init__(self) -> None:
        self._memories: dict[str, _Memory] = {}
        self._room_since: float | None = None

    def decide(
        self, now: float, runs: Sequence[RunLoad], idle_cores: float
    ) -> dict[str, frozenset[str]]:
        """Return what is to be off in the runs for which that changes."""
        known = {run.stream for run in runs}
        for gone in set(self._memories) - known:
            del self._memories[gone]
        changes = {run.stream: off for run in runs if (off := self._shed(now, run)) is not None}
        if changes or any(run.is_late for run in runs):
            self._room_since = None
            return changes
        back = self._return(now, runs, idle_cores)
        return {} if back is None else {back[0]: back[1]}

    def _shed(self, now: float, run: RunLoad) -> frozenset[str] | None:
        on = sorted(
            (name for name in run.costs if name not in run.off), key=lambda name: -run.costs[name]
        )
        if not run.is_late or run.pace >= KEEPING_PACE or len(on) <= run.least:
            return None
        memory = self._memories.get(run.stream)
        if memory is not None:
            since = now - memory.changed
            if since < SETTLE_SECONDS and not (since >= 2.0 and run.late > VERY_LATE_SECONDS):
                return None
        # At this pace the engine would need cores / pace for all that it makes.
        missing = SHED_FACTOR * run.cores * (1 / max(run.pace, 0.05) - 1)
        off = set(run.off)
        for name in on[: len(on) - run.least]:
            off.add(name)
            missing -= run.costs[name]
            if missing <= 0:
                break
        self._note_shed(now, run.stream)
        return frozenset(off)

    def _note_shed(self, now: float, stream: str) -> None:
        memory = self._memories.setdefault(stream, _Memory(changed=now))
        memory.changed = now
        if memory.returned is not None and now - memory.returned < RETURN_SECONDS:
            memory.patience = min(2 * memory.patience, MOST_ROOM_SECONDS)
        memory.returned = None

    def _return(
        self, now: float, runs: Sequence[RunLoad], idle_cores: float
    ) -> tuple[str, frozenset[str]] | None:
        waiting = [
            (run.costs.get(name, 0.0), run.stream, name, run)
            for run in runs
            for name in run.off
            if name in run.costs
        ]
        if not waiting:
            self._room_since = None
            return None
        cost, stream, name, run = min(waiting, key=lambda entry: entry[:3])
        if idle_cores < ROOM_FACTOR * cost:
            self._room_since = None
            return None
        self._room_since = now if self._room_since is None else self._room_since
        memory = self._memories.setdefault(stream, _Memory(changed=now))
        patience = max(ROOM_SECONDS, memory.patience)
        if now - self._room_since < patience or now - memory.changed < patience:
            return None
        self._room_since = None
        memory.changed = memory.returned = now
        return stream, run.off - {name}
