"""Files that survive a power cut: written through to the disk before a row names them.

A rename is on the disk once the directory is, and a file's bytes once the file is; without either,
a row that was committed may name a file that is missing, empty or short after a power cut. The file
system chooses the order of writes that are not synced.

Only callers that are about to commit a row use this. Live segments are not synced one by one: each
would make its step wait for the disk. A power cut costs a run what the kernel had not written yet,
usually the last 5 to 30 s; see `storage.objects.disk`.

All functions block.
"""

import ctypes
import os
from pathlib import Path
from typing import Final

_LIBC: Final = ctypes.CDLL(None, use_errno=True)


def place_file(file: int, source: Path, target: Path, root: Path) -> None:
    """Move the open file at `source` to `target` below `root`; then it survives a power cut.

    The folder of `target` must exist. `file` is the descriptor of the file, whose bytes are synced
    before the rename, so `target` is never short.

    Raises:
        OSError: the disk failed.
    """
    os.fsync(file)
    source.rename(target)
    _sync_folders(target, root)


def sync_file(path: Path, root: Path) -> None:
    """Have a file below `root` survive a power cut, with the folders that lead to it.

    Raises:
        OSError: there is no such file, or the disk failed.
    """
    _sync(path)
    _sync_folders(path, root)


def sync_tree(root: Path) -> None:
    """Have all that was written to the file system of `root` survive a power cut.

    For many files: one call syncs them and their folders, instead of one for each file.

    Raises:
        OSError: the disk failed.
    """
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if _LIBC.syncfs(folder) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
    finally:
        os.close(folder)


def _sync_folders(path: Path, root: Path) -> None:
    """Sync each folder between a path and `root`, which may all be new."""
    for folder in path.parents:
        _sync(folder)
        if folder == root:
            return


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
