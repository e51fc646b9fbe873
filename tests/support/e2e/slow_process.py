"""Simulates a slow machine by stopping a process for a share of each tenth of a second."""

import contextlib
import os
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

_PERIOD = 0.1  # seconds


def children_of(pid: int) -> list[int]:
    """Return the running child processes of a process."""
    pids: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            pids += [int(child) for child in (task / "children").read_text().split()]
    return pids


class CpuThrottle:
    """The share of time that a process may run; `share` can be set at any time, up to 1.0."""

    def __init__(self, pid: int) -> None:
        self.share = 1.0
        self._pid = pid
        self._over = threading.Event()

    def run(self) -> None:
        """Throttle the process until `release`."""
        while not self._over.is_set():
            if self.share >= 1.0:
                self._over.wait(_PERIOD)
                continue
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGSTOP)
                self._over.wait(_PERIOD * (1 - self.share))
                os.kill(self._pid, signal.SIGCONT)
            self._over.wait(_PERIOD * self.share)

    def release(self) -> None:
        """Let the process run at full speed."""
        self._over.set()


@contextmanager
def throttled(pid: int) -> Generator[CpuThrottle]:
    """Control the speed of a process for the length of the block."""
    throttle = CpuThrottle(pid)
    thread = threading.Thread(target=throttle.run, name="brake")
    thread.start()
    try:
        yield throttle
    finally:
        throttle.release()
        thread.join()
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
