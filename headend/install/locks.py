"""Locks on a data folder, which the kernel releases with the process that holds them (flock(2)).

`writer.lock` is held by the one process that writes runs. `form.lock` is shared by all processes
that rely on the database's schema, and held exclusively while the schema changes, and for a moment
by the last of these processes as it ends. A process that is killed leaves nothing behind.
"""

import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_WRITER: Final = "writer.lock"
_SCHEMA: Final = "form.lock"
# An API process that finds no writer holds the lock for the duration of one write, and the last
# process of a folder holds the other while it releases the media.
_VACANCY_SECONDS: Final = 2.0
_POLL_SECONDS: Final = 0.05


class DataFolderError(Exception):
    """The data folder cannot be used now; the message is for the operator."""


@contextmanager
def writer_lock(folder: Path, role: str) -> Generator[None, None, None]:
    """Hold the lock of the only process that may write runs.

    Raises:
        DataFolderError: another process holds it.
    """
    with _opened(folder, _WRITER) as lock:
        if not _lock_soon(lock, fcntl.LOCK_EX):
            raise DataFolderError(
                f"another Headend is running on {folder}{_holder_text(lock)}: only one"
                " process may write live media there; `headend api` and `headend transcode` may"
                " run beside it"
            )
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"headend {role}, process {os.getpid()}".encode(), 0)
        yield


@contextmanager
def writer_vacancy(folder: Path) -> Generator[bool, None, None]:
    """Yield whether no process writes runs; if so, none can start to before the block ends.

    The block may take at most `_VACANCY_SECONDS`; a writer that starts waits no longer than that.
    """
    with _opened(folder, _WRITER) as lock:
        yield _try_lock(lock, fcntl.LOCK_EX)


@contextmanager
def schema_in_use(folder: Path) -> Generator[None, None, None]:
    """Prevent migrations of the database for the length of the block.

    Raises:
        DataFolderError: a migration is running.
    """
    with _opened(folder, _SCHEMA) as lock:
        if not _lock_soon(lock, fcntl.LOCK_SH):
            raise DataFolderError(
                f"the database in {folder} is being migrated: start again after that"
            )
        yield


@contextmanager
def schema_change(folder: Path) -> Generator[None, None, None]:
    """Hold the database exclusively, to create or migrate it.

    Raises:
        DataFolderError: another process uses it.
    """
    with _opened(folder, _SCHEMA) as lock:
        if not _try_lock(lock, fcntl.LOCK_EX):
            raise DataFolderError(
                f"the database in {folder} cannot be migrated while another Headend uses it:"
                " stop that first"
            )
        yield


@contextmanager
def _opened(folder: Path, name: str) -> Generator[int, None, None]:
    try:
        lock = os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise DataFolderError(f"cannot use {folder} for data: {error.strerror}") from error
    try:
        yield lock
    finally:
        os.close(lock)  # also releases the lock


def _lock_soon(lock: int, kind: int) -> bool:
    deadline = time.monotonic() + _VACANCY_SECONDS
    while not _try_lock(lock, kind):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _try_lock(lock: int, kind: int) -> bool:
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder_text(lock: int) -> str:
    holder = os.pread(lock, 100, 0).decode(errors="replace")
    return f" ({holder})" if holder else ""
