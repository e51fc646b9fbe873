"""Whether media can be written to a folder, at each place where writers put them.

Writers make a temporary file and rename it to its address. A file beside the media says little: a
top folder may be another disk, or belong to another user, and a disk may have bytes and no inode.

All functions block, and raise `OSError` where the disk does not answer as expected.
"""

import errno
import os
from pathlib import Path
from typing import Final

from storage.objects.addresses import MEDIA_FOLDERS, UPLOADS
from storage.objects.base import STORE, StoreFailed, StoreFull

_FOLDERS: Final = (*MEDIA_FOLDERS, UPLOADS)
# It begins with a dot, so no address leads there. All processes use the same name: one that is
# killed leaves a single file, which the next check replaces and removes.
_CHECK: Final = ".check"
_CHECK_BYTES: Final = 4096
# An hour of one video in five sizes takes 9,000 files; streams on air go on with what is left.
_LEAST_FILES: Final = 1000


def room_problem(folder: Path, min_free_bytes: int) -> str | None:
    """Return what a folder's disk lacks, bytes or inodes; None if it has enough of both.

    Disks that make inodes as they are needed report none at all, and lack none.
    """
    room = os.statvfs(folder)
    free = room.f_bavail * room.f_frsize
    if free < min_free_bytes:
        return f"free space is {free} bytes, storage.min_free_bytes is {min_free_bytes}"
    if room.f_files and room.f_favail < _LEAST_FILES:
        return (
            f"its disk has room for {room.f_favail} more files, and at least {_LEAST_FILES} are"
            " needed: no inodes are left, though bytes may be"
        )
    return None


def check_folder(root: Path, temporary: Path, *, min_free_bytes: int, thorough: bool) -> None:
    """Check the disk below `root`; `temporary` is a free path for a temporary file.

    With `thorough`, a few bytes are written to each top folder, as media are, and removed.

    Raises:
        StoreFull: less than `min_free_bytes` are free, or few inodes.
        StoreFailed: media cannot be written to the folder that the error names.
        FileNotFoundError: there is no folder for temporary files.
    """
    problem = room_problem(temporary.parent, min_free_bytes)
    if problem is not None:
        raise StoreFull(STORE, problem)
    for name in ("", *_FOLDERS):
        try:
            _check_place(root / name, temporary)
            if thorough:
                _write(temporary, root / name / _CHECK)
        except FileNotFoundError:
            if not name or not temporary.parent.is_dir():
                raise
            # The first object below it creates it.
        except OSError as error:
            raise _failure(name, error) from error


def _check_place(folder: Path, temporary: Path) -> None:
    """Raise the error that renaming a file into a folder would, as far as it can be foreseen."""
    code = 0
    if folder.stat().st_dev != temporary.parent.stat().st_dev:
        code = errno.EXDEV
    elif not os.access(folder, os.W_OK | os.X_OK):
        is_read_only = os.statvfs(folder).f_flag & os.ST_RDONLY
        code = errno.EROFS if is_read_only else errno.EACCES
    if code:
        raise OSError(code, os.strerror(code))


def _write(temporary: Path, target: Path) -> None:
    data = os.urandom(_CHECK_BYTES)
    try:
        temporary.write_bytes(data)
        if temporary.read_bytes() != data:
            raise OSError(errno.EIO, "other bytes were read than written")
        temporary.replace(target)
        target.unlink(missing_ok=True)  # another process may have been faster
    finally:
        temporary.unlink(missing_ok=True)


def _failure(name: str, error: OSError) -> StoreFull | StoreFailed:
    place = f"the folder {name} of the store" if name else STORE
    if error.errno == errno.EXDEV:
        return StoreFailed(
            place, "it is a disk of its own, to which no file can be renamed: mount one for all"
        )
    kind = StoreFull if error.errno in {errno.ENOSPC, errno.EDQUOT} else StoreFailed
    return kind(place, error.strerror or type(error).__name__)
