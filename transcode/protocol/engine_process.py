"""A handle on one engine process: spawn it, talk to it, know when it died.

The engine is a child with nothing but three pipes: orders in, reports out, and its complaints. One
that reads a file has that file, open already, in place of the orders.
"""

import asyncio
import contextlib
import logging
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from transcode.protocol.messages import Order, Report, WireReader, pack

__all__ = ["Engine", "EngineLost", "engine"]

log = logging.getLogger(__name__)

# From the end of input to the exit: the lookahead of three encoders and one last segment.
STOP_SECONDS: Final = 8.0
_READ_BYTES: Final = 1 << 18
# The pipe takes this much before `send` waits; the queue that has a policy stands before it.
_WRITE_BYTES: Final = 1 << 20
_COMPLAINTS: Final = 20  # lines of an engine's standard error that are logged


class EngineLost(Exception):
    """The engine ended without being asked to; `status` is its exit status (negative: a signal)."""

    def __init__(self, status: int | None) -> None:
        super().__init__(f"engine ended with status {status}")
        self.status = status


class Engine:
    """One running engine."""

    def __init__(self, child: asyncio.subprocess.Process) -> None:
        self._child = child
        self._reader: WireReader[Report] = WireReader(Report)

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._child.pid

    async def send(self, order: Order) -> None:
        """Write an order; waits while the engine does not read.

        Raises:
            EngineLost: nobody reads any more.
        """
        pipe = self._child.stdin
        if pipe is None or pipe.transport.is_closing():
            raise EngineLost(self._child.returncode)
        try:
            pipe.write(pack(order))
            await pipe.drain()
        # uvloop says RuntimeError of a pipe that broke since the last turn of the loop.
        except (BrokenPipeError, ConnectionResetError, RuntimeError) as error:
            raise EngineLost(self._child.returncode) from error

    def close_input(self) -> None:
        """Tell the engine that no order follows: it finishes and exits."""
        if self._child.stdin is not None:
            self._child.stdin.close()

    async def reports(self) -> AsyncGenerator[Report, None]:
        """Yield what the engine says until it closes its output.

        Raises:
            WireError: it said something that is no report.
        """
        pipe = self._child.stdout
        while pipe is not None and (data := await pipe.read(_READ_BYTES)):
            for report in self._reader.feed(data):
                yield report

    def kill(self) -> None:
        """End the engine at once."""
        with contextlib.suppress(ProcessLookupError):
            self._child.kill()

    async def wait(self) -> int:
        """Wait for the exit and return its status."""
        return await self._child.wait()


@asynccontextmanager
async def engine(
    kind: str,
    stream: str,
    *arguments: str,
    module: str = "transcode.engine",
    file: int | None = None,
) -> AsyncGenerator[Engine, None]:
    """Run an engine for the length of the block; it is gone when the block ends.

    `kind` is what it does ("live"); `stream` names it in the log; `module` is what is run. `file`
    is the descriptor that it reads instead of orders; it stays the caller's. On leaving, its input
    is closed; past `STOP_SECONDS`, or where the block is cancelled, it is killed.
    """
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-m",
        module,
        kind,
        *arguments,
        stdin=asyncio.subprocess.PIPE if file is None else file,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=_READ_BYTES,
        # Nothing of the service's environment: it may hold a secret.
        env={"LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"},
        cwd="/",
    )
    if child.stdin is not None:
        child.stdin.transport.set_write_buffer_limits(high=_WRITE_BYTES)
    handle = Engine(child)
    async with asyncio.TaskGroup() as tasks:
        listening = tasks.create_task(_complaints(child, stream))
        try:
            yield handle
            handle.close_input()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STOP_SECONDS):
                    await child.wait()
        finally:
            if child.returncode is None:
                handle.kill()
            await child.wait()
            listening.cancel()


async def _complaints(child: asyncio.subprocess.Process, stream: str) -> None:
    """Log an engine's first lines on its standard error and drop the others."""
    lines = 0
    while child.stderr is not None:
        try:
            line = await child.stderr.readline()
        except ValueError:  # longer than any line of ours: the reader has dropped it
            continue
        if not line:
            return
        lines += 1
        if lines <= _COMPLAINTS:
            text = line.decode(errors="replace").rstrip()
            log.warning("engine says", extra={"stream": stream, "engine": child.pid, "text": text})
