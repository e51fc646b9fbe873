"""Child processes for the length of a block, and their processor time and memory.

Times are nanoseconds of CPU as the scheduler counted them, memory is resident bytes; both are of a
process with all its descendants and threads. Linux alone has these files.
"""

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

END_SECONDS: Final = 5.0
PROC: Final = Path("/proc")


class NoAnswer(Exception):
    """A program did not write the expected line in time, or had ended."""


class Child:
    """A program that writes JSON lines to its standard output; other lines are ignored."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self.process = process
        self._log = log
        self._lines: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout or ():
            with contextlib.suppress(json.JSONDecodeError):
                facts = json.loads(line)
                if isinstance(facts, dict):
                    self._lines.put(facts)  # pyright: ignore[reportUnknownArgumentType] # JSON
        self._lines.put(None)

    def wait(self, event: str, seconds: float) -> dict[str, Any]:
        """Return the next line about `event`.

        Raises:
            NoAnswer: it did not come in time.
        """
        until = time.monotonic() + seconds
        while True:
            try:
                facts = self._lines.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                facts = None
            if facts is None:
                raise NoAnswer(f"no word of {event}: {self._log.read_text()[-2000:]}")
            if facts["event"] == event:
                return facts

    def end(self) -> None:
        """End the program and its descendants."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(END_SECONDS)
                break
        with contextlib.suppress(ProcessLookupError):  # its descendants
            os.killpg(self.process.pid, signal.SIGKILL)
        self._reader.join(END_SECONDS)
        if self.process.stdout is not None:
            self.process.stdout.close()


@contextmanager
def child(
    command: Sequence[str | Path],
    log: Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Generator[Child, None, None]:
    """Run a program in a process group of its own, which is killed at the end of the block."""
    with log.open("wb") as complaints:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
            cwd=cwd,
            env=None if env is None else {**os.environ, **env},
            process_group=0,
        )
    running = Child(process, log)
    try:
        yield running
    finally:
        running.end()


def cpu_ns(pid: int) -> int:
    """Return the CPU time of a process and its descendants so far."""
    return sum(
        int(_text(task / "schedstat").split()[0] or 0)
        for process in process_tree(pid)
        for task in _tasks(process)
    )


def rss_bytes(pid: int) -> int:
    """Return the resident memory of a process and its descendants."""
    page = os.sysconf("SC_PAGE_SIZE")
    resident = (_text(PROC / str(each) / "statm").split()[1] for each in process_tree(pid))
    return sum(map(int, resident)) * page


def process_tree(pid: int) -> list[int]:
    """Return a process and the processes that it and they have started and that run."""
    pids = [pid]
    for process in pids:  # grows during the iteration
        for task in _tasks(process):
            pids += map(int, _text(task / "children").split())
    return pids


def _tasks(pid: int) -> list[Path]:
    try:
        return list((PROC / str(pid) / "task").iterdir())
    except FileNotFoundError:
        return []


def _text(path: Path) -> str:
    """Return a file of a process; "0 0" if the process has ended."""
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return "" if path.name == "children" else "0 0"
