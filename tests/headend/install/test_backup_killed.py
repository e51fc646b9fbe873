"""Backups and restores killed at any moment: a former backup stays whole, and they go on."""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Proof
from tests.support.e2e.service import HEADEND
from tests.support.headend.backed_up import HASH, BackedUpSite, media_of
from tests.support.waiting import SCALE

OBJECTS = 1500
KEEP_ALL = ("--keep-daily", "0", "--keep-weekly", "0", "--keep-monthly", "0")
MOMENTS = [2, pytest.param(10, marks=pytest.mark.prove)]


@pytest.fixture
def site(tmp_path: Path) -> BackedUpSite:
    return BackedUpSite.installed(tmp_path)


def count_files(folder: Path) -> int:
    return sum(len(names) for _, _, names in os.walk(folder))


def kill_when(is_time: Callable[[], bool], *arguments: str) -> bool:
    """Run a command and kill it at a moment; return whether it was still running."""
    process = subprocess.Popen(
        [str(HEADEND), *arguments],
        env={**os.environ, "HEADEND_STORAGE__MIN_FREE_BYTES": "0"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 60 * SCALE
    while process.poll() is None and not is_time():
        assert time.monotonic() < deadline
    process.send_signal(signal.SIGKILL)
    return process.wait() == -signal.SIGKILL


@pytest.mark.parametrize("moments", MOMENTS)
def test_a_backup_that_is_killed_damages_none(
    site: BackedUpSite, tmp_path: Path, moments: int, proof: Proof
) -> None:
    first = site.run("backup", str(site.place), *KEEP_ALL)
    assert first.exit_code == 0, first.output
    whole = site.names
    before = media_of(site.data)
    folder = site.data / f"objects/videos/{HASH}/1-1/720p"
    for number in range(1, OBJECTS):
        (folder / f"{number}.m4s").write_bytes(os.urandom(2000))
    pool = site.place / "data"
    killed = 0
    for moment in range(moments):
        # The last of them while the parts of the backup are written.
        least = OBJECTS * moment // (moments - 1)

        def is_time(least: int = least) -> bool:
            if least < OBJECTS:
                return count_files(pool) > least
            return len(site.names) > len(whole)

        arguments = ("backup", str(site.place), "--data", str(site.data), *KEEP_ALL)
        killed += kill_when(is_time, *arguments)
        check = site.run("backup", str(site.place), "--check")
        assert (check.exit_code, "all are as they were written" in check.output) == (0, True)
        new = tmp_path / f"new-{moment}"
        restored = site.run("restore", str(site.place), "--at", whole[0], data=new)
        assert restored.exit_code == 0, restored.output
        assert media_of(new) == before
    last = site.run("backup", str(site.place), *KEEP_ALL)
    assert last.exit_code == 0, last.output
    listed = site.run("backup", str(site.place), "--list").output.splitlines()
    assert site.names == sorted(line.split("\t")[0] for line in listed), "nothing is left of them"
    assert [path.name for path in site.data.iterdir() if path.name.startswith(".backup")] == []
    asyncio.run(site.restored(tmp_path / "last"))
    assert media_of(tmp_path / "last") == media_of(site.data)
    assert killed >= moments - 1  # the last may have been quicker
    proof(
        f"a backup killed at {moments} moments: the former one",
        f"whole and restored after each of {killed} kills",
        "never damaged",
    )


@pytest.mark.parametrize("moments", MOMENTS)
def test_a_restore_that_is_killed_goes_on(
    site: BackedUpSite, tmp_path: Path, moments: int, proof: Proof
) -> None:
    folder = site.data / f"objects/videos/{HASH}/1-1/720p"
    for number in range(1, OBJECTS):
        (folder / f"{number}.m4s").write_bytes(os.urandom(2000))
    backup = site.run("backup", str(site.place))
    assert backup.exit_code == 0, backup.output
    new = tmp_path / "new"
    killed = 0
    for moment in range(moments):
        least = OBJECTS * moment // moments
        arguments = ("restore", str(site.place), "--data", str(new))
        killed += kill_when(lambda n=least: count_files(new / "objects/videos") > n, *arguments)
        start = site.run("migrate", data=new)
        assert start.exit_code == 1, "nothing starts on it"
    restored = site.run("restore", str(site.place), data=new)
    assert restored.exit_code == 0, restored.output
    assert media_of(new) == media_of(site.data)
    assert site.run("migrate", data=new).exit_code == 0
    proof(f"a restore killed at {killed} moments", "goes on", "goes on, and nothing starts on it")
