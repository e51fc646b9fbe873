"""Resource limits of an engine, and its end with its parent.

The sandbox bounds what an engine can do if a decoder is taken over by hostile media: no network, no
other process, no file to write, and limited memory. `seccomp` and `landlock` are its other parts.
Synchronous, and dependent on the operating system alone, since an engine imports it first.
Sources: prctl(2), setrlimit(2).
"""

import ctypes
import errno
import math
import os
import resource
import signal
from typing import Any, Final

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_NO_NEW_PRIVS: Final = 38


class SandboxError(OSError):
    """The sandbox could not be entered: the kernel or machine lacks something, or forbids it."""


def forbid_new_privileges() -> None:
    """Forbid programs that this process starts to gain privileges; a sandbox requires that.

    Raises:
        SandboxError: the kernel refuses.
    """
    prctl(_PR_SET_NO_NEW_PRIVS, 1, "forbid new privileges")


def set_limits(
    *,
    memory_bytes: int,
    files: int = 64,
    cpu_seconds: int | None = None,
    nice: int = 0,
    batch: bool = False,
) -> None:
    """Limit the resources of this process, irrevocably.

    `memory_bytes` limits the data it allocates (beyond: MemoryError, or the library's equivalent),
    `files` its open descriptors, and `cpu_seconds` its processor time. It cannot enlarge any file,
    not even its standard error if that is one (pipes are not files), and leaves no core dump, which
    would hold what it decoded. `nice` is added to its niceness; with `batch` it never preempts a
    process that wakes up. (Disk reads have a lower priority with its niceness too: ioprio_get(2).)

    Raises:
        SandboxError: a limit cannot be set.
    """
    limits = {
        # RLIMIT_DATA and not RLIMIT_AS alone: each thread reserves 64 MiB of addresses for its
        # heap and 8 MiB for its stack without using them. The addresses are bounded as well,
        # since shared mappings do not count as data.
        resource.RLIMIT_DATA: memory_bytes,
        resource.RLIMIT_AS: memory_bytes + (4 << 30),
        resource.RLIMIT_NOFILE: files,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_CORE: 0,
    }
    if cpu_seconds is not None:
        limits[resource.RLIMIT_CPU] = cpu_seconds
    try:
        for kind, limit in limits.items():
            _, hard = resource.getrlimit(kind)
            limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
            resource.setrlimit(kind, (limit, limit))
        if nice:
            os.nice(nice)
        if batch:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    except (OSError, ValueError) as error:
        raise SandboxError(errno.EPERM, f"cannot set a limit: {error}") from error


def limit_cpu(seconds: float) -> None:
    """Have the kernel end this process by SIGXCPU after `seconds` more of its processor time.

    A later call replaces the limit. It stays below a limit that `set_limits` set.

    Raises:
        SandboxError: the limit cannot be set.
    """
    usage = resource.getrusage(resource.RUSAGE_SELF)
    limit = math.ceil(usage.ru_utime + usage.ru_stime + seconds)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (limit, hard))
    except (OSError, ValueError) as error:
        raise SandboxError(errno.EPERM, f"cannot limit processor time: {error}") from error


def die_with_parent(parent: int | None = None) -> None:
    """Have the kernel kill this process when its parent ends, in whatever way.

    `parent` is the parent's process ID, if known: it may have ended already, and then this process
    exits at once. The kernel watches the parent's *thread* that started this process, so an engine
    must be started by a thread that lasts.

    Raises:
        SandboxError: the kernel refuses.
    """
    expected = os.getppid() if parent is None else parent
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, "follow the parent")
    if os.getppid() != expected:
        os.kill(os.getpid(), signal.SIGKILL)


def prctl(
    option: int,
    value: int,
    what: str,
    argument: Any = 0,  # Any: a number, or a pointer to a structure of ctypes
) -> None:
    """Call prctl(2); `what` describes the call in an error.

    Raises:
        SandboxError: the kernel refuses.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    third = ctypes.c_ulong(argument) if isinstance(argument, int) else argument
    zero = ctypes.c_ulong(0)
    if libc.prctl(ctypes.c_int(option), ctypes.c_ulong(value), third, zero, zero) != 0:
        number = ctypes.get_errno()
        raise SandboxError(number, f"cannot {what}: {os.strerror(number)}")
