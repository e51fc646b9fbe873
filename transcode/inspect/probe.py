"""Probes an uploaded file in a sandboxed engine.

A probe gets `seconds`; as many may pass before while it waits for a slot.
"""

import asyncio
import logging
import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from transcode.inspect.concurrency import probe_slot
from transcode.protocol.engine_process import spawn_engine
from transcode.protocol.messages import Probed, Refused, WireError

__all__ = ["PROBE_SECONDS", "NotMedia", "ProbeError", "ProbeTimeout", "Probed", "probe"]

log = logging.getLogger(__name__)

# The upload's response waits for it. A file of 500 MB with its index at the end takes 0.2 s.
PROBE_SECONDS: Final = 5.0
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


async def probe(path: Path, *, seconds: float = PROBE_SECONDS) -> Probed:
    """Return the tracks, size and length of a file.

    Raises:
        NotMedia: the file cannot be played or transcoded.
        ProbeTimeout: the engine took more than `seconds`, or had no slot within as many.
        OSError: the file cannot be opened.
    """
    file = await asyncio.to_thread(os.open, path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        async with AsyncExitStack() as held:
            # A file that gets no slot in time is probed again when it is transcoded.
            async with asyncio.timeout(seconds):
                await held.enter_async_context(probe_slot())
            async with asyncio.timeout(seconds):
                return await _run_engine(file)
    except TimeoutError as error:
        raise ProbeTimeout(f"no answer within {seconds:g} s") from error
    finally:
        os.close(file)


async def _run_engine(file: int) -> Probed:
    found: Probed | Refused | None = None
    broken = False
    async with spawn_engine("probe", "probe", file=file) as child:
        try:
            async for report in child.reports():
                if isinstance(report, Probed | Refused):
                    found = report
                    break
        except WireError:
            broken = True
            child.kill()
        status = await child.wait()
    if isinstance(found, Probed):
        return found
    if found is not None:
        raise NotMedia(found.reason)
    if (
        broken or status < 0
    ):  # a signal: the file made it crash, or exceed the limits of its sandbox
        log.warning("probe died", extra={"status": status})
        raise NotMedia(_BROKE_IT)
    log.error("probe failed", extra={"status": status})
    raise ProbeTimeout(f"the probe ended with status {status}")
