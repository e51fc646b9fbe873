"""Seccomp filters of an engine: no network, no other processes, no changes to files.

The filters list what is allowed (`transcode.sandbox.system_calls`). A call that is known and not
allowed fails with EPERM, and one that is not known with ENOSYS, as on a kernel that is older: the C
library and FFmpeg then do without it. Neither ends the engine, so an update that brings a new call
costs no stream.

Filters are classic BPF programs over the system call's number and arguments. Synchronous, and
dependent on the operating system alone, since an engine imports it first.
Sources: seccomp(2), prctl(2); Linux's include/uapi/linux/{filter,seccomp,audit}.h.
"""

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from transcode.sandbox.rlimits import SandboxError, forbid_new_privileges, prctl
from transcode.sandbox.system_calls import SYSTEM_CALLS, Rule

_PR_SET_SECCOMP: Final = 22
_SECCOMP_MODE_FILTER: Final = 2
_SECCOMP_SET_MODE_FILTER: Final = 1
_SECCOMP_FILTER_FLAG_TSYNC: Final = 1

# AUDIT_ARCH and the place of a machine's numbers in `SystemCall`. Both are little-endian.
_MACHINES: Final[Mapping[str, tuple[int, int]]] = {
    "x86_64": (0xC000_003E, 0),
    "aarch64": (0xC000_00B7, 1),
}
# x32 calls come under x86_64's AUDIT_ARCH with this bit in their number, past any list of numbers.
_X32: Final = 0x4000_0000

# Calls whose first argument must be this process.
_ITSELF: Final = ("kill", "tgkill")
# Calls that are allowed for some values of an argument: its place, and the values.
_SOME: Final[Mapping[str, tuple[int, tuple[int, ...]]]] = {
    # F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC, F_GETPIPE_SZ
    "fcntl": (1, (0, 1, 2, 3, 4, 1030, 1032)),
    # TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX, TCGETS2
    "ioctl": (1, (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451, 0x802C_542A)),
    # PR_SET_NAME, PR_GET_NAME, PR_GET_SECCOMP, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS,
    # PR_GET_NO_NEW_PRIVS, PR_SET_VMA
    "prctl": (0, (15, 16, 21, 22, 38, 39, 0x5356_4D41)),
    "seccomp": (0, (_SECCOMP_SET_MODE_FILTER,)),
}
# Calls that open a file, and which of their arguments holds the flags.
_FLAGS: Final = {"open": 1, "openat": 2}
_CHANGING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_CLONE_THREAD: Final = 0x0001_0000

# Instructions of classic BPF, and where seccomp_data keeps what they load.
_LOAD, _IF_EQUAL, _IF_AT_LEAST, _IF_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_ALLOW: Final = 0x7FFF_0000
_KILL: Final = 0x8000_0000
_FAIL: Final = 0x0005_0000  # with the errno in the lower half


class _Program(ctypes.Structure):
    """sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def _step(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    """Return one sock_filter; a jump skips `then` or `otherwise` instructions."""
    return struct.pack("=HBBI", code, then, otherwise, value)


_DENY: Final = _step(_RETURN, _FAIL | errno.EPERM)
_UNKNOWN: Final = _step(_RETURN, _FAIL | errno.ENOSYS)
_PERMIT: Final = _step(_RETURN, _ALLOW)


def _answer(rules: Collection[Rule], column: int, answer: bytes) -> list[bytes]:
    """Return the steps that answer all calls with one of some rules."""
    calls = (call for call in SYSTEM_CALLS.values() if call.rule in rules)
    numbers = sorted(call.numbers[column] for call in calls if call.numbers[column] >= 0)
    # Numbers that follow each other are one range.
    firsts = [number for number in numbers if number - 1 not in numbers]
    lasts = [number for number in numbers if number + 1 not in numbers]
    return [
        step
        for first, last in zip(firsts, lasts, strict=True)
        for step in (_step(_IF_AT_LEAST, first, 0, 2), _step(_IF_AT_LEAST, last + 1, 1), answer)
    ]


def _check_argument(name: str, column: int, argument: int, *tests: bytes) -> list[bytes]:
    """Return the steps for one call: `tests` on an argument's lower half, then deny, then allow."""
    number = SYSTEM_CALLS[name].numbers[column]
    if number < 0:
        return []
    load = _step(_LOAD, _ARGUMENTS + 8 * argument)
    return [_step(_IF_EQUAL, number, 0, len(tests) + 3), load, *tests, _DENY, _PERMIT]


def _one_of(values: Sequence[int]) -> list[bytes]:
    """Return tests that allow each of some values (see `_check_argument`)."""
    return [_step(_IF_EQUAL, value, len(values) - n) for n, value in enumerate(values)]


