"""Seccomp filters of an engine: no network, no other processes, no changes to files.

The filters list what is denied, not what is allowed: which calls decoders and encoders need depends
on FFmpeg, the C library and the kernel of each machine, and a call that is missing from a list of
allowed ones would end a stream after an update of one of them.

Filters are classic BPF programs over the system call's number and arguments. Synchronous, and
dependent on the operating system alone, since an engine imports it first.
Sources: seccomp(2), prctl(2); Linux's include/uapi/linux/{filter,seccomp,audit}.h.
"""

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from transcode.sandbox.rlimits import SandboxError, forbid_new_privileges, prctl

__all__ = [
    "TABLE",
    "change_filter",
    "deny_changes",
    "deny_network",
    "deny_openings",
    "network_filter",
    "opening_filter",
]

_PR_SET_SECCOMP: Final = 22
_SECCOMP_MODE_FILTER: Final = 2
_SECCOMP_SET_MODE_FILTER: Final = 1
_SECCOMP_FILTER_FLAG_TSYNC: Final = 1

# AUDIT_ARCH and the column of a machine's numbers in the tables below. Both are little-endian.
_MACHINES: Final[Mapping[str, tuple[int, int]]] = {
    "x86_64": (0xC000_003E, 0),
    "aarch64": (0xC000_00B7, 1),
}
_NONE: Final = -1  # a call that a machine does not have
# x32 calls come under x86_64's AUDIT_ARCH with this bit in their number, past any list of numbers.
_X32: Final = 0x4000_0000

_Calls = Mapping[str, tuple[int, int]]
_OUTSIDE: Final[_Calls] = {
    "socket": (41, 198), "socketpair": (53, 199), "connect": (42, 203), "bind": (49, 200),
    "listen": (50, 201), "accept": (43, 202), "accept4": (288, 242),
    "sendto": (44, 206), "sendmsg": (46, 211), "sendmmsg": (307, 269),
    "recvfrom": (45, 207), "recvmsg": (47, 212), "recvmmsg": (299, 243),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "fork": (57, _NONE), "vfork": (58, _NONE), "execve": (59, 221), "execveat": (322, 281),
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "tkill": (200, 130), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424), "unshare": (272, 97), "setns": (308, 268),
    "chroot": (161, 51), "pivot_root": (155, 41), "mount": (165, 40), "umount2": (166, 39),
    "fsopen": (430, 430), "fsmount": (432, 432), "move_mount": (429, 429),
    "open_tree": (428, 428), "mount_setattr": (442, 442), "open_by_handle_at": (304, 265),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294),
    # Memory, messages and semaphores that processes share by number or name.
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "msgget": (68, 186),
    "msgsnd": (69, 189), "msgrcv": (70, 188), "msgctl": (71, 187), "semget": (64, 190),
    "semop": (65, 193), "semctl": (66, 191), "semtimedop": (220, 192), "mq_open": (240, 180),
    "mq_unlink": (241, 181), "mq_timedsend": (242, 182), "mq_timedreceive": (243, 183),
    "mq_notify": (244, 184), "kcmp": (312, 272), "process_mrelease": (448, 448),
    # Priorities and places of other processes' work, and of its own among them.
    "sched_setparam": (142, 118), "sched_setscheduler": (144, 119), "sched_setattr": (314, 274),
    "sched_setaffinity": (203, 122), "ioprio_set": (251, 30), "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    # The group and session by which its parent's signals reach it.
    "setpgid": (109, 154), "setsid": (112, 157),
    # The machine: its clock, name, accounts, devices, log and file systems.
    "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171),
    "clock_adjtime": (305, 266), "sethostname": (170, 161), "setdomainname": (171, 162),
    "acct": (163, 89), "swapon": (167, 224), "swapoff": (168, 225), "reboot": (169, 142),
    "quotactl": (179, 60), "syslog": (103, 116), "iopl": (172, _NONE), "ioperm": (173, _NONE),
    "personality": (135, 92), "fanotify_init": (300, 262), "fanotify_mark": (301, 263),
    "name_to_handle_at": (303, 264),
}  # fmt: skip
_CHANGES: Final[_Calls] = {
    "creat": (85, _NONE), "truncate": (76, 45), "ftruncate": (77, 46), "fallocate": (285, 47),
    "unlink": (87, _NONE), "unlinkat": (263, 35), "rmdir": (84, _NONE),
    "rename": (82, _NONE), "renameat": (264, 38), "renameat2": (316, 276),
    "link": (86, _NONE), "linkat": (265, 37), "symlink": (88, _NONE), "symlinkat": (266, 36),
    "mkdir": (83, _NONE), "mkdirat": (258, 34), "mknod": (133, _NONE), "mknodat": (259, 33),
    "chmod": (90, _NONE), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, _NONE), "lchown": (94, _NONE), "fchown": (93, 55), "fchownat": (260, 54),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    "utime": (132, _NONE), "utimes": (235, _NONE), "futimesat": (261, _NONE),
    "utimensat": (280, 88),
}  # fmt: skip
# Calls whose first argument must be this process.
_ITSELF: Final[_Calls] = {"kill": (62, 129), "tgkill": (234, 131)}
# Calls that are denied for some values of an argument: signals that descriptors send to a process,
# typing into a terminal, outliving the parent.
_PARTLY: Final[Mapping[str, tuple[tuple[int, int], int, tuple[int, ...]]]] = {
    "fcntl": ((72, 25), 1, (8, 10, 15)),  # F_SETOWN, F_SETSIG, F_SETOWN_EX
    "ioctl": ((16, 29), 1, (0x8901, 0x8902, 0x5412)),  # FIOSETOWN, SIOCSPGRP, TIOCSTI
    "prctl": ((157, 167), 0, (1,)),  # PR_SET_PDEATHSIG
}
_SETPRIORITY: Final = (141, 140)
_PRLIMIT, _CLONE, _CLONE3, _SECCOMP = (302, 261), (56, 220), (435, 435), (317, 277)
# Calls that open a file, and which of their arguments holds the flags; openat2's are in memory.
_OPENING: Final[Mapping[str, tuple[tuple[int, int], int]]] = {
    "open": ((2, _NONE), 1),
    "openat": ((257, 56), 2),
}
_OPENAT2: Final = (437, 437)
_CHANGING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_CLONE_THREAD: Final = 0x0001_0000

