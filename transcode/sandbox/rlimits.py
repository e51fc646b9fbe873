"""The box that an engine puts itself in before it looks at strangers' bytes.

A decoder that is taken over finds no network, no other process to touch, no file it may write, and
bounded memory. Sync, and free of all but the operating system: an engine imports it first. Files
that the engine's user can read are hidden by `transcode.sandbox.landlock`.
Sources: seccomp(2), prctl(2), setrlimit(2); Linux's include/uapi/linux/{filter,seccomp,audit}.h.
"""

import ctypes
import errno
import os
import platform
import resource
import signal
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

__all__ = [
    "BoxError",
    "change_filter",
    "deny_changes",
    "deny_network",
    "deny_openings",
    "die_with_parent",
    "forbid_new_privileges",
    "network_filter",
    "opening_filter",
    "set_limits",
]

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_SECCOMP: Final = 22
_PR_SET_NO_NEW_PRIVS: Final = 38
_SECCOMP_MODE_FILTER: Final = 2
_SECCOMP_SET_MODE_FILTER: Final = 1
_SECCOMP_FILTER_FLAG_TSYNC: Final = 1

# AUDIT_ARCH and the place of a machine's numbers in the tables below. Both are little-endian.
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
_PRLIMIT, _CLONE, _CLONE3, _SECCOMP = (302, 261), (56, 220), (435, 435), (317, 277)
# Calls that open a file, and which of their arguments holds the flags; openat2's are in memory.
_OPENING: Final[Mapping[str, tuple[tuple[int, int], int]]] = {
    "open": ((2, _NONE), 1),
    "openat": ((257, 56), 2),
}
_OPENAT2: Final = (437, 437)
_CHANGING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_CLONE_THREAD: Final = 0x0001_0000

# Instructions of classic BPF, and where seccomp_data keeps what they load.
_LOAD, _IF_EQUAL, _IF_AT_LEAST, _IF_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_ALLOW: Final = 0x7FFF_0000
_KILL: Final = 0x8000_0000
_FAIL: Final = 0x0005_0000  # with the errno in the lower half


class BoxError(OSError):
    """The box could not be closed: the kernel or the machine lacks something, or forbids it."""


class _Program(ctypes.Structure):
    """sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def _step(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    """Return one sock_filter: a jump skips `then` or `otherwise` instructions."""
    return struct.pack("=HBBI", code, then, otherwise, value)


_DENY: Final = _step(_RETURN, _FAIL | errno.EPERM)
_NOT_KNOWN: Final = _step(_RETURN, _FAIL | errno.ENOSYS)
_GO_AHEAD: Final = _step(_RETURN, _ALLOW)


def _refuse(calls: Iterable[tuple[int, int]], place: int, answer: bytes = _DENY) -> list[bytes]:
    numbers = [call[place] for call in calls if call[place] != _NONE]
    return [step for number in numbers for step in (_step(_IF_EQUAL, number, 0, 1), answer)]


def _look(call: tuple[int, int], place: int, argument: int, *tests: bytes) -> list[bytes]:
    """Return the steps for one call: `tests` on an argument's lower half, then deny, then allow."""
    if call[place] == _NONE:
        return []
    load = _step(_LOAD, _ARGUMENTS + 8 * argument)
    return [_step(_IF_EQUAL, call[place], 0, len(tests) + 3), load, *tests, _DENY, _GO_AHEAD]


def network_filter(machine: str, process: int) -> bytes:
    """Return the classic BPF program behind `deny_network`, for a `platform.machine()`.

    `process` is the number of the process that it is for: that one may be sent signals.

    Raises:
        BoxError: there is no list of calls for this machine.
    """
    steps, place = _start(machine)
    steps += _refuse(_OUTSIDE.values(), place)
    # Threads yes, processes no. clone3's flags lie in memory, where no filter can look: "not
    # known" sends the C library back to clone.
    steps += _refuse([_CLONE3], place, _NOT_KNOWN)
    steps += _look(_CLONE, place, 0, _step(_IF_ANY_BIT, _CLONE_THREAD, 1, 0))
    # abort() and raise() signal the process itself.
    for call in _ITSELF.values():
        steps += _look(call, place, 0, _step(_IF_EQUAL, process, 1, 0))
    itself = (_step(_IF_EQUAL, 0, 2, 0), _step(_IF_EQUAL, process, 1, 0))
    steps += _look(_PRLIMIT, place, 0, *itself)
    return b"".join((*steps, _GO_AHEAD))


def change_filter(machine: str) -> bytes:
    """Return the classic BPF program behind `deny_changes`, for a `platform.machine()`.

    Raises:
        BoxError: there is no list of calls for this machine.
    """
    steps, place = _start(machine)
    steps += _refuse(_CHANGES.values(), place)
    steps += _refuse([_OPENAT2], place, _NOT_KNOWN)
    for call, argument in _OPENING.values():
        steps += _look(call, place, argument, _step(_IF_ANY_BIT, _CHANGING, 0, 1))
    return b"".join((*steps, _GO_AHEAD))


def opening_filter(machine: str) -> bytes:
    """Return the classic BPF program behind `deny_openings`, for a `platform.machine()`.

    Raises:
        BoxError: there is no list of calls for this machine.
    """
    steps, place = _start(machine)
    steps += _refuse([_OPENAT2], place, _NOT_KNOWN)
    steps += _refuse([call for call, _ in _OPENING.values()], place)
    return b"".join((*steps, _GO_AHEAD))


