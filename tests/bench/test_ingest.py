"""The bench of the wire's cost: it runs, counts what was sent and says when something is missing.

No time is asserted here: `python -m bench.ingest` does that.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from bench.ingest.clip import Body, SourceClip
from bench.ingest.measure import RoundCost
from bench.ingest.report import missed, table
from bench.ingest.servers import SERVERS
from tests.support.e2e.service import SCALE

ROOT: Final = Path(__file__).parents[2]
DEADLINE: Final = 240 * SCALE  # it takes 15 s on an idle machine


def run(*options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench.ingest", *options],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )


@pytest.mark.prove
def test_a_quick_run_takes_everything_in(tmp_path: Path) -> None:
    quick = ("--quick", "--publishers", "2", "--seconds", "2", "--only", "ours")
    completed = run(*quick, TMPDIR=str(tmp_path))
    assert completed.returncode == 0, completed.stdout + completed.stderr
    assert "2 live publishers over RTMP" in completed.stdout
    assert "Every target that was measured is kept." in completed.stdout
    assert list(tmp_path.iterdir()) == [], "it leaves nothing behind"


def test_a_missing_server_is_named_with_the_command_that_installs_it(tmp_path: Path) -> None:
    (tmp_path / "node").symlink_to("/bin/true")
    completed = run("--quick", "--only", "nms", PATH=str(tmp_path))
    assert completed.returncode == 2
    assert "apt-get install npm" in completed.stderr


CLIP = SourceClip(
    Path("clip.flv"),
    (Body(0, 50, 0), Body(0, 105, 100), Body(900, 205, 200), Body(1000, 305, 300)),
)


@pytest.mark.parametrize(
    ("packets", "data", "arrived"),
    [
        pytest.param(3, 600, True, id="all"),
        pytest.param(1, 100, True, id="but for the last half second"),
        pytest.param(0, 0, False, id="nothing"),
        pytest.param(2, 500, False, id="one lost in between"),
        pytest.param(4, 900, False, id="one twice"),
    ],
)
def test_what_was_lost_is_noticed(packets: int, data: int, *, arrived: bool) -> None:
    wrong = SERVERS["ours"].lost({"packets": packets, "bytes": data}, CLIP)
    assert (wrong == "") == arrived


@pytest.mark.parametrize(
    ("bytes_in", "arrived"),
    [(665 + 3 + 3073, True), (2 * 665 + (20 << 10), False), (154, False)],
)
def test_bytes_of_a_connection_have_bounds(bytes_in: int, *, arrived: bool) -> None:
    wrong = SERVERS["nginx"].lost({"bytes": bytes_in}, CLIP)
    assert (wrong == "") == arrived


def figures(cost: float, growth_bytes: int = 0) -> list[RoundCost]:
    return [RoundCost(each, 30_000_000, growth_bytes) for each in (cost, 9 * cost, cost / 9)]


def test_a_missed_target_is_reported() -> None:
    results = {"ours": figures(2.0), "nginx": figures(1.0), "pyrtmp": figures(20.0)}
    assert missed(results) == []
    assert "| 0.10 | <= 0.17 |" in table(results, dict.fromkeys(results, "a server"))
    assert len(missed({**results, "ours": figures(2.6), "nms": figures(4.0)})) == 2
    assert len(missed({**results, "ours": figures(2.0, 5 << 20)})) == 1
