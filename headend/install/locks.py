"""Who may do what with a data folder: locks that the kernel drops with the process that held them.

Two files in the folder. `writer.lock` is held by the one process that writes runs; `form.lock` is
shared by all that rely on the database's form, and held alone by who changes it. Both are flock(2):
a process that is killed leaves nothing behind.
"""

import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

__all__ = ["FolderError", "changing_form", "relying_on_form", "vacancy", "writing"]

_WRITER: Final = "writer.lock"
_FORM: Final = "form.lock"
# An API process that finds the writer's place empty holds it for as long as one write takes.
_VACANCY_SECONDS: Final = 2.0
_POLL_SECONDS: Final = 0.05


class FolderError(Exception):
    """The data folder cannot be used so now; the text is the sentence for the operator."""


@contextmanager
def writing(folder: Path, role: str) -> Generator[None, None, None]:
    """Be the one process that writes runs: two would write over each other's.

    Raises:
        FolderError: another process is it.
    """
    with _opened(folder, _WRITER) as lock:
        deadline = time.monotonic() + _VACANCY_SECONDS
        while not _taken(lock, fcntl.LOCK_EX):
            if time.monotonic() > deadline:
                raise FolderError(
                    f"another Headend is running on {folder}{_holder(lock)}: one process alone"
                    " writes there, and only `headend api` may run beside it"
                )
            time.sleep(_POLL_SECONDS)
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"headend {role}, process {os.getpid()}".encode(), 0)
        yield


@contextmanager
def vacancy(folder: Path) -> Generator[bool, None, None]:
    """Say whether nobody writes runs; where so, nobody begins to before the block ends.

    The block may take `_VACANCY_SECONDS` at most, else a writer that starts is turned away.
    """
    with _opened(folder, _WRITER) as lock:
        yield _taken(lock, fcntl.LOCK_EX)


@contextmanager
def relying_on_form(folder: Path) -> Generator[None, None, None]:
    """Keep the database's form from being changed for the length of the block.

    Raises:
        FolderError: it is being changed now.
    """
    with _opened(folder, _FORM) as lock:
        if not _taken(lock, fcntl.LOCK_SH):
            raise FolderError(f"the database in {folder} is being migrated: start again after that")
        yield


@contextmanager
def changing_form(folder: Path) -> Generator[None, None, None]:
    """Hold the database alone, to make it or to change its form.

    Raises:
        FolderError: another process uses it.
    """
    with _opened(folder, _FORM) as lock:
        if not _taken(lock, fcntl.LOCK_EX):
            raise FolderError(
                f"the database in {folder} cannot be migrated while another Headend uses it:"
                " stop that first"
            )
        yield


@contextmanager
def _opened(folder: Path, name: str) -> Generator[int, None, None]:
    try:
        lock = os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise FolderError(f"cannot use {folder} for data: {error.strerror}") from error
    try:
        yield lock
    finally:
        os.close(lock)  # and the lock with it


def _taken(lock: int, kind: int) -> bool:
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(lock: int) -> str:
    said = os.pread(lock, 100, 0).decode(errors="replace")
    return f" ({said})" if said else ""