def network_filter(machine: str, process: int) -> bytes:
    """Return the classic BPF program of `deny_network`, for a `platform.machine()`.

    `process` is the ID of the process that it is for: that one may be sent signals.

    Raises:
        SandboxError: the system calls of this machine are not known.
    """
    steps, column = _start(machine)
    # Files are the other filters' matter.
    steps += _answer((Rule.ALLOWED, Rule.OPENING, Rule.CHANGING), column, _PERMIT)
    # Threads are allowed, processes are not. The flags of clone3 are in memory, which no filter can
    # read: it is answered as missing, so the C library uses clone instead.
    steps += _check_argument("clone", column, 0, _step(_IF_ANY_BIT, _CLONE_THREAD, 1, 0))
    # abort() and raise() signal the process itself.
    for name in _ITSELF:
        steps += _check_argument(name, column, 0, *_one_of([process]))
    steps += _check_argument("prlimit64", column, 0, *_one_of([0, process]))
    # An engine lowers its own priority: of a process (0), this one (0).
    own_priority = (
        _step(_IF_EQUAL, 0, 0, 2),
        _step(_LOAD, _ARGUMENTS + 8),
        _step(_IF_EQUAL, 0, 1, 0),
    )
    steps += _check_argument("setpriority", column, 0, *own_priority)
    for name, (argument, values) in _SOME.items():
        steps += _check_argument(name, column, argument, *_one_of(values))
    steps += _answer((Rule.DENIED,), column, _DENY)
    return b"".join((*steps, _UNKNOWN))


def change_filter(machine: str) -> bytes:
    """Return the classic BPF program of `deny_changes`, for a `platform.machine()`.

    Raises:
        SandboxError: the system calls of this machine are not known.
    """
    steps, column = _start(machine)
    steps += _answer((Rule.MISSING,), column, _UNKNOWN)
    steps += _answer((Rule.CHANGING,), column, _DENY)
    for name, argument in _FLAGS.items():
        steps += _check_argument(name, column, argument, _step(_IF_ANY_BIT, _CHANGING, 0, 1))
    return b"".join((*steps, _PERMIT))


def opening_filter(machine: str) -> bytes:
    """Return the classic BPF program of `deny_openings`, for a `platform.machine()`.

    Raises:
        SandboxError: the system calls of this machine are not known.
    """
    steps, column = _start(machine)
    steps += _answer((Rule.MISSING,), column, _UNKNOWN)
    steps += _answer((Rule.OPENING,), column, _DENY)
    return b"".join((*steps, _PERMIT))


def deny_network() -> None:
    """Deny this process sockets and everything else that reaches outside of it, irrevocably.

    Threads, memory, files and pipes work as before. Every other call fails: with EPERM if it is in
    `SYSTEM_CALLS`, with ENOSYS if it is newer. A call by another architecture's numbers kills the
    process. All threads are confined, or the call fails.

    Raises:
        SandboxError: the kernel has no seccomp filters, or does not allow one to be set.
    """
    _install(network_filter(platform.machine(), os.getpid()))


def deny_changes() -> None:
    """Forbid this process to create, open for writing, rename or remove files, irrevocably.

    Open descriptors keep working: pipes are written as before, and `set_limits` bounds what files
    can take. /dev/null counts as a file.

    Raises:
        SandboxError: the kernel has no seccomp filters, or does not allow one to be set.
    """
    _install(change_filter(platform.machine()))


def deny_openings() -> None:
    """Forbid this process to open any file, even for reading, irrevocably.

    Open files can still be read. Modules that are not loaded yet, and files that libraries read on
    demand, are out of reach from now on.

    Raises:
        SandboxError: the kernel has no seccomp filters, or does not allow one to be set.
    """
    _install(opening_filter(platform.machine()))


def _start(machine: str) -> tuple[list[bytes], int]:
    """Return a filter's first steps, which load the call's number, and the machine's column."""
    if machine not in _MACHINES:
        raise SandboxError(errno.ENOSYS, f"no list of system calls for {machine}")
    audit, column = _MACHINES[machine]
    steps = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_IF_EQUAL, audit, 1, 0),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER),
    ]
    if machine == "x86_64":
        steps += [_step(_IF_AT_LEAST, _X32, 0, 1), _step(_RETURN, _KILL)]
    return steps, column


def _install(code: bytes) -> None:
    """Set a filter on all threads of this process."""
    program = _Program(len(code) // 8, code)
    forbid_new_privileges()
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.syscall(
        ctypes.c_long(SYSTEM_CALLS["seccomp"].numbers[_MACHINES[platform.machine()][1]]),
        ctypes.c_long(_SECCOMP_SET_MODE_FILTER),
        ctypes.c_long(_SECCOMP_FILTER_FLAG_TSYNC),
        ctypes.byref(program),
    )
    if result == 0:
        return
    if result > 0:
        raise SandboxError(errno.EBUSY, f"thread {result} cannot be confined")
    number = ctypes.get_errno()
    alone = len(list(Path("/proc/self/task").glob("*"))) == 1
    if number in (errno.ENOSYS, errno.EINVAL) and alone:
        # Some sandboxes support only the older prctl call, which confines the calling thread alone.
        prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, "set a seccomp filter", ctypes.byref(program))
        return
    raise SandboxError(number, f"cannot set a seccomp filter: {os.strerror(number)}")
