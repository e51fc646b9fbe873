"""Notifications to systemd: readiness, stop and the watchdog (sd_notify(3))."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Mapping


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
