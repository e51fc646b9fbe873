"""Probes an uploaded file in a sandboxed engine.

No more than `MAX_PROBES` files are opened at once; the others wait. The probe of an upload gets a
few seconds, and as many before that to wait for a place. The probe of a worker may take as long as
it reads: a recording of 20 GB that was never closed is read to its end.
"""

import asyncio
import logging
from asyncio import AbstractEventLoop
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final
from weakref import WeakKeyDictionary

from transcode.protocol.engine_process import SILENT_SECONDS
from transcode.protocol.file_engine import file_engine
from transcode.protocol.messages import FILE_NOT_READ, Probed, Refused, Trouble, WireError

log = logging.getLogger(__name__)

# The upload's response waits for it. A file of 500 MB with its index at the end takes 0.2 s.
PROBE_SECONDS: Final = 5.0
# Each probe may use 1 GiB of memory, and hostile files do; a good file takes 0.3 s.
MAX_PROBES: Final = 4
_places: WeakKeyDictionary[AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
_BROKE_IT: Final = "The file cannot be read: it makes the reader fail."


class ProbeError(Exception):
    """The file could not be probed."""


class NotMedia(ProbeError):
    """The file cannot be played or transcoded; `reason` is a sentence for its owner."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ProbeTimeout(ProbeError):
    """The probe did not end in time, or failed for another reason: the file may be good."""


@asynccontextmanager
async def probe_place() -> AsyncGenerator[None, None]:
    """Wait for one of this event loop's `MAX_PROBES` places and hold it within the block."""
    places = _places.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(MAX_PROBES))
    async with places:
        yield


async def probe(
    path: Path,
    *,
    name: str = "upload",
    seconds: float | None = PROBE_SECONDS,
    silent_seconds: float = SILENT_SECONDS,
) -> Probed:
    """Return the tracks, size and length of a file.

    `name` names it in the log. With `seconds` None there is no limit while it reads, and it needs
    no place: uploads do not wait for it.

    Raises:
        NotMedia: the file cannot be played or transcoded.
        ProbeTimeout: the engine took more than `seconds`, had no place within as many, or read and
            reported nothing for `silent_seconds`.
        OSError: the file cannot be opened.
    """
    try:
        async with AsyncExitStack() as stack:
            # A file that gets no place in time is probed again when it is transcoded.
            if seconds is not None:
                async with asyncio.timeout(seconds):
                    await stack.enter_async_context(probe_place())
            async with asyncio.timeout(seconds):
                return await _run_engine(name, path, silent_seconds)
    except TimeoutError as error:
        raise ProbeTimeout(f"no answer within {seconds} s") from error


async def _run_engine(name: str, path: Path, silent_seconds: float) -> Probed:
    result: Probed | Refused | None = None
    unread = False
    async with file_engine("probe", name, path, silent_seconds=silent_seconds) as engine:
        async for report in engine.reports():
            if isinstance(report, Probed | Refused):
                result = report
            elif isinstance(report, Trouble) and report.what == FILE_NOT_READ:
                unread = True
        end = await engine.end()
    if unread:
        raise ProbeTimeout("the file could not be read")
    # An engine that also reports what it must not is not believed.
    if isinstance(result, Probed) and not isinstance(end.failure, WireError):
        return result
    if isinstance(result, Refused):
        raise NotMedia(result.reason)
    if end.silent:
        raise ProbeTimeout(f"nothing was read for {silent_seconds:g} s")
    # A negative status is a signal: the file made it crash, or exceed the limits of its sandbox.
    if end.failure is not None or end.status < 0:
        facts = {"file": name, "status": end.status, "cause": repr(end.failure)}
        log.warning("probe died", extra=facts)
        raise NotMedia(_BROKE_IT)
    log.error("probe failed", extra={"file": name, "status": end.status})
    raise ProbeTimeout(f"the probe ended with status {end.status}")
