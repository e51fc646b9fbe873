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
    completed = subprocess.run(
        # Small pictures, which a slow machine encodes beside the servers and the browser.
        [*command, "--profiles", "fast", "--minutes", "0.35", "--height", "360"],
        cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE, check=False,
    )  # fmt: skip
    assert completed.returncode in {0, 1}, completed.stderr
    rows = re.findall(r"^\| (\S+), .*?\| ([0-9.]+) s \|", completed.stdout, re.MULTILINE)
    assert [name for name, _ in rows] == ["Headend", "nginx-rtmp"], completed.stdout
    headend_seconds, nginx_seconds = (float(seconds) for _, seconds in rows)
    proof(
        "glass to glass on the page at 360p, beside nginx-rtmp",
        f"{headend_seconds:.2f} s",
        f"nginx {nginx_seconds:.2f} s",
    )
    assert 0.1 < headend_seconds < 30, completed.stdout
    assert 0.1 < nginx_seconds < 30, completed.stdout
