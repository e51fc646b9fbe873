"""Engines as forks (`tests.support.forks`), and their output."""

import asyncio
import contextlib
import os
import signal
import threading
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Final, cast

from tests.support.engine.measured_engine import is_measured
from tests.support.forks import ForkedProcess, fork, prepare
from transcode.protocol import engine_process

_MODULE = "tests.support.engine.measured_engine" if is_measured() else "transcode.engine.main"
_ENGINE: Final = f"{_MODULE}:main"
_running: list[int] = []  # process IDs of forked engines


def run_engine(
    arguments: Sequence[str],
    source: IO[bytes] | Sequence[bytes],
    *,
    seconds: float,
    pause: float = 0,
) -> tuple[int, bytes, bytes]:
    """Run an engine, and return its exit status, output and standard error.

    It reads that file, or those pieces through a pipe, with a pause of some seconds after each. It
    is killed after so many seconds.
    """
    with contextlib.ExitStack() as pipes, ThreadPoolExecutor(2) as threads:
        output, output_end = _pipe(pipes)
        errors, errors_end = _pipe(pipes)
        input_end, entrance = _pipe(pipes) if isinstance(source, Sequence) else (source, None)
        files = (input_end.fileno(), output_end.fileno(), errors_end.fileno())
        engine = fork(_ENGINE, arguments, files)
        watchdog = threading.Timer(seconds, os.kill, (engine.pid, signal.SIGKILL))
        watchdog.start()
        output_end.close()
        errors_end.close()
        complaining = threads.submit(errors.read)
        if isinstance(source, Sequence) and entrance is not None:
            input_end.close()
            threads.submit(_feed, entrance, source, pause)
        text = output.read()
        status = engine.wait()
        watchdog.cancel()
        return status, text, complaining.result()


def _pipe(pipes: contextlib.ExitStack) -> tuple[IO[bytes], IO[bytes]]:
    """Return the unbuffered reading and writing ends of a pipe."""
    ends = zip(os.pipe(), ("rb", "wb"), strict=True)
    reading, writing = (pipes.enter_context(os.fdopen(end, way, 0)) for end, way in ends)
    return reading, writing


def _feed(entrance: IO[bytes], pieces: Sequence[bytes], pause: float) -> None:
    """Write pieces until the reader closes its end, with a pause (seconds) after each piece."""
    with contextlib.suppress(BrokenPipeError):
        for piece in pieces:
            remaining = memoryview(piece)
            while remaining:
                remaining = remaining[entrance.write(remaining) :]
            time.sleep(pause)
    entrance.close()


def prepare_engines() -> None:
    """Load what engines need, for this process and those that it forks."""
    prepare(_ENGINE)


def begin_at_once() -> None:
    """From now on, start this process's engines as forks."""
    engine_process.create_subprocess_exec = _start  # pyright: ignore[reportPrivateImportUsage]


def running_forks() -> list[int]:
    """Return the process IDs of the forked engines that were not reaped."""
    return list(_running)


class _Child:
    """A forked engine, with the part of `asyncio.subprocess.Process` that its parent uses."""

    def __init__(
        self,
        fork: ForkedProcess,
        stdin: asyncio.StreamWriter | None,
        stdout: asyncio.StreamReader,
        stderr: asyncio.StreamReader,
    ) -> None:
        self.pid = fork.pid
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr
        self._fork = fork
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        self._loop.add_reader(fork, self._end)
        _running.append(self.pid)

    def _end(self) -> None:
        self._loop.remove_reader(self._fork)
        self._fork.poll()
        _running.remove(self.pid)
        self._ended.set()
        if self.stdin is not None:
            self.stdin.close()

    @property
    def returncode(self) -> int | None:
        return self._fork.poll() if self._ended.is_set() else None

    async def wait(self) -> int:
        await self._ended.wait()
        return self._fork.wait()

    def kill(self) -> None:
        if not self._ended.is_set():
            os.kill(self.pid, signal.SIGKILL)


async def _start(
    *command: str, stdin: int, limit: int, env: Mapping[str, str], cwd: str, **pipes: int
) -> Process:
    """Start an engine from its command line, with pipes like those of a process."""
    _, isolated, _, module, *arguments = command
    assert (isolated, module) == ("-I", "transcode.engine")
    assert pipes == {"stdout": PIPE, "stderr": PIPE}
    loop = asyncio.get_running_loop()
    with contextlib.ExitStack() as theirs:

        async def reader() -> tuple[int, asyncio.StreamReader]:
            ours, end = os.pipe()
            theirs.callback(os.close, end)
            stream = asyncio.StreamReader(limit, loop)
            file = os.fdopen(ours, "rb", 0)
            await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stream), file)
            return end, stream

        async def writer() -> tuple[int, asyncio.StreamWriter]:
            end, ours = os.pipe()
            theirs.callback(os.close, end)
            protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader(loop=loop))
            file = os.fdopen(ours, "wb", 0)
            transport, _ = await loop.connect_write_pipe(lambda: protocol, file)
            return end, asyncio.StreamWriter(transport, protocol, None, loop)

        orders, entrance = await writer() if stdin == PIPE else (stdin, None)
        output_end, output = await reader()
        errors_end, errors = await reader()
        engine = fork(_ENGINE, arguments, (orders, output_end, errors_end), env, folder=cwd)
        return cast("Process", _Child(engine, entrance, output, errors))
