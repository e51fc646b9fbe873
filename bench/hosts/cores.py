"""Hosts pinned to cores, and how much CPU time they, their servers and the rest take.

CPU times are in seconds; those of ended processes count for the process that waited for them.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from bench.ingest.processes import process_tree

_TICK: Final = 1 / os.sysconf("SC_CLK_TCK")
# Of /proc/stat: user, nice and system, and of a virtual machine's softirq: not idle, not waiting.
_BUSY: Final = (0, 1, 2, 5, 6)

T = TypeVar("T")


def pinned(starts: Iterable[Callable[[], T]]) -> list[T]:
    """Call each beside the others, the first on core 0, the next on core 1: children stay there."""

    def on(core: int, start: Callable[[], T]) -> T:
        os.sched_setaffinity(0, {core})  # of this thread, and of what it starts
        return start()

    with ThreadPoolExecutor() as threads:
        started = [threads.submit(on, core, start) for core, start in enumerate(starts)]
        return [each.result() for each in started]


def confine(pids: Iterable[int], cores: Iterable[int]) -> None:
    """Let processes, their descendants and what they start from now on run on these cores alone."""
    allowed = set(cores)
    for pid in pids:
        for process in process_tree(pid):
            for task in Path(f"/proc/{process}/task").iterdir():
                with suppress(ProcessLookupError):  # it has ended
                    os.sched_setaffinity(int(task.name), allowed)


def _tree_seconds(pid: int) -> float:
    """Return the CPU time of a process and its descendants, ended ones too."""
    return sum(map(_with_ended, process_tree(pid)))


def _with_ended(pid: int) -> float:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    fields = text.rpartition(")")[2].split()  # the first is the state, the third field of all
    return sum(map(int, fields[11:15])) * _TICK


class Spent(msgspec.Struct, frozen=True):
    """CPU times: of hosts, of what they need (servers, clients, this process), and of strangers.

    `strangers` is the CPU time of unrelated processes, which should be close to 0.
    """

    hosts: float
    servers: float
    strangers: float


class SpentMeter:
    """Counts from now on; `servers` are processes whose descendants may be `hosts`, too."""

    def __init__(self, hosts: Sequence[int], servers: Sequence[int]) -> None:
        self._hosts = hosts
        self._servers = servers
        self._before = self._now()

    def _now(self) -> tuple[float, float, float]:
        hosts, all_ours = (sum(map(_tree_seconds, each)) for each in (self._hosts, self._servers))
        return hosts, all_ours, _busy_seconds()

    def read(self) -> Spent:
        """Return what was spent since the beginning."""
        hosts, all_ours, busy = (b - a for a, b in zip(self._before, self._now(), strict=True))
        return Spent(hosts, all_ours - hosts, max(0.0, busy - all_ours))


def _busy_seconds() -> float:
    """Return the CPU time of everything on this machine since it started."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    return sum(int(fields[each]) for each in _BUSY) * _TICK
