"""Notifications to systemd (sd_notify(3)), and the sockets that it holds (sd_listen_fds(3)).

It is told of readiness, of a stop, and that the event loop runs. Clients that connect to a held
socket while the service restarts wait, and are not refused.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Mapping, MutableMapping
from typing import Final

_FIRST_SOCKET: Final = 3  # SD_LISTEN_FDS_START


def take_sockets(environment: MutableMapping[str, str] = os.environ) -> list[socket.socket]:
    """Return the listening sockets that the service manager passed to this process.

    They are taken once: child processes get neither them nor the variables that name them.
    """
    names = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")
    process, count, _ = (environment.pop(name, "") for name in names)
    if process != str(os.getpid()) or not count.isdigit():
        return []
    sockets = [
        socket.socket(fileno=number) for number in range(_FIRST_SOCKET, _FIRST_SOCKET + int(count))
    ]
    for sock in sockets:
        sock.set_inheritable(False)
        sock.setblocking(False)
    return sockets


def notify(state: str, environment: Mapping[str, str] = os.environ) -> None:
    """Send a state such as "READY=1" to the service manager, if there is one."""
    address = environment.get("NOTIFY_SOCKET", "")
    if not address:
        return
    # A name that begins with @ is in the abstract namespace.
    address = f"\0{address[1:]}" if address.startswith("@") else address
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        # A manager that does not read its socket must not block the service.
        sock.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            sock.sendto(state.encode(), address)


async def keep_watchdog(environment: Mapping[str, str] = os.environ) -> None:
    """Report twice per watchdog period that the event loop runs, until cancelled."""
    period = int(environment.get("WATCHDOG_USEC", "0")) / 1e6
    if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()) or not period:
        return
    while True:
        notify("WATCHDOG=1", environment)
        await asyncio.sleep(period / 2)
