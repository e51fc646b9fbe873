"""How `make test` spreads the tests over processes: the order of work for pytest-xdist.

A file is one piece of work, as its tests share what was costly to start. Half of the processes
prefer files that run whole services and browsers, which mostly wait; the other half prefer those
that compute; so both kinds are always under way and no core idles. Within a kind the longest
files go first, so that all processes end at about the same time. How long a file takes is in
`tests/durations.json` (seconds; files below `_LEAST` are not listed), which a run under the
variable HEADEND_TEST_DURATIONS writes anew.
"""

import json
from collections import Counter, OrderedDict
from pathlib import Path
from typing import Final

from xdist.scheduler.loadscope import LoadScopeScheduling
from xdist.workermanage import WorkerController

__all__ = ["DURATIONS", "Spread", "write_durations"]

DURATIONS: Final = Path(__file__).parents[1] / "durations.json"
_LEAST: Final = 2.0  # seconds
_SECONDS_OF_A_TEST: Final = 0.1  # in a file that is not listed
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
        number = int(node.gateway.id.removeprefix("gw"))
        wants_services = number < self.numnodes // 2
        costs = _costs(self.workqueue)
        preferred = [file for file in costs if file.startswith(_OF_SERVICES) == wants_services]
        return max(preferred or costs, key=lambda file: costs[file])

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.split("::", 1)[0]

    def _reschedule(self, node: WorkerController) -> None:
        # A process runs its last test only when it knows what comes next: two are enough.
        if self.workqueue and self._pending_of(self.assigned_work[node]) > 1:
            return
        super()._reschedule(node)


def _costs(queue: "OrderedDict[str, dict[str, bool]]") -> dict[str, float]:
    known: dict[str, float] = json.loads(DURATIONS.read_text()) if DURATIONS.exists() else {}
    return {
        file: known.get(file, min(_LEAST, len(tests) * _SECONDS_OF_A_TEST))
        for file, tests in queue.items()
    }


def write_durations(seconds: Counter[str]) -> None:
    """Keep how long each file took."""
    listed = {file: round(took) for file, took in sorted(seconds.items()) if took >= _LEAST}
    DURATIONS.write_text(json.dumps(listed, indent=1) + "\n")
