"""Run a command under the restrictions of a systemd unit, where no systemd runs.

It does what the manager does before it executes the service, by the same means (libseccomp and
prctl) and from the same unit file: NoNewPrivileges, CapabilityBoundingSet, SystemCallFilter,
MemoryDenyWriteExecute, RestrictAddressFamilies, RestrictNamespaces, RestrictRealtime, UMask,
LimitNOFILE. Directives that need mounts or another user are ignored: ProtectSystem, ProtectHome,
PrivateTmp, PrivateDevices, PrivateUsers, ProcSubset.
Sources: systemd.exec(5); systemd 252, src/shared/seccomp-util.c.

Usage: confine.py UNIT COMMAND [ARGUMENT...]
"""

import contextlib
import ctypes
import errno
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

ALLOW: Final = 0x7FFF0000  # SCMP_ACT_ALLOW
REFUSE: Final = 0x00050000  # SCMP_ACT_ERRNO, combined with an errno
NOT_EQUAL, EQUAL, AT_LEAST, MASKED = 1, 4, 5, 7  # enum scmp_compare
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_SET_MDWE = 24, 38, 65
PROT_WRITE, PROT_EXEC, SHM_EXEC = 2, 4, 0o100000
CLONE_NAMESPACES: Final = (
    0x00020000,  # mount
    0x02000000,  # cgroup
    0x04000000,  # uts
    0x08000000,  # ipc
    0x10000000,  # user
    0x20000000,  # pid
    0x40000000,  # net
)
REALTIME: Final = (1, 2, 6)  # SCHED_FIFO, SCHED_RR, SCHED_DEADLINE


def directives(unit: Path) -> dict[str, list[str]]:
    """Return the values of a unit's directives; a repeated one has several."""
    values: dict[str, list[str]] = {}
    for line in unit.read_text().splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            values.setdefault(name, []).append(value)
    return values


def system_calls(name: str) -> set[str]:
    """Return the calls of a name in SystemCallFilter=, as resolved by systemd itself."""
    if not name.startswith("@"):
        return {name}
    listing = subprocess.run(
        ["systemd-analyze", "syscall-filter", name], check=True, capture_output=True, text=True
    ).stdout
    members = [line.strip() for line in listing.splitlines()[1:]]
    return {
        call
        for member in members
        if member and not member.startswith("#")
        for call in system_calls(member)
    }


def _allowed(lines: Iterable[str]) -> set[str]:
    allowed: set[str] = set()
    for line in lines:
        names = {call for name in line.lstrip("~").split() for call in system_calls(name)}
        allowed = allowed - names if line.startswith("~") else allowed | names
    # systemd always allows this set, whatever later lines remove.
    return allowed | system_calls("@default")


class _Comparison(ctypes.Structure):
    """struct scmp_arg_cmp."""

    _fields_ = (
        ("arg", ctypes.c_uint),
        ("op", ctypes.c_int),
        ("a", ctypes.c_uint64),
        ("b", ctypes.c_uint64),
    )


class _Filter:
    """A seccomp filter: a default action, and rules."""

    def __init__(self, default: int) -> None:
        self._library = ctypes.CDLL("libseccomp.so.2", use_errno=True)
        self._library.seccomp_init.restype = ctypes.c_void_p
        self._context = ctypes.c_void_p(self._library.seccomp_init(ctypes.c_uint32(default)))

    def rule(self, action: int, call: str, *comparisons: tuple[int, int, int, int]) -> None:
        """Add a rule; like systemd, skip a call that this architecture does not have."""
        number = self._library.seccomp_syscall_resolve_name(call.encode())
        array = (_Comparison * len(comparisons))(*comparisons)
        status = self._library.seccomp_rule_add_array(
            self._context, ctypes.c_uint32(action), number, len(comparisons), array
        )
        if status not in (0, -errno.EDOM, -errno.EFAULT, -errno.EINVAL):
            raise OSError(-status, f"no rule for {call}")

    def load(self) -> None:
        """Apply the filter to this process, its children and the programs that they execute."""
        if status := self._library.seccomp_load(self._context):
            raise OSError(-status, "the filter was not taken")


def _prctl(*arguments: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    padded = [*arguments, 0, 0, 0, 0][:5]
    if library.prctl(*(ctypes.c_ulong(each) for each in padded)):
        raise OSError(ctypes.get_errno(), f"prctl {arguments}")


def _deny_writable_code() -> None:
    refuse = REFUSE | errno.EPERM
    both = PROT_WRITE | PROT_EXEC
    rules = _Filter(ALLOW)
    rules.rule(refuse, "mmap", (2, MASKED, both, both))
    rules.rule(refuse, "mprotect", (2, MASKED, PROT_EXEC, PROT_EXEC))
    rules.rule(refuse, "pkey_mprotect", (2, MASKED, PROT_EXEC, PROT_EXEC))
    rules.rule(refuse, "shmat", (2, MASKED, SHM_EXEC, SHM_EXEC))
    rules.load()
    # systemd 254 and later use the kernel's own feature if available (Linux 6.3).
    with contextlib.suppress(OSError):
        _prctl(PR_SET_MDWE, 1)


def _deny_namespaces_and_realtime() -> None:
    refuse = REFUSE | errno.EPERM
    rules = _Filter(ALLOW)
    for flag in CLONE_NAMESPACES:
        rules.rule(refuse, "clone", (0, MASKED, flag, flag))
        rules.rule(refuse, "unshare", (0, MASKED, flag, flag))
    rules.rule(refuse, "setns")
    # Its flags are in memory, which a filter cannot read: the C library falls back to clone.
    rules.rule(REFUSE | errno.ENOSYS, "clone3")
    for policy in REALTIME:
        rules.rule(refuse, "sched_setscheduler", (1, EQUAL, policy, 0))
    rules.load()


def _deny_families(allowed: set[int]) -> None:
    refuse = REFUSE | errno.EAFNOSUPPORT
    rules = _Filter(ALLOW)
    for family in set(range(64)) - allowed:
        rules.rule(refuse, "socket", (0, EQUAL, family, 0))
    rules.rule(refuse, "socket", (0, AT_LEAST, 64, 0))
    rules.load()


def main() -> None:
    """Apply the restrictions, then execute the command."""
    unit, *command = sys.argv[1:]
    settings = directives(Path(unit))
    calls = _allowed(settings["SystemCallFilter"])
    os.umask(int(settings["UMask"][-1], 8))
    limit = int(settings["LimitNOFILE"][-1])
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    if settings["CapabilityBoundingSet"] == [""] and os.geteuid() == 0:
        last = int(Path("/proc/sys/kernel/cap_last_cap").read_text())
        for capability in range(last + 1):
            _prctl(PR_CAPBSET_DROP, capability)
    if settings["NoNewPrivileges"] == ["yes"]:
        _prctl(PR_SET_NO_NEW_PRIVS, 1)
    if settings["MemoryDenyWriteExecute"] == ["yes"]:
        _deny_writable_code()
    if settings["RestrictNamespaces"] == ["yes"] and settings["RestrictRealtime"] == ["yes"]:
        _deny_namespaces_and_realtime()
    families = settings["RestrictAddressFamilies"][-1].split()
    _deny_families({int(getattr(socket, family)) for family in families})
    listed = _Filter(REFUSE | errno.EPERM)
    for call in calls:
        listed.rule(ALLOW, call)
    listed.load()
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