def deny_network() -> None:
    """Deny this process, for good, sockets and whatever else reaches outside of it.

    Sockets of all families, io_uring, new processes and programs, other processes' memory and
    signals, mounts, keys and kernel programs answer EPERM from now on; threads, files and pipes
    work as before. A call by another architecture's numbers kills the process. Other threads are
    boxed in too, or it fails.

    Raises:
        BoxError: the kernel has no seccomp filters, or does not let us set one.
    """
    _install(network_filter(platform.machine(), os.getpid()))


def deny_changes() -> None:
    """Deny this process, for good, to make, open for writing, rename or remove files.

    Descriptors that are open already go on: pipes are written as before, and `set_limits` bounds
    what files can take. /dev/null is a file too.

    Raises:
        BoxError: the kernel has no seccomp filters, or does not let us set one.
    """
    _install(change_filter(platform.machine()))


def deny_openings() -> None:
    """Deny this process, for good, to open any file, for reading too.

    What is open already can be read on. Modules that are not loaded yet, and whatever the libraries
    would read when they need it, are out of reach from now on.

    Raises:
        BoxError: the kernel has no seccomp filters, or does not let us set one.
    """
    _install(opening_filter(platform.machine()))


def _start(machine: str) -> tuple[list[bytes], int]:
    """Return a filter's first steps, after which the call's number is loaded; and its column."""
    if machine not in _MACHINES:
        raise BoxError(errno.ENOSYS, f"no list of system calls for {machine}")
    audit, place = _MACHINES[machine]
    steps = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_IF_EQUAL, audit, 1, 0),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER),
    ]
    if machine == "x86_64":
        steps += [_step(_IF_AT_LEAST, _X32, 0, 1), _step(_RETURN, _KILL)]
    return steps, place


def _install(code: bytes) -> None:
    """Set a filter on all threads of this process."""
    program = _Program(len(code) // 8, code)
    forbid_new_privileges()
    libc = ctypes.CDLL(None, use_errno=True)
    answer = libc.syscall(
        ctypes.c_long(_SECCOMP[_MACHINES[platform.machine()][1]]),
        ctypes.c_long(_SECCOMP_SET_MODE_FILTER),
        ctypes.c_long(_SECCOMP_FILTER_FLAG_TSYNC),
        ctypes.byref(program),
    )
    if answer == 0:
        return
    if answer > 0:
        raise BoxError(errno.EBUSY, f"thread {answer} cannot be boxed in")
    number = ctypes.get_errno()
    alone = len(list(Path("/proc/self/task").glob("*"))) == 1
    if number in (errno.ENOSYS, errno.EINVAL) and alone:
        # Sandboxes that know prctl's older door only; it boxes in the calling thread alone.
        _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, "set a seccomp filter", program)
        return
    raise BoxError(number, f"cannot set a seccomp filter: {os.strerror(number)}")


def forbid_new_privileges() -> None:
    """Have no program that this process starts gain privileges; without it none may box itself in.

    Raises:
        BoxError: the kernel does not do it.
    """
    _prctl(_PR_SET_NO_NEW_PRIVS, 1, "forbid new privileges")


def set_limits(
    *,
    memory_bytes: int,
    files: int = 64,
    cpu_seconds: int | None = None,
    nice: int = 0,
    batch: bool = False,
) -> None:
    """Bound what this process may use; the bounds cannot be taken back.

    `memory_bytes` bounds the data it allocates (past it: MemoryError, or the library's own word
    for it), `files` its open descriptors, `cpu_seconds` its processor time. It can grow no file,
    not even its standard error where that is one (pipes are no files), and leaves no core dump,
    which would hold what it decoded. `nice` is added to its niceness; a `batch` takes no processor
    away from who wakes up. (What reads the disk gives way by its niceness, too: ioprio_get(2).)

    Raises:
        BoxError: a limit cannot be set.
    """
    limits = {
        # RLIMIT_DATA and not RLIMIT_AS alone: each thread reserves 64 MiB of addresses for its
        # heap and 8 MiB for its stack without using them. The addresses stay bounded all the same,
        # since shared mappings are not counted as data.
        resource.RLIMIT_DATA: memory_bytes,
        resource.RLIMIT_AS: memory_bytes + (4 << 30),
        resource.RLIMIT_NOFILE: files,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_CORE: 0,
    }
    if cpu_seconds is not None:
        limits[resource.RLIMIT_CPU] = cpu_seconds
    try:
        for kind, most in limits.items():
            _, hard = resource.getrlimit(kind)
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(kind, (most, most))
        if nice:
            os.nice(nice)
        if batch:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    except (OSError, ValueError) as error:
        raise BoxError(errno.EPERM, f"cannot set a limit: {error}") from error


def die_with_parent(parent: int | None = None) -> None:
    """Have this process killed when its parent ends, however that ends.

    `parent` is the parent's number where it is known: it may have ended before we came this far,
    and then this process exits at once. The kernel watches the parent's *thread* that started us,
    so that an engine must be started by a thread that lasts.

    Raises:
        BoxError: the kernel does not do it.
    """
    before = os.getppid() if parent is None else parent
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, "follow the parent")
    if os.getppid() != before:
        os.kill(os.getpid(), signal.SIGKILL)


def _prctl(option: int, value: int, what: str, program: _Program | None = None) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    third = ctypes.c_ulong(0) if program is None else ctypes.byref(program)
    zero = ctypes.c_ulong(0)
    if libc.prctl(ctypes.c_int(option), ctypes.c_ulong(value), third, zero, zero) != 0:
        number = ctypes.get_errno()
        raise BoxError(number, f"cannot {what}: {os.strerror(number)}")
