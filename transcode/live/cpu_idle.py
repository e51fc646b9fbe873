"""The idle CPU of the machine, from the kernel's counters.

Source: proc(5) for /proc/stat; the kernel's cgroup-v2 document for cpu.max and cpu.stat.
"""

import os
from pathlib import Path
from typing import Final

_STAT: Final = Path("/proc/stat")
_IDLE, _IOWAIT, _FIELDS = 3, 4, 8  # user nice system idle iowait irq softirq steal
_OWN_GROUP: Final = Path("/proc/self/cgroup")
_GROUPS: Final = Path("/sys/fs/cgroup")


class IdleMeter:
    """Measures idle cores between two calls; a control group's quota bounds them.

    Where the counters cannot be read (another kernel, a sealed container) the machine counts as
    busy, so that rungs that were shed stay off.
    """

    def __init__(self) -> None:
        self._ticks = _ticks()
        self._used = _group_used()

    def idle(self, seconds: float) -> float:
        """Return the cores that were idle in the `seconds` since the last call."""
        ticks_before, self._ticks = self._ticks, _ticks()
        used_before, self._used = self._used, _group_used()
        if ticks_before is None or self._ticks is None or seconds <= 0:
            return 0.0
        elapsed = [new - old for new, old in zip(self._ticks, ticks_before, strict=True)]
        total = sum(elapsed)
        if total <= 0:
            return 0.0
        idle = (elapsed[_IDLE] + elapsed[_IOWAIT]) / total * (os.cpu_count() or 1)
        quota = _group_quota()
        if quota is None or used_before is None or self._used is None:
            return idle
        return max(0.0, min(idle, quota - (self._used - used_before) / seconds))


def _ticks() -> tuple[int, ...] | None:
    try:
        line = _STAT.read_text().partition("\n")[0].split()
    except OSError:
        return None
    return tuple(int(field) for field in line[1 : 1 + _FIELDS]) if line[:1] == ["cpu"] else None


def _group() -> Path | None:
    """Return the folder of this process's control group (version 2), if it has one."""
    try:
        lines = _OWN_GROUP.read_text().splitlines()
    except OSError:
        return None
    path = next((line.removeprefix("0::") for line in lines if line.startswith("0::")), None)
    return _GROUPS / path.lstrip("/") if path is not None else None


def _group_quota() -> float | None:
    """Return the number of cores that the group may use, or None if no quota is set."""
    group = _group()
    try:
        quota, period = (group / "cpu.max").read_text().split() if group is not None else ("max", 1)
    except (OSError, ValueError):
        return None
    return None if quota == "max" else int(quota) / int(period)


def _group_used() -> float | None:
    """Return the CPU seconds that the group has used, or None if they cannot be read."""
    group = _group()
    try:
        lines = (group / "cpu.stat").read_text().splitlines() if group is not None else []
    except OSError:
        return None
    used = next((line.split()[1] for line in lines if line.startswith("usage_usec ")), None)
    return int(used) / 1e6 if used is not None else None
