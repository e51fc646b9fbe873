"""The bench of the origin, from end to end and without its peer: the answers, not the time."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench.origin.load import KINDS, Kind, check, kinds
from bench.origin.report import missed, table
from bench.origin.servers import Broken, Published, Serving
from tests.support.e2e.service import SCALE

ROOT = Path(__file__).parents[2]
DEADLINE = 120 * SCALE  # seconds; 20 on an idle machine


def test_all_kinds_of_requests_are_answered_rightly_and_counted() -> None:
    assert shutil.which("wrk"), "apt-get install --no-install-recommends wrk"
    done = subprocess.run(
        [sys.executable, "-m", "bench.origin", "--quick", "--only-ours"],
        cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    rows = re.findall(r"^\| ([a-z ]+) \| ([0-9]+) \(", done.stdout, re.MULTILINE)
    assert [name for name, _ in rows] == list(KINDS)
    assert all(int(count) > 0 for _, count in rows)


def test_a_ratio_below_its_target_is_told() -> None:
    asked = kinds(Published(Path(), "p", "l", "s"))
    names = [kind.name for kind in asked]
    figures = {
        "ours": {name: [10.0, 30.0, 20.0] for name in names},
        "nginx": {name: [25.0] for name in names},
    }
    assert missed(figures, asked) == ["segment: 0.80 of nginx, less than 1.00"]
    assert "| segment | 20 (10 to 30) | 25 (25 to 25) | 0.80 | >= 1.00 |" in table(figures, asked)
    assert missed({"ours": figures["ours"]}, asked) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_is_not_there_is_no_result(kind: str) -> None:
    published = Published(Path(), "p", "l", "s")
    asked: list[Kind] = [each for each in kinds(published) if each.name == kind]
    with pytest.raises(Broken, match="no answer"):
        check(Serving(9, 0), asked[0], published)
