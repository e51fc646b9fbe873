"""Locks on the data folder, held by real processes."""

import signal
import subprocess
import sys
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path

import pytest

from headend.install.locks import (
    DataFolderError,
    schema_change,
    schema_in_use,
    writer_lock,
    writer_vacancy,
)

HOLDER = """
import sys
from pathlib import Path
from headend.install import locks

with getattr(locks, sys.argv[1])(Path(sys.argv[2]), *sys.argv[3:]):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def holder(lock: str, folder: Path, *more: str) -> Generator[subprocess.Popen[str]]:
    """Another process that holds a lock for the length of the block."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, lock, str(folder), *more],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def test_the_refusal_of_a_second_writer_names_the_first(tmp_path: Path) -> None:
    with holder("writer_lock", tmp_path, "ingest") as other:
        words = rf"another Headend is running on .* \(headend ingest, process {other.pid}\)"
        with pytest.raises(DataFolderError, match=words), writer_lock(tmp_path, "serve"):
            pass
        with writer_vacancy(tmp_path) as vacant:
            assert not vacant


def test_the_lock_of_a_killed_writer_is_free(tmp_path: Path) -> None:
    with holder("writer_lock", tmp_path, "ingest") as other:
        other.send_signal(signal.SIGKILL)
        other.wait()
        with writer_vacancy(tmp_path) as vacant:
            assert vacant
        with writer_lock(tmp_path, "serve"):
            pass


def test_a_writer_waits_for_a_process_that_checks_the_lock(tmp_path: Path) -> None:
    def take() -> None:
        with writer_lock(tmp_path, "ingest"):
            pass

    with holder("writer_vacancy", tmp_path) as other, ThreadPoolExecutor(1) as thread:
        taking = thread.submit(take)
        assert wait([taking], timeout=0.2).not_done
        other.kill()
        taking.result(timeout=10)


def test_the_schema_lock_is_shared_by_users_and_exclusive_for_a_migration(tmp_path: Path) -> None:
    with (
        holder("schema_in_use", tmp_path),
        schema_in_use(tmp_path),
        pytest.raises(DataFolderError, match="cannot be migrated while another"),
        schema_change(tmp_path),
    ):
        pass
    with schema_change(tmp_path):
        pass
    with (
        holder("schema_change", tmp_path),
        pytest.raises(DataFolderError, match="is being migrated"),
        schema_in_use(tmp_path),
    ):
        pass


def test_a_missing_folder_is_reported_in_one_sentence(tmp_path: Path) -> None:
    missing = tmp_path / "none"
    with (
        pytest.raises(DataFolderError, match=r"cannot use .*none for data"),
        writer_lock(missing, "api"),
    ):
        pass
