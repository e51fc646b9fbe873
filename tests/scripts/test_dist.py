"""The wheel: all of the program, the same each time, and at work far from its sources."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.rooms import ROOMS, ROOT

SHARED = "headend-{version}.data/data/share/headend"


def wheel(folder: Path) -> Path:
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder],
        cwd=ROOT, env={**os.environ, "SOURCE_DATE_EPOCH": "1580601600"},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("headend-*.whl")
    return built


def of_the_rooms() -> set[str]:
    done = subprocess.run(
        ["git", "ls-files", "--", *ROOMS], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return {name for name in done.stdout.splitlines() if (ROOT / name).exists()}


@pytest.mark.real
def test_the_wheel_is_whole_and_the_same_each_time(tmp_path: Path) -> None:
    first, second = wheel(tmp_path / "1"), wheel(tmp_path / "2")
    assert first.read_bytes() == second.read_bytes()
    names = set(zipfile.ZipFile(first).namelist())
    assert of_the_rooms() <= names
    version = first.name.split("-")[1]
    shared = SHARED.format(version=version)
    for folder, place in (("systemd", "systemd"), ("deploy/system", "system")):
        for path in (ROOT / folder).iterdir():
            assert f"{shared}/{place}/{path.name}" in names

    # Unpacked elsewhere, and with nothing of the checkout on its way.
    place, data = tmp_path / "program", tmp_path / "data"
    zipfile.ZipFile(first).extractall(place)
    ours = {"PYTHONPATH": str(place), "PATH": os.defpath, "HEADEND_DATA": str(data)}
    code = "import sys; sys.path = [p for p in sys.path if p != sys.argv[1]]; sys.argv[1:2] = []\n"
    code += (
        "import headend; assert headend.__file__.startswith(sys.argv.pop(1)), headend.__file__\n"
    )
    code += "from headend.command import main; main()"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, str(ROOT), str(place), "migrate"],
        cwd=tmp_path, env=ours, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert (data / "owner.token").exists()
