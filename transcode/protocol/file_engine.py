"""Runs an engine over a file until it has reported everything, and kills it if it falls silent."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from transcode.protocol.engine_process import SILENT_SECONDS, EngineProcess, spawn_engine
from transcode.protocol.messages import EngineReport, WireError


class EngineEnd(msgspec.Struct, frozen=True):
    """How an engine ended; `status` is its exit status (negative: a signal).

    `failure` is why it was killed: it was silent for too long, or broke the framing.
    """

    status: int
    failure: WireError | TimeoutError | None = None

    @property
    def silent(self) -> bool:
        """True if it reported nothing for too long."""
        return isinstance(self.failure, TimeoutError)


class FileEngine:
    """One engine that works on a file."""

    def __init__(self, process: EngineProcess, silent_seconds: float) -> None:
        self._process = process
        self._silent_seconds = silent_seconds
        self._failure: WireError | TimeoutError | None = None

    async def reports(self) -> AsyncGenerator[EngineReport, None]:
        """Yield the reports until there are no more; `end` tells whether that is all of them."""
        try:
            async for report in self._process.reports(silent_seconds=self._silent_seconds):
                yield report
        except (WireError, TimeoutError) as error:
            self._failure = error
            self.kill()

    def kill(self) -> None:
        """Kill the engine."""
        self._process.kill()

    async def end(self) -> EngineEnd:
        """Wait for the exit and return how the engine ended."""
        return EngineEnd(await self._process.wait(), self._failure)


@asynccontextmanager
async def file_engine(
    kind: str,
    name: str,
    path: Path,
    order: msgspec.Struct | None = None,
    *,
    silent_seconds: float = SILENT_SECONDS,
) -> AsyncGenerator[FileEngine, None]:
    """Run an engine of a kind over the file at `path` for the length of the block.

    `name` names the file in the log, and `order` says what to make of it. An engine that reports
    nothing for `silent_seconds` is killed.

    Raises:
        OSError: the file cannot be opened, or no process started.
    """
    arguments = () if order is None else (msgspec.json.encode(order).decode(),)
    file = await asyncio.to_thread(os.open, path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        async with spawn_engine(kind, name, *arguments, file=file) as process:
            yield FileEngine(process, silent_seconds)
    finally:
        os.close(file)
