"""Walks over the files below a folder of a disk store, step by step.

A folder may hold millions of files, and a slow disk needs hours for them. The walks are generators
that block: `run_steps` runs some of their steps at a time, so that a limit of time is for these.
"""

import contextlib
import os
from collections.abc import Awaitable, Callable, Generator, Iterator
from itertools import islice
from pathlib import Path
from typing import Final, TypeVar

from storage.objects.addresses import is_address

# A hard disk lists 10 000 files in 60 s, and is treated as broken after 20 s.
_STEPS: Final = 1000
# Names that are read from a folder before these files are deleted: what a folder lists while its
# files are being deleted is left open by POSIX.
_AT_ONCE: Final = 10_000

T = TypeVar("T")


async def run_steps(
    steps: Iterator[T], run: Callable[[Callable[[], list[T]]], Awaitable[list[T]]]
) -> list[T]:
    """Return all that `steps` yield; `run` calls some of them at once, in a thread."""
    results: list[T] = []
    while True:
        some = await run(lambda: list(islice(steps, _STEPS)))
        results += some
        if len(some) < _STEPS:
            return results


def subfolders(folder: Path) -> Iterator[str]:
    """Yield the names of the folders in a folder; nothing if there is no such folder.

    Names that no address can have are left out, such as `lost+found`.
    """
    with _absence_ignored(), os.scandir(folder) as entries:
        for entry in entries:
            if is_address(entry.name) and entry.is_dir(follow_symlinks=False):
                yield entry.name


def addresses_below(root: Path, folder: Path) -> Iterator[str]:
    """Yield the addresses of the files below a folder of the store at `root`, in any order.

    Files and folders whose names are no addresses are left out: the operator or the system made
    them (`.DS_Store`, `lost+found`).

    Raises:
        OSError: a folder cannot be listed.
    """
    for place, folders, names in os.walk(folder, onerror=_raise_unless_gone):
        below = Path(place).relative_to(root).as_posix()
        folders[:] = [name for name in folders if is_address(f"{below}/{name}")]
        yield from filter(is_address, [f"{below}/{name}" for name in names])


def remove_tree(folder: Path) -> Iterator[None]:
    """Delete a folder and all that is in it, a file in each step; links are not followed.

    Raises:
        OSError: something cannot be deleted; the rest remains.
    """
    if folder.is_symlink():
        folder.unlink()
        return
    with _absence_ignored():
        while entries := _first_entries(folder):
            for path, is_folder in entries:
                if is_folder:
                    yield from remove_tree(path)
                else:
                    path.unlink(missing_ok=True)
                yield
        folder.rmdir()


def _first_entries(folder: Path) -> list[tuple[Path, bool]]:
    with os.scandir(folder) as entries:
        return [
            (Path(entry.path), entry.is_dir(follow_symlinks=False))
            for entry in islice(entries, _AT_ONCE)
        ]


@contextlib.contextmanager
def _absence_ignored() -> Generator[None]:
    """Return a context that ends without an error where a folder is gone, or is a file."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        return


def _raise_unless_gone(error: OSError) -> None:
    """Raise what `os.walk` would ignore, except that a folder was deleted or is a file."""
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error
