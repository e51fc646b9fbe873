"""The bench of the origin, from end to end and without its peer: the answers, not the time."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench.origin import parked
from bench.origin.load import KINDS, RequestKind, check, kinds
from bench.origin.report import missed, table
from bench.origin.servers import Broken, Published, Serving
from tests.support.e2e.service import SCALE

ROOT = Path(__file__).parents[2]
DEADLINE = 120 * SCALE  # seconds; 20 on an idle machine


@pytest.mark.prove
def test_all_kinds_of_requests_are_answered_rightly_and_counted() -> None:
    assert shutil.which("wrk"), "apt-get install --no-install-recommends wrk"
    completed = subprocess.run(
        [sys.executable, "-m", "bench.origin", "--seconds=1", "--rounds=1", "--only-ours"],
        cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE, check=False,
    )  # fmt: skip
    assert completed.returncode == 0, completed.stdout + completed.stderr
    rows = re.findall(r"^\| ([a-z ]+) \| ([0-9]+) \(", completed.stdout, re.MULTILINE)
    assert [name for name, _ in rows] == list(KINDS)
    assert all(int(count) > 0 for _, count in rows)


def test_a_ratio_below_its_target_is_reported() -> None:
    requests = kinds(Published(Path(), "p", "l", "s"))
    names = [kind.name for kind in requests]
    figures = {
        "ours": {name: [10.0, 30.0, 20.0] for name in names},
        "nginx": {name: [25.0] for name in names},
    }
    assert missed(figures, requests) == ["segment: 0.80 of nginx, less than 1.00"]
    assert "| segment | 20 (10 to 30) | 25 (25 to 25) | 0.80 | >= 1.00 |" in table(
        figures, requests
    )
    assert missed({"ours": figures["ours"]}, requests) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_is_not_there_is_no_result(kind: str) -> None:
    published = Published(Path(), "p", "l", "s")
    requests: list[RequestKind] = [each for each in kinds(published) if each.name == kind]
    with pytest.raises(Broken, match="no answer"):
        check(Serving(9, 0), requests[0], published)


@pytest.mark.parametrize("server", ["ours", "plain"])
def test_parked_requests_are_all_answered_in_each_round(server: str) -> None:
    figures = parked.measure(server, 50)
    assert len(figures.median_ms) == len(figures.last_ms) == len(figures.answering_cpu) == 3
    assert all(
        0 < median <= last for median, last in zip(figures.median_ms, figures.last_ms, strict=True)
    )
    assert f"| memory of each, bytes | {figures.memory / 50:.0f} |" in parked.table(
        {server: figures}
    )


def test_a_late_answer_and_a_large_connection_are_reported() -> None:
    figures = parked.ParkedFigures(10, [200.0, 400.0, 301.0], [900.0, 1001.0], 130_000, [], [])
    assert parked.missed(figures) == [
        "301 ms to the median answer, more than 300",
        "1001 ms to the last answer, more than 1000",
        "13000 bytes for each parked request, more than 12000",
    ]