# Every number that a filter checks.
TABLE: Final[_Calls] = {
    **_OUTSIDE,
    **_CHANGES,
    **_ITSELF,
    **{name: call for name, (call, _) in _OPENING.items()},
    **{name: call for name, (call, *_) in _PARTLY.items()},
    "setpriority": _SETPRIORITY,
    "prlimit64": _PRLIMIT,
    "clone": _CLONE,
    "clone3": _CLONE3,
    "openat2": _OPENAT2,
}

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


def _refuse(calls: Iterable[tuple[int, int]], column: int, answer: bytes = _DENY) -> list[bytes]:
    numbers = [call[column] for call in calls if call[column] != _NONE]
    return [step for number in numbers for step in (_step(_IF_EQUAL, number, 0, 1), answer)]


def _check_argument(
    call: tuple[int, int], column: int, argument: int, *tests: bytes
) -> list[bytes]:
    """Return the steps for one call: `tests` on an argument's lower half, then deny, then allow."""
    if call[column] == _NONE:
        return []
    load = _step(_LOAD, _ARGUMENTS + 8 * argument)
    return [_step(_IF_EQUAL, call[column], 0, len(tests) + 3), load, *tests, _DENY, _PERMIT]


def _none_of(values: tuple[int, ...]) -> list[bytes]:
    """Return tests that deny each of some values (see `_check_argument`)."""
    *others, last = values
    tests = [_step(_IF_EQUAL, value, len(others) - n) for n, value in enumerate(others)]
    return [*tests, _step(_IF_EQUAL, last, 0, 1)]


def network_filter(machine: str, process: int) -> bytes:
    """Return the classic BPF program of `deny_network`, for a `platform.machine()`.

    `process` is the ID of the process that it is for: that one may be sent signals.

    Raises:
        SandboxError: the system calls of this machine are not known.
    """
    steps, column = _start(machine)
    steps += _refuse(_OUTSIDE.values(), column)
    # Threads are allowed, processes are not. clone3's flags are in memory, which no filter can
    # read: ENOSYS makes the C library use clone instead.
    steps += _refuse([_CLONE3], column, _UNKNOWN)
    steps += _check_argument(_CLONE, column, 0, _step(_IF_ANY_BIT, _CLONE_THREAD, 1, 0))
    # abort() and raise() signal the process itself.
    for call in _ITSELF.values():
        steps += _check_argument(call, column, 0, _step(_IF_EQUAL, process, 1, 0))
    itself = (_step(_IF_EQUAL, 0, 2, 0), _step(_IF_EQUAL, process, 1, 0))
    steps += _check_argument(_PRLIMIT, column, 0, *itself)
    # An engine lowers its own priority: of a process (0), this one (0).
    own_priority = (
        _step(_IF_EQUAL, 0, 0, 2),
        _step(_LOAD, _ARGUMENTS + 8),
        _step(_IF_EQUAL, 0, 1, 0),
    )
    steps += _check_argument(_SETPRIORITY, column, 0, *own_priority)
    for call, argument, values in _PARTLY.values():
        steps += _check_argument(call, column, argument, *_none_of(values))
    return b"".join((*steps, _PERMIT))


def change_filter(machine: str) -> bytes:
    """Return the classic BPF program of `deny_changes`, for a `platform.machine()`.

    Raises:
        SandboxError: the system calls of this machine are not known.
    """
    steps, column = _start(machine)
    steps += _refuse(_CHANGES.values(), column)
    steps += _refuse([_OPENAT2], column, _UNKNOWN)
    for call, argument in _OPENING.values():
        steps += _check_argument(call, column, argument, _step(_IF_ANY_BIT, _CHANGING, 0, 1))
    return b"".join((*steps, _PERMIT))


def opening_filter(machine: str) -> bytes:
    """Return the classic BPF program of `deny_openings`, for a `platform.machine()`.

    Raises:
        SandboxError: the system calls of this machine are not known.
    """
    steps, column = _start(machine)
    steps += _refuse([_OPENAT2], column, _UNKNOWN)
    steps += _refuse([call for call, _ in _OPENING.values()], column)
    return b"".join((*steps, _PERMIT))


def deny_network() -> None:
    """Deny this process sockets and everything else that reaches outside of it, irrevocably.

    Sockets of all families, io_uring, new processes and programs, other processes' memory, signals
    and priorities, shared memory and messages, scheduling, mounts, keys, kernel programs and the
    settings of the machine fail with EPERM; threads, files and pipes work as before. A call by
    another architecture's numbers kills the process. All threads are confined, or the call fails.

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
        ctypes.c_long(_SECCOMP[_MACHINES[platform.machine()][1]]),
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
