"""Advisories of pinned packages: the requests, the report, and failures."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from scripts import advisories
from scripts.advisories import Pin, advisories_of, examine, pins_in, report

ROOT = Path(__file__).parents[2]
GOOD, BAD = Pin("good", "1.0"), Pin("bad", "2.0")
ADVISORY = {
    "id": "GHSA-1",
    "aliases": ["CVE-1"],
    "fixed_in": ["2.1"],
    "summary": "Runs what it reads.",
    "withdrawn": None,
}


def registry(pin: Pin) -> Mapping[str, Any]:  # Any: JSON
    return {"info": {}, "vulnerabilities": [ADVISORY] if pin == BAD else []}


def test_every_pin_of_our_own_files_is_read() -> None:
    for name in ("runtime", "dev"):
        lines = (ROOT / "requirements" / f"{name}.txt").read_text().splitlines()
        packages = [line for line in lines if line[:1].isalnum()]
        assert len(pins_in("\n".join(lines))) == len(packages) > 20
    assert pins_in("a[extra]==1.2.post3 ; x\nb_c==4 \\\n    --hash=sha256:0\n# d==1\n") == [
        Pin("a", "1.2.post3"),
        Pin("b_c", "4"),
    ]


def test_a_vulnerable_package_fails_and_names_the_fixed_version() -> None:
    text, code = report(examine([GOOD, BAD, GOOD], registry))
    assert code == 1
    assert "bad 2.0: GHSA-1, CVE-1 (fixed in 2.1): Runs what it reads." in text.splitlines()
    assert "2 packages checked" in text


def test_a_withdrawn_advisory_is_none() -> None:
    assert advisories_of({"vulnerabilities": [{**ADVISORY, "withdrawn": "2026-01-01"}]}) == []


@pytest.mark.parametrize("error", [OSError("no route"), ValueError("no JSON")])
def test_an_unreachable_registry_is_reported_and_fails_nothing(error: Exception) -> None:
    def away(_: Pin) -> Mapping[str, Any]:
        raise error

    text, code = report(examine([GOOD, BAD], away))
    assert code == 0
    assert "NOT CHECKED: 2 of 2 packages (bad, good)" in text


def test_the_command_reports_a_missing_network_and_succeeds(tmp_path: Path) -> None:
    pinned = tmp_path / "pins.txt"
    pinned.write_text("good==1.0\n")
    completed = subprocess.run(
        [sys.executable, advisories.__file__, pinned],
        capture_output=True,
        text=True,
        env={"https_proxy": "http://127.0.0.1:9"},  # nothing listens there
        check=False,
    )
    assert (completed.returncode, completed.stderr) == (0, "")
    assert "NOT CHECKED: 1 of 1 packages (good)" in completed.stdout
