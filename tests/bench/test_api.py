"""The bench of long lists, from end to end on a short one: the answers, not the time."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench.api.__main__ import LEAST, missed, table
from tests.support.e2e.service import SCALE

ROOT = Path(__file__).parents[2]


@pytest.mark.prove
def test_both_servers_answer_the_same_and_are_counted() -> None:
    assert shutil.which("wrk"), "apt-get install --no-install-recommends wrk"
    completed = subprocess.run(
        [sys.executable, "-m", "bench.api", "--quick", "--rounds", "1", "--videos", "5000"],
        cwd=ROOT, capture_output=True, text=True, timeout=120 * SCALE, check=False,
    )  # fmt: skip
    # On a busy machine the target may be missed; a wrong answer has no table.
    rows = re.findall(r"^\| (the [a-z ]+) \| ([0-9]+) \(", completed.stdout, re.MULTILINE)
    assert [name for name, _ in rows] == ["the first page", "the hundredth page"], (
        completed.stdout + completed.stderr
    )
    assert all(int(count) > 0 for _, count in rows)


@pytest.mark.parametrize(("ours", "said"), [(49.0, True), (51.0, False)])
def test_a_ratio_below_its_target_is_reported(ours: float, *, said: bool) -> None:
    figures = {"ours": {"page": [ours]}, "byhand": {"page": [100.0]}}
    assert bool(missed(figures)) is said
    assert f"| {ours / 100:.2f} | >= {LEAST} |" in table(figures)
