"""A backup of many objects, of which few are new, takes seconds."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.conftest import Proof
from tests.support.e2e.service import HEADEND
from tests.support.headend.backed_up import HASH, BackedUpSite
from tests.support.waiting import SCALE

pytestmark = pytest.mark.prove

FOLDERS, IN_EACH, CHANGED = 500, 200, 100
SECONDS = 10.0


def back_up(site: BackedUpSite) -> tuple[float, str]:
    began = time.monotonic()
    done = subprocess.run(
        [str(HEADEND), "backup", str(site.place), "--data", str(site.data)],
        env={**os.environ, "HEADEND_STORAGE__MIN_FREE_BYTES": "0"},
        capture_output=True,
        text=True,
        check=True,
        timeout=500,
    )
    return time.monotonic() - began, done.stdout


def test_a_hundred_thousand_objects_incrementally(tmp_path: Path, proof: Proof) -> None:
    site = BackedUpSite.installed(tmp_path)
    video = site.data / f"objects/videos/{HASH}/1-1"
    for folder in range(FOLDERS):
        (video / f"r{folder}").mkdir()
        for number in range(IN_EACH):
            (video / f"r{folder}/{number}.m4s").write_bytes(os.urandom(100))
    first, _ = back_up(site)
    for number in range(CHANGED):
        (video / f"r{number}/{IN_EACH}.m4s").write_bytes(os.urandom(100))
    again, output = back_up(site)
    assert f"copied {CHANGED} now" in output, output
    assert f"{FOLDERS * IN_EACH + CHANGED + 4:,} objects" in output
    proof(
        f"a backup of {FOLDERS * IN_EACH:,} objects, {CHANGED} of them new, to a folder",
        f"{again:.1f} s (the first, of all: {first:.0f} s)",
        f"{SECONDS:.0f} s",
    )
    assert again <= SECONDS * SCALE
