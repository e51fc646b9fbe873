"""The parent's handle on one engine process: spawn it, send to it, read from it, wait for its end.

The engine is a child process with three pipes: orders in, reports out, and its standard error. An
engine that works on a file has that file, already open, in place of the orders.
"""

import asyncio
import contextlib
import logging
import sys
from asyncio.subprocess import PIPE, Process, create_subprocess_exec
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from transcode.protocol.file_messages import Keyframe, PosterKeyframe
from transcode.protocol.messages import EngineOrder, EngineReport, WireError, pack
from transcode.protocol.report_reader import ReportReader
from transcode.protocol.watch_messages import WatchOrder

log = logging.getLogger(__name__)
security = logging.getLogger("security")

# From the end of input to the exit: the lookahead of three encoders and one last segment.
STOP_SECONDS: Final = 8.0
# An engine that works on a file reports about once a second while it reads or makes anything. If it
# is silent for so long, it hangs, or the disk does.
SILENT_SECONDS: Final = 60.0
# From the exit to the end of its pipes, which a process that it has started may hold open.
_END_SECONDS: Final = 1.0
_READ_BYTES: Final = 1 << 18
# The pipe buffers this much before `send` waits; the queue with an overload policy is before it.
_WRITE_BYTES: Final = 1 << 20
# Of an engine's standard error: a traceback. A file that controls the engine writes it.
_LOGGED_LINES: Final = 20
_LOGGED_BYTES: Final = 500  # of a line


class EngineLost(Exception):
    """The engine ended before its time; `status` is its exit status (negative: a signal)."""

    def __init__(self, status: int | None) -> None:
        super().__init__(f"engine ended with status {status}")
        self.status = status


class EngineProcess:
    """One running engine, which does the task `kind` for `stream`."""

    def __init__(self, child: Process, kind: str, stream: str) -> None:
        self._child = child
        self._stream = stream
        self._reader = ReportReader(kind)

    @property
    def pid(self) -> int:
        """The process ID."""
        return self._child.pid

    async def send(self, *orders: EngineOrder | WatchOrder | Keyframe | PosterKeyframe) -> None:
        """Write orders; wait while the engine does not read.

        Raises:
            EngineLost: the engine no longer reads.
        """
        pipe = self._child.stdin
        if pipe is None or pipe.transport.is_closing():
            raise EngineLost(self._child.returncode)
        try:
            pipe.write(pack(*orders))
            await pipe.drain()
        # uvloop raises RuntimeError for a pipe that broke since the last turn of the loop.
        except (BrokenPipeError, ConnectionResetError, RuntimeError) as error:
            raise EngineLost(self._child.returncode) from error

    def close_input(self) -> None:
        """Close the input, upon which the engine finishes its work and exits."""
        if self._child.stdin is not None:
            self._child.stdin.close()

    async def wait_for_input(self) -> None:
        """Wait until the input is closed, after `close_input`.

        Otherwise Python 3.11.2 logs an error if the engine has died before it read everything.
        """
        if self._child.stdin is not None:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                await self._child.stdin.wait_closed()

    async def reports(
        self, *, silent_seconds: float | None = None
    ) -> AsyncGenerator[EngineReport, None]:
        """Yield the engine's reports until it closes its output.

        An engine that sends anything else, or more than its kind may send, is killed and recorded
        in the security log.

        Raises:
            WireError: its output is no report, or too much (see `report_bounds`).
            TimeoutError: nothing came for `silent_seconds`.
        """
        pipe = self._child.stdout
        while pipe is not None:
            async with asyncio.timeout(silent_seconds):
                data = await pipe.read(_READ_BYTES)
            if not data:
                return
            self._reader.add(data)
            while (report := self._next_report()) is not None:
                yield report

    def _next_report(self) -> EngineReport | None:
        try:
            return self._reader.next()
        except WireError as error:
            self.kill()
            security.info("engine lost", extra={"stream": self._stream, "cause": str(error)})
            raise

    def kill(self) -> None:
        """Kill the engine."""
        with contextlib.suppress(ProcessLookupError):
            self._child.kill()

    async def wait(self) -> int:
        """Wait for the exit and return the status."""
        return await self._child.wait()


@asynccontextmanager
async def spawn_engine(
    kind: str,
    stream: str,
    *arguments: str,
    module: str = "transcode.engine",
    file: int | None = None,
) -> AsyncGenerator[EngineProcess, None]:
    """Run an engine for the length of the block; it has ended when the block ends.

    `kind` is its task ("live"), `stream` names it in the log, and `module` is the Python module to
    run. `file` is the descriptor that it reads instead of orders; the caller still owns it. On
    leaving, the input is closed. After `STOP_SECONDS`, or if the block fails or is cancelled, the
    engine is killed.
    """
    child = await create_subprocess_exec(
        sys.executable,
        "-I",
        "-m",
        module,
        kind,
        *arguments,
        stdin=PIPE if file is None else file,
        stdout=PIPE,
        stderr=PIPE,
        limit=_READ_BYTES,
        # The service's environment is not passed on: it may hold a secret.
        env={"LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"},
        cwd="/",
    )
    if child.stdin is not None:
        child.stdin.transport.set_write_buffer_limits(high=_WRITE_BYTES)
    handle = EngineProcess(child, kind, stream)
    failure: Exception | None = None
    async with asyncio.TaskGroup() as tasks:
        listening = tasks.create_task(_log_stderr(child, stream))
        try:
            yield handle
            handle.close_input()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STOP_SECONDS):
                    await child.wait()
        except Exception as error:  # noqa: BLE001 # raised below
            failure = error  # raised in the group it would come out as an ExceptionGroup
        finally:
            if child.returncode is None:
                handle.kill()
            await child.wait()
            # A pipe that is not read to its end stays open until the garbage collector finds it.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_END_SECONDS):
                    await _drop(child.stdout)
                    await listening
            listening.cancel()
            handle.close_input()
            await handle.wait_for_input()
    if failure is not None:
        raise failure


async def _log_stderr(child: Process, stream: str) -> None:
    """Log the first lines of an engine's standard error and drop the others."""
    lines = 0
    while child.stderr is not None and lines < _LOGGED_LINES:
        try:
            line = await child.stderr.readline()
        except ValueError:  # too long: the reader has dropped it
            continue
        if not line:
            return
        lines += 1
        text = line[:_LOGGED_BYTES].decode(errors="replace").rstrip()
        log.warning("engine output", extra={"stream": stream, "engine": child.pid, "text": text})
    # Not by lines: a flood of empty ones would keep the event loop from everything else.
    await _drop(child.stderr)


async def _drop(pipe: asyncio.StreamReader | None) -> None:
    """Read what is left and forget it."""
    while pipe is not None and await pipe.read(_READ_BYTES):
        pass
