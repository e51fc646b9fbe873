"""What an uploaded file is, asked of a boxed child; `seconds` is all the time that it gets.

As much again may be spent waiting for its turn, where many files come at once.
"""

import asyncio
import logging
import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from transcode.inspect.concurrency import turn
from transcode.protocol.engine_process import engine
from transcode.protocol.messages import Probed, Refused, WireError

__all__ = ["PROBE_SECONDS", "NotMedia", "ProbeError", "ProbeSlow", "Probed", "probe"]

log = logging.getLogger(__name__)

# An uploader waits for the answer. A file of 500 MB with its index at the end takes 0.2 s.
PROBE_SECONDS: Final = 5.0
_BROKE_IT: Final = "The file cannot be read: it makes the reader fail."


class ProbeError(Exception):
    """There is no knowing what a file is."""


class NotMedia(ProbeError):
    """Nothing can be made of the file; `reason` is a sentence for its owner."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ProbeSlow(ProbeError):
    """No answer in time, or none at all because of us: it may be a good file."""


async def probe(path: Path, *, seconds: float = PROBE_SECONDS) -> Probed:
    """Return what a file is.

    Raises:
        NotMedia: nothing can be made of it.
        ProbeSlow: the child gave no answer within `seconds`, or had no turn within as many.
        OSError: the file cannot be opened.
    """
    file = await asyncio.to_thread(os.open, path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        async with AsyncExitStack() as held:
            # Who gets no turn in time has no answer either: the work on the file will give it.
            async with asyncio.timeout(seconds):
                await held.enter_async_context(turn())
            async with asyncio.timeout(seconds):
                return await _ask(file)
    except TimeoutError as error:
        raise ProbeSlow(f"no answer within {seconds:g} s") from error
    finally:
        os.close(file)


async def _ask(file: int) -> Probed:
    found: Probed | Refused | None = None
    broken = False
    async with engine("probe", "probe", file=file) as child:
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
    if broken or status < 0:  # a signal: the file made it crash, or need more than the box gives
        log.warning("probe died", extra={"status": status})
        raise NotMedia(_BROKE_IT)
    log.error("probe failed", extra={"status": status})
    raise ProbeSlow(f"the probe ended with status {status}")
