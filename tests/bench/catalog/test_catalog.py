"""The bench of the catalog, from end to end on a short list: the tables, not the time."""

import re
import subprocess
import sys
from pathlib import Path

from bench.catalog.__main__ import costs, waits
from bench.catalog.measure import Figures
from bench.catalog.ways import WAYS
from tests.support.e2e.service import SCALE

ROOT = Path(__file__).parents[3]


def test_the_command_prints_a_row_for_each_transaction_and_way() -> None:
    completed = subprocess.run(
        [sys.executable, "-m", "bench.catalog", "--quick", "--videos", "300"],
        cwd=ROOT, capture_output=True, text=True, timeout=60 * SCALE, check=False,
    )  # fmt: skip
    assert completed.returncode == 0, completed.stdout + completed.stderr
    figures = r"^\| [^|]+( \| \d+, \d+, [\d.]+){3} \|$"
    assert len(re.findall(figures, completed.stdout, re.MULTILINE)) == 6
    waited = re.findall(
        r"^\| ([^|]+)(?: \| [\d.]+ \([^|]+\)){3} \|$", completed.stdout, re.MULTILINE
    )
    assert waited == list(WAYS)


def test_costs_are_medians_and_compared_within_a_round() -> None:
    ways = {way: [100.0, 300.0, 200.0] for way in WAYS} | {WAYS[1]: [50.0, 900.0, 100.0]}
    assert "| read | 200, 5000, 1.00 | 100, 10000, 0.50 | 200" in costs(
        Figures(cpu_us={"read": ways})
    )


def test_waits_are_medians() -> None:
    values = {way: [3.0, 1.0, 2.25] for way in WAYS}
    table = waits(Figures(hold_up_ms=values, turn_cpu_ms=values, wait_ms=values))
    assert f"| {WAYS[0]}{3 * ' | 2.2 (1.0 to 3.0)'} |" in table
