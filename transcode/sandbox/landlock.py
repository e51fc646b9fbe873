"""Landlock: hides files from an engine.

Files that are open already can be used as before. Synchronous, and dependent on the operating
system alone. On a kernel without Landlock, only the service unit's restrictions hide files.
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

from transcode.sandbox.rlimits import SandboxError, forbid_new_privileges

# The same numbers on all machines: calls have been numbered alike since Linux 5.1.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_QUERY_VERSION: Final = 1
_RULE_PATH: Final = 1
_READ_FILE: Final = 1 << 2
# The rights over files, by the ABI that introduced them: execute, write and read files, list
# folders, remove and create each kind of file; link and rename across folders; truncate; ioctl of
# devices.
_FILES: Final = ((1, (1 << 13) - 1), (2, 1 << 13), (3, 1 << 14), (5, 1 << 15))
_TCP: Final = 0b11  # bind, connect
_TCP_ABI: Final = 4
# Unix sockets without a file, and signals, to processes outside the same sandbox.
_SCOPED: Final = 0b11
_SCOPED_ABI: Final = 6
_ABSENT: Final = frozenset({errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM})


def landlock_abi() -> int:
    """Return the version of Landlock that the kernel offers; 0 if it offers none.

    It is also 0 in a sandbox that forbids the query.

    Raises:
        SandboxError: the kernel gives an unexpected answer.
    """
    version, number = _call(_CREATE_RULESET, None, 0, _QUERY_VERSION)
    if version >= 0:
        return version
    if number in _ABSENT:
        return 0
    raise _cannot("ask for Landlock", number)


def landlock_text(abi: int) -> str:
    """Describe what a version of Landlock does for engines."""
    if not abi:
        return "this kernel has no Landlock: engines can read what the service's user can read"
    if abi < _TCP_ABI:
        return f"Landlock (ABI {abi}) hides files from engines"
    return f"Landlock (ABI {abi}) hides files and TCP from engines"


def hide_files(readable: Iterable[Path] = ()) -> int:
    """Forbid this process to open any file except the `readable`, for reading only, irrevocably.

    Files cannot be created, listed, executed, renamed or removed either; TCP connections, and
    signals and sockets that lead out of the sandbox, are denied if the kernel can do so. Whether a
    file exists can still be found out. Returns the version of Landlock in effect; 0 if the kernel
    has none, and then nothing is denied. A folder among the `readable` includes everything in it.

    It confines the calling thread and those that it starts, so call it before there are others.

    Raises:
        SandboxError: there are other threads, a file does not exist, or the kernel refuses.
    """
    abi = landlock_abi()
    if not abi:
        return 0
    if len(list(Path("/proc/self/task").iterdir())) > 1:
        raise SandboxError(errno.EBUSY, "other threads would keep their files")
    forbid_new_privileges()
    rules = _ruleset(abi)
    try:
        for path in readable:
            _allow(rules, path)
        result, number = _call(_RESTRICT_SELF, rules, 0)
        if result < 0:
            raise _cannot("hide files", number)
    finally:
        os.close(rules)
    return abi


def _ruleset(abi: int) -> int:
    """Return a descriptor of rules that deny everything this version can deny."""
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
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        raise SandboxError(
            error.errno, f"cannot leave {path} readable: {error.strerror}"
        ) from error
    try:
        rule = struct.pack("=Qi", _READ_FILE, descriptor)
        result, number = _call(_ADD_RULE, rules, _RULE_PATH, rule, 0)
        if result < 0:
            raise _cannot(f"leave {path} readable", number)
    finally:
        os.close(descriptor)


def _call(number: int, *arguments: int | bytes | None) -> tuple[int, int]:
    """Return a system call's result and, if that is -1, its errno."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    converted = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    result = int(libc.syscall(ctypes.c_long(number), *converted))
    return result, ctypes.get_errno() if result < 0 else 0


def _cannot(what: str, number: int) -> SandboxError:
    return SandboxError(number, f"cannot {what}: {os.strerror(number)}")
