"""How `make test` spreads the tests over processes: the order of work for pytest-xdist.

A file is one piece of work, as its tests share what was costly to start. Half of the processes
prefer files that run whole services and browsers, which mostly wait; the other half prefer those
that compute; so both kinds are always under way and no core idles. Within a kind the longest
files go first, so that all processes end at about the same time. How long a file takes is in
`tests/durations.json` (seconds; files below `_LEAST` are not listed), which a run under the
variable HEADEND_TEST_DURATIONS writes anew.
"""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling
from xdist.workermanage import WorkerController

__all__ = ["DURATIONS", "Spread", "part_of", "write_durations"]

DURATIONS: Final = Path(__file__).parents[1] / "durations.json"
_LEAST: Final = 2.0  # seconds
_SECONDS_OF_A_TEST: Final = 0.1  # in a file that is not listed
_SECONDS_OF_A_PROOF: Final = 25
_OF_SERVICES: Final = (
    "tests/e2e/",
    "tests/systemd/",
    "tests/web/",
    "tests/api/uploads/test_single_request_large.py",
)


class Spread(LoadScopeScheduling):
    """Gives each process the longest file left of the kind that it prefers."""

    def schedule(self) -> None:
        """Begin with all files, the longest first."""
        self.config.option.loadscopereorder = False
        super().schedule()

    def _assign_work_unit(self, node: WorkerController) -> None:
        chosen = self._next_for(node)
        self.workqueue.move_to_end(chosen, last=False)
        super()._assign_work_unit(node)

    def _next_for(self, node: WorkerController) -> str:
        wants_services = self.nodes.index(node) % 2 == 0
        costs = _costs({file: len(tests) for file, tests in self.workqueue.items()})
        preferred = [file for file in costs if file.startswith(_OF_SERVICES) == wants_services]
        return max(preferred or costs, key=lambda file: costs[file])

    def _split_scope(self, nodeid: str) -> str:
        return _file(nodeid)

    def _reschedule(self, node: WorkerController) -> None:
        # A process runs its last test only when it knows what comes next: two are enough.
        if self.workqueue and self._pending_of(self.assigned_work[node]) > 1:
            return
        super()._reschedule(node)


def _costs(counts: Mapping[str, int]) -> dict[str, float]:
    """Return how many seconds each file is expected to take, of how many tests each has."""
    known: dict[str, float] = json.loads(DURATIONS.read_text()) if DURATIONS.exists() else {}
    return {
        file: known.get(file, min(_LEAST, count * _SECONDS_OF_A_TEST))
        for file, count in counts.items()
    }


def part_of(items: list[pytest.Item], number: int, count: int) -> list[pytest.Item]:
    """Return the tests of one of `count` parts of about the same length, whole files each."""
    costs = _costs(Counter(_file(item.nodeid) for item in items))
    for item in items:
        if item.get_closest_marker("prove"):
            costs[_file(item.nodeid)] += _SECONDS_OF_A_PROOF
    loads = [0.0] * count
    own: set[str] = set()
    for file in sorted(costs, key=lambda file: (-costs[file], file)):
        lightest = loads.index(min(loads))
        loads[lightest] += costs[file]
        if lightest == number - 1:
            own.add(file)
    return [item for item in items if _file(item.nodeid) in own]


def _file(nodeid: str) -> str:
    return nodeid.split("::", 1)[0]


def write_durations(seconds: Mapping[str, float]) -> None:
    """Keep how long each file took."""
    listed = {file: round(took) for file, took in sorted(seconds.items()) if took >= _LEAST}
    DURATIONS.write_text(json.dumps(listed, indent=1) + "\n")
