"""The whole command: an encoder, Headend, nginx-rtmp and Chromium, for some seconds of each."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Proof
from tests.support.waiting import SCALE

pytestmark = [pytest.mark.e2e, pytest.mark.prove]

ROOT = Path(__file__).parents[3]
DEADLINE = 300 * SCALE  # seconds; 90 on an idle machine


def test_what_viewers_see_is_measured_beside_nginx(proof: Proof) -> None:
    command = [sys.executable, "-m", "bench.latency", "--modes", "low", "nginx"]
    done = subprocess.run(
        [*command, "--profiles", "fast", "--minutes", "0.35"],
        cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE, check=False,
    )  # fmt: skip
    assert done.returncode in {0, 1}, done.stderr
    found = re.findall(r"^\| (\S+), .*?\| ([0-9.]+) s \|", done.stdout, re.MULTILINE)
    assert [name for name, _ in found] == ["Headend", "nginx-rtmp"], done.stdout
    ours, theirs = (float(seconds) for _, seconds in found)
    proof("glass to glass on the page, beside nginx-rtmp", f"{ours:.2f} s", f"nginx {theirs:.2f} s")
    assert 0.1 < ours < 30, done.stdout
    assert 0.1 < theirs < 30, done.stdout
