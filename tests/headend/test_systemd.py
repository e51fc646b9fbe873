import asyncio
import os
import socket
from pathlib import Path

from headend.systemd import keep_watchdog, notify


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
