"""Processes that start quickly, as forks of a parent that has imported their modules.

Importing often takes longer than the work of a test. A fork still has its own environment, files,
signals and exit status. It starts at the point where the command has imported its modules; tests of
an earlier phase run the command itself.
"""

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Final, NoReturn, Protocol

_MOST_BYTES: Final = 1 << 17  # of a call: the order for a span lists all its cuts
_MOST_FILES: Final = 64  # open in the forking process
_PAUSE: Final = 0.01  # seconds between two polls of a process


class Process(Protocol):
    """The part of `subprocess.Popen` that tests use."""

    pid: int

    @property
    def stdout(self) -> IO[str] | None: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int) -> None: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...


class ForkedProcess:
    """A fork, with the interface of `subprocess.Popen`."""

    def __init__(self, pid: int, ending: IO[bytes], output: IO[str] | None) -> None:
        self.pid = pid
        self.stdout = output
        self._ending = ending
        self._status: int | None = None

    def _read(self) -> bytes | None:
        """Return the bytes received, b"" at the end of the stream, None if there are none yet."""
        return self._ending.read()

    def fileno(self) -> int:
        """Return a descriptor that becomes readable when the process ends."""
        return self._ending.fileno()

    def poll(self) -> int | None:
        """Return the exit status (negative for a signal), or None while the process runs."""
        if self._status is None and (status := self._read()) is not None:
            assert status, f"who waits for process {self.pid} was ended"
            self._status = int(status)
            self._ending.close()
        return self._status

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the process to end, and return its exit status.

        Raises:
            subprocess.TimeoutExpired: it still runs after `timeout` seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while (status := self.poll()) is None:
            if timeout is not None and deadline is not None and time.monotonic() >= deadline:
                raise subprocess.TimeoutExpired(f"fork {self.pid}", timeout)
            time.sleep(_PAUSE)
        return status

    def send_signal(self, sig: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            # It may have ended, with its exit status still unread.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, sig)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


def fork(
    entry: str,
    arguments: Sequence[str],
    files: tuple[int, int, int],
    environment: Mapping[str, str] | None = None,
    output: IO[str] | None = None,
    *,
    folder: str | None = None,
) -> ForkedProcess:
    """Run the function `entry` ("module:name") in a new process, which exits with its result.

    `files` become standard input, output and error; `output` is the reading end of the latter two,
    if the caller reads them as text. `environment` and `folder` default to those of this process.
    """
    readable, writable = os.pipe()
    environment = dict(os.environ if environment is None else environment)
    folder = folder or str(Path.cwd())
    call = json.dumps([entry, list(arguments), environment, folder]).encode()
    assert len(call) <= _MOST_BYTES
    socket.send_fds(_forks(entry), [call], [*files, writable])
    os.close(writable)
    ending = os.fdopen(readable, "rb", 0)
    pid = int(_line(ending))
    os.set_blocking(readable, False)
    return ForkedProcess(pid, ending, output)


def prepare(entry: str) -> None:
    """Import what forks of an entry need; afterwards, forks of this process can call it, too."""
    call = json.dumps([entry]).encode()
    socket.send_fds(_forks(entry), [call], [])


def _line(file: IO[bytes]) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        byte = file.read(1)
        assert byte, "the process that forks has ended"
        line += byte
    return line


@functools.cache
def _forks(entry: str) -> socket.socket:  # one process for each
    """Start the forking process, which ends with this one, and return a socket to it.

    Its command line does not name `entry`: tests search for processes by command line.
    """
    control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", __name__, str(theirs.fileno())]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])
    theirs.close()

    def end() -> None:
        control.close()
        process.wait()

    atexit.register(end)
    return control


def _serve(control: socket.socket) -> None:
    """Fork a process for each call."""
    gc.disable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # from Ctrl-C; it ends with the tests
    while True:
        call, files, _, _ = socket.recv_fds(control, _MOST_BYTES, 4)
        if not call:
            _forget_ended()
            return
        entry, *orders = json.loads(call)
        module, _, name = entry.partition(":")
        main = getattr(importlib.import_module(module), name)
        gc.freeze()
        if not orders:
            continue
        arguments, environment, folder = orders
        if os.fork() == 0:
            control.close()
            *standard, writable = files
            if _keep(writable):
                os._exit(0)
            for number, file in enumerate(standard):
                os.dup2(file, number)
                os.close(file)
            os.environ.clear()
            os.environ.update(environment)
            os.chdir(folder)
            gc.enable()
            run_to_the_end(main, arguments)
        for file in files:
            os.close(file)
        _forget_ended()


def run_to_the_end(main: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> NoReturn:
    """Exit with the result of `main`, without tearing down the loaded modules.

    The teardown would often take longer than the work of the process.
    """
    status: object
    try:
        status = main(arguments)
    except SystemExit as ended:
        status = ended.code
    if not isinstance(status, int | None):
        sys.stderr.write(f"{status}\n")
        status = 1
    # Thread pools stop their threads in these hooks; the interpreter then waits for the threads.
    threading._shutdown()  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]
    atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]
    for file in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            file.flush()
    os._exit(status or 0)


def _forget_ended() -> None:
    """Reap the keepers that have ended, so that their CPU time and their forks' is accounted."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _keep(writable: int) -> bool:
    """Fork; report the process ID and, at its end, the exit status. Return False in the fork."""
    pid = os.fork()
    if pid == 0:
        os.close(writable)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        return False
    os.closerange(0, writable)  # so that its output pipe has no other writer
    os.closerange(writable + 1, _MOST_FILES)
    os.write(writable, f"{pid}\n".encode())
    _, status = os.waitpid(pid, 0)
    os.write(writable, str(os.waitstatus_to_exitcode(status)).encode())
    return True


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
