import asyncio
import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from headend.config.listen_sockets import bind, port_of
from headend.systemd import keep_watchdog, notify, take_sockets
from tests.support.waiting import SCALE, poll

ROOT: Final = Path(__file__).parents[2]


def test_a_state_reaches_the_manager(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        notify("READY=1", {"NOTIFY_SOCKET": str(tmp_path / "notify")})
        assert manager.recv(100) == b"READY=1"


def test_a_state_reaches_a_manager_in_the_abstract_namespace() -> None:
    name = f"headend-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0{name}")
        notify("READY=1", {"NOTIFY_SOCKET": f"@{name}"})
        assert manager.recv(100) == b"READY=1"


async def test_without_a_manager_nothing_happens() -> None:
    notify("READY=1", {})
    await keep_watchdog({})


def test_the_watchdog_is_notified_while_the_loop_runs(tmp_path: Path) -> None:
    environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "20000"}

    async def life(manager: socket.socket) -> None:
        async with asyncio.TaskGroup() as tasks:
            feeding = tasks.create_task(keep_watchdog(environment))
            for _ in range(3):
                assert await asyncio.to_thread(manager.recv, 100) == b"WATCHDOG=1"
            feeding.cancel()

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(10)
        asyncio.run(life(manager))


async def test_the_watchdog_of_another_process_is_ignored() -> None:
    await keep_watchdog({"WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"})


@pytest.mark.parametrize(
    "environment",
    [{}, {"LISTEN_PID": "1", "LISTEN_FDS": "2"}, {"LISTEN_PID": "own", "LISTEN_FDS": "x"}],
)
def test_sockets_of_another_process_are_not_taken(environment: dict[str, str]) -> None:
    if environment.get("LISTEN_PID") == "own":
        environment["LISTEN_PID"] = str(os.getpid())
    assert take_sockets(environment) == []
    assert environment == {}


def test_held_sockets_are_taken_and_children_get_neither_them_nor_their_names() -> None:
    """systemd's own program holds two sockets, and passes them to a process that takes them."""
    program = (
        "import os, subprocess, sys; from headend.systemd import take_sockets;"
        "own = take_sockets();"
        "print(sorted(sock.getsockname()[0] for sock in own), *map(os.get_inheritable, (3, 4)),"
        " 'LISTEN_FDS' in os.environ, flush=True);"
        "own[0].setblocking(True); own[0].accept()"
    )
    with bind("127.0.0.1:0") as first, bind("[::1]:0") as second:
        ports = port_of(first), port_of(second)
    command = [
        "systemd-socket-activate",
        *("-l", f"127.0.0.1:{ports[0]}", "-l", f"[::1]:{ports[1]}"),
        *("-E", f"PYTHONPATH={ROOT}", sys.executable, "-c", program),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        poll(lambda: connects(ports[0]), what="systemd's program listens")
        out, _ = process.communicate(timeout=20 * SCALE)
    assert process.returncode == 0
    assert out.decode().splitlines() == ["['127.0.0.1', '::1'] False False False"]


def connects(port: int) -> bool:
    with suppress(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port)).close()
        return True
    return False
