"""The part of the box that hides files: what a process may still open, by Landlock.

What was open before stays open, and can be read or written as before. Sync, and free of all but the
operating system, as `transcode.sandbox.rlimits` is. A kernel without Landlock leaves the files to
the service unit's restrictions.
Sources: landlock(7); Linux's Documentation/userspace-api/landlock.rst and
include/uapi/linux/landlock.h, up to ABI 7.
"""

import ctypes
import errno
import os
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from transcode.sandbox.rlimits import BoxError, forbid_new_privileges

__all__ = ["hide_files", "landlock_abi", "landlock_text"]

# The same numbers on all machines: calls have been numbered alike since Linux 5.1.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION: Final = 1
_RULE_PATH: Final = 1
_READ_FILE: Final = 1 << 2
# The rights over files, by the ABI that brought them: execute, write and read files, list folders,
# remove and make of each kind; link and rename across folders; truncate; ioctl of devices.
_FILES: Final = ((1, (1 << 13) - 1), (2, 1 << 13), (3, 1 << 14), (5, 1 << 15))
_TCP: Final = 0b11  # bind, connect
_TCP_ABI: Final = 4
# Unix sockets without a file, and signals, to whoever is not in the same box.
_SCOPED: Final = 0b11
_SCOPED_ABI: Final = 6
_ABSENT: Final = frozenset({errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM})


def landlock_abi() -> int:
    """Return the version of Landlock that the kernel offers; 0 where it offers none.

    It is 0, too, in a sandbox that forbids to ask.

    Raises:
        BoxError: the kernel gives another answer than that there is none.
    """
    found, number = _call(_CREATE_RULESET, None, 0, _ASK_VERSION)
    if found >= 0:
        return found
    if number in _ABSENT:
        return 0
    raise _cannot("ask for Landlock", number)


def landlock_text(abi: int) -> str:
    """Return in words what a version of Landlock does for engines."""
    if not abi:
        return "this kernel has no Landlock: engines can read what the service's user can read"
    if abi < _TCP_ABI:
        return f"Landlock (ABI {abi}) hides files from engines"
    return f"Landlock (ABI {abi}) hides files and TCP from engines"


def hide_files(readable: Iterable[Path] = ()) -> int:
    """Deny this process, for good, to open any file but the `readable`, and those for reading only.

    Nothing is made, listed, executed, renamed or removed either; TCP connections, and signals and
    sockets that lead out of the box, are denied where the kernel can. Whether a file is there can
    still be asked. Returns the version of Landlock that does it; 0, and nothing is denied, where
    the kernel has none. Folders among the `readable` count with all that they hold.

    It boxes in the calling thread and those that it starts: call it before there are others.

    Raises:
        BoxError: there are other threads, a file is not there, or the kernel refuses.
    """
    abi = landlock_abi()
    if not abi:
        return 0
    if len(list(Path("/proc/self/task").iterdir())) > 1:
        raise BoxError(errno.EBUSY, "other threads would keep their files")
    forbid_new_privileges()
    rules = _ruleset(abi)
    try:
        for path in readable:
            _allow(rules, path)
        answer, number = _call(_RESTRICT_SELF, rules, 0)
        if answer < 0:
            raise _cannot("hide files", number)
    finally:
        os.close(rules)
    return abi


def _ruleset(abi: int) -> int:
    """Return a descriptor of rules that deny all that this version can deny."""
    files = sum(rights for since, rights in _FILES if abi >= since)
    attributes = struct.pack("=Q", files)
    if abi >= _TCP_ABI:
        attributes += struct.pack("=Q", _TCP)
    if abi >= _SCOPED_ABI:
        attributes += struct.pack("=Q", _SCOPED)
    rules, number = _call(_CREATE_RULESET, attributes, len(attributes), 0)
    if rules < 0:
        raise _cannot("make Landlock's rules", number)
    return rules


def _allow(rules: int, path: Path) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        raise BoxError(error.errno, f"cannot leave {path} readable: {error.strerror}") from error
    try:
        rule = struct.pack("=Qi", _READ_FILE, place)
        answer, number = _call(_ADD_RULE, rules, _RULE_PATH, rule, 0)
        if answer < 0:
            raise _cannot(f"leave {path} readable", number)
    finally:
        os.close(place)


def _call(number: int, *arguments: int | bytes | None) -> tuple[int, int]:
    """Return a system call's answer and, where that is -1, its errno."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    given = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    answer = int(libc.syscall(ctypes.c_long(number), *given))
    return answer, ctypes.get_errno() if answer < 0 else 0


def _cannot(what: str, number: int) -> BoxError:
    return BoxError(number, f"cannot {what}: {os.strerror(number)}")
