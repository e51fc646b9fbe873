"""In which order and process the tests of `make test` run (`tests.support.crew`).

The unit of work is a file, whose tests share expensive fixtures; all files that use the S3 server
form one unit. Two of four processes prefer units that run whole services and browsers, which mostly
wait for media in real time; the others prefer CPU-bound units, at a lower priority
(`prefers_services`), so that no core idles. Within each kind the longest units run first, so that
all processes end at about the same time. The expected seconds per file are in
`tests/durations.json` (files below `_LEAST` are not listed); a run with the environment variable
HEADEND_TEST_DURATIONS rewrites it. The parts of `make proofs` are balanced in the same way with
`tests/durations-of-proofs.json`.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

_DURATIONS: Final = Path(__file__).parents[1] / "durations.json"
_DURATIONS_OF_PROOFS: Final = _DURATIONS.with_name("durations-of-proofs.json")
_LEAST: Final = 2.0  # seconds
_SECONDS_OF_A_TEST: Final = 0.1  # in a file that is not listed
_SECONDS_WITH_A_SERVICE: Final = 15.0  # the same, in a file that runs whole services
_SECONDS_OF_A_PROOF: Final = 25
_OF_SERVICES: Final = (
    "tests/e2e/",
    "tests/systemd/",
    "tests/web/",
    "tests/api/uploads/test_single_request_large.py",
)
# The S3 server uses seconds of CPU to start, and more while it runs.
_WITH_BUCKETS: Final = "tests/e2e/ and others, with buckets"
USE_BUCKETS: Final = (
    "tests/api/origin/test_store_requests.py",
    "tests/api/uploads/test_receiver_over_hosts.py",
    "tests/e2e/test_api_hosts.py",
    "tests/e2e/test_bucket.py",
    "tests/e2e/test_cdn.py",
    "tests/e2e/test_gone_hosts.py",
    "tests/e2e/test_hosts.py",
    "tests/e2e/test_hosts_failing.py",
    "tests/e2e/test_killed_changes.py",
    "tests/e2e/test_trash.py",
    "tests/e2e/test_uploads_over_hosts.py",
    "tests/headend/install/test_cdn_check.py",
    "tests/headend/install/test_media_copy.py",
    "tests/headend/install/test_media_store.py",
    "tests/headend/install/test_restore.py",
    "tests/headend/roles/test_origin_role_cdn.py",
    "tests/storage/backups/test_lock.py",
    "tests/storage/cleanup/test_orphans_in_bucket.py",
    "tests/storage/cleanup/test_store_clock.py",
    "tests/storage/cleanup/test_withdrawn_copies.py",
    "tests/storage/objects/",
)


def prefers_services(process: int) -> bool:
    """Return whether a process of the run prefers units that mostly wait."""
    return process % 4 in (0, 2)


class Spread:
    """Gives each process the longest remaining unit of the kind that it prefers."""

    def __init__(self, nodeids: Sequence[str]) -> None:
        tests: dict[str, list[int]] = defaultdict(list)
        for index, nodeid in enumerate(nodeids):
            tests[_unit(nodeid)].append(index)
        costs = _costs(Counter(map(_file, nodeids)))
        seconds: dict[str, float] = defaultdict(float)
        for file, cost in costs.items():
            seconds[_unit(file)] += cost
        self._units = sorted(tests.items(), key=lambda unit: -seconds[unit[0]])

    def next_for(self, process: int) -> Sequence[int]:
        """Return the indices of the next tests for a process; none if all were given out."""
        wants_services = prefers_services(process)
        for place, (unit, _) in enumerate(self._units):
            if unit.startswith(_OF_SERVICES) == wants_services:
                return self._units.pop(place)[1]
        return self._units.pop(0)[1] if self._units else ()


def _unit(nodeid: str) -> str:
    file = _file(nodeid)
    return _WITH_BUCKETS if file.startswith(USE_BUCKETS) else file


def _costs(counts: Mapping[str, int]) -> dict[str, float]:
    """Return the expected seconds of each file, given its number of tests."""
    seconds = _read_durations(_DURATIONS)
    return {file: seconds.get(file, _guess(file, count)) for file, count in counts.items()}


def _read_durations(durations: Path) -> dict[str, float]:
    return json.loads(durations.read_text()) if durations.exists() else {}


def _guess(file: str, count: int) -> float:
    if file.startswith(_OF_SERVICES):
        return count * _SECONDS_WITH_A_SERVICE
    return min(_LEAST, count * _SECONDS_OF_A_TEST)


def part_of(items: list[pytest.Item], number: int, count: int) -> list[pytest.Item]:
    """Return one of `count` parts of about the same length, each consisting of whole files."""
    seconds = _read_durations(_DURATIONS_OF_PROOFS)
    counts = Counter(_file(item.nodeid) for item in items)
    costs = {file: seconds.get(file, _SECONDS_OF_A_PROOF * many) for file, many in counts.items()}
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


def write_durations(seconds: Mapping[str, float], *, proofs: bool) -> None:
    """Write how long each file took; for proofs, keep the entries of files that did not run."""
    if proofs:
        merged = _read_durations(_DURATIONS_OF_PROOFS) | {
            file: round(each) for file, each in seconds.items()
        }
        _write(_DURATIONS_OF_PROOFS, merged)
    else:
        _write(_DURATIONS, {file: round(each) for file, each in seconds.items() if each >= _LEAST})


def _write(durations: Path, seconds: Mapping[str, float]) -> None:
    durations.write_text(json.dumps(seconds, indent=1, sort_keys=True) + "\n")
