"""Decides which rungs are encoded when the machine cannot encode all of them.

Pure; called about once a second. A run that falls behind sheds rungs, the costliest first, until
the rest fits into the CPU that its engine gets. Each run is decided for itself: if all get too
little, each sheds its own share. A rung returns when the machine has had idle cores for it for a
while, the cheapest first, one at a time over all runs. A rung that is shed again soon after its
return waits twice as long the next time. A run that is behind, or that waits longer, does not delay
the others' rungs: the idle cores alone determine what there is room for.

Costs and idle CPU are in cores: CPU seconds for a second of media, or of the clock.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

# A healthy run is 0.5 to 1.5 s behind its publisher: part, lookahead, one report a second.
NORMAL_LAG_SECONDS: Final = 1.5
# Players are 6 s and more behind the newest segment, and a decision takes time to have effect.
MAX_LAG_SECONDS: Final = 3.0
# The lag is predicted this far ahead at the present pace.
FORESIGHT_SECONDS: Final = 4.0
# Below this pace a run does not catch up.
KEEPING_PACE: Final = 1.02
# A rung ends at the next cut, after what the engine has already read, so a decision takes this long
# to have effect. A run with an urgent lag does not wait for it.
SETTLE_SECONDS: Final = 6.0
URGENT_LAG_SECONDS: Final = 7.0
# What is shed must also make up for the lag.
SHED_FACTOR: Final = 1.15
# A rung returns once 1.25 times its cost has been idle for this long.
ROOM_FACTOR: Final = 1.25
ROOM_SECONDS: Final = 10.0
MOST_ROOM_SECONDS: Final = 320.0
# A rung that is shed within this time of its return had returned too soon.
RETURN_SECONDS: Final = 60.0


class RunLoad(msgspec.Struct, frozen=True, kw_only=True):
    """The load of one run.

    `lag` is how far its newest media are behind its publisher, in seconds; `pace` is how many
    seconds of media it makes in a second; `cores` is the CPU that its engine gets. `costs` holds
    the cost of each encoded rung by name, including the rungs that are `off`. `min_rungs` encoded
    rungs must stay: one, or none if the source's own packets are the top rung.
    """

    stream: str
    lag: float
    pace: float
    cores: float
    costs: dict[str, float]
    off: frozenset[str]
    min_rungs: int

    @property
    def is_behind(self) -> bool:
        """True if the run is too far behind, or soon will be at its present pace."""
        return self.lag + FORESIGHT_SECONDS * max(0.0, 1 - self.pace) > MAX_LAG_SECONDS


class _RunHistory(msgspec.Struct):
    """When a run's rungs changed last, when one returned, and how long the next one waits.

    `room_since` is from when on there has been room for the run's next rung, None if there is none.
    """

    changed: float
    returned: float | None = None
    patience: float = ROOM_SECONDS
    room_since: float | None = None


class LoadShedder:
    """Decides for all runs of a machine; `now` is in seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._histories: dict[str, _RunHistory] = {}

    def decide(
        self, now: float, runs: Sequence[RunLoad], idle_cores: float
    ) -> dict[str, frozenset[str]]:
        """Return the rungs to turn off, by stream, for the runs for which they change."""
        streams = {run.stream for run in runs}
        for stream in set(self._histories) - streams:
            del self._histories[stream]
        changes = {run.stream: off for run in runs if (off := self._shed(now, run)) is not None}
        unchanged = [run for run in runs if run.stream not in changes]
        return changes | self._return(now, unchanged, idle_cores)

    def _shed(self, now: float, run: RunLoad) -> frozenset[str] | None:
        on = sorted(
            (name for name in run.costs if name not in run.off), key=lambda name: -run.costs[name]
        )
        if not run.is_behind or run.pace >= KEEPING_PACE or len(on) <= run.min_rungs:
            return None
        history = self._histories.get(run.stream)
        if history is not None:
            since = now - history.changed
            if since < SETTLE_SECONDS and not (since >= 2.0 and run.lag > URGENT_LAG_SECONDS):
                return None
        # At this pace the engine would need cores / pace to make all its rungs.
        missing = SHED_FACTOR * run.cores * (1 / max(run.pace, 0.05) - 1)
        off = set(run.off)
        for name in on[: len(on) - run.min_rungs]:
            off.add(name)
            missing -= run.costs[name]
            if missing <= 0:
                break
        self._record_shed(now, run.stream)
        return frozenset(off)

    def _record_shed(self, now: float, stream: str) -> None:
        history = self._histories.setdefault(stream, _RunHistory(changed=now))
        history.changed, history.room_since = now, None
        if history.returned is not None and now - history.returned < RETURN_SECONDS:
            history.patience = min(2 * history.patience, MOST_ROOM_SECONDS)
        history.returned = None

    def _return(
        self, now: float, runs: Sequence[RunLoad], idle_cores: float
    ) -> dict[str, frozenset[str]]:
        """Return the run, if any, that gets a rung back now, and the rungs that stay off.

        Each return takes up room, so afterwards every run waits for its own anew.
        """
        ready: list[tuple[float, str, frozenset[str]]] = []
        for run in runs:
            waiting = [(run.costs[name], name) for name in run.off if name in run.costs]
            if not waiting:
                continue
            cost, name = min(waiting)
            history = self._histories.setdefault(run.stream, _RunHistory(changed=now))
            if run.is_behind or idle_cores < ROOM_FACTOR * cost:
                history.room_since = None
                continue
            if history.room_since is None:
                history.room_since = now
            if now - max(history.room_since, history.changed) >= history.patience:
                ready.append((cost, run.stream, run.off - {name}))
        if not ready:
            return {}
        _, stream, off = min(ready, key=lambda entry: entry[:2])
        for history in self._histories.values():
            history.room_since = None
        history = self._histories[stream]
        history.changed = history.returned = now
        return {stream: off}
