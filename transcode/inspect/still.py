"""Posters and the like of a picture that an owner sent, asked of a boxed child."""

import asyncio
import logging
import os
from pathlib import Path
from typing import Final

import msgspec

from media.ladder import STANDARD_LABELS, Ladder, Rendition, ladder_for
from transcode.inspect.concurrency import turn
from transcode.protocol.engine_process import engine
from transcode.protocol.messages import Make, Poster, Refused, WireError

__all__ = ["NotPicture", "picture", "stills"]

log = logging.getLogger(__name__)

# A picture of 8192 x 4320 takes 2 s to be decoded and scaled.
_SECONDS: Final = 20.0
_ONLY: Final = "picture"
_BROKE_IT: Final = "The picture cannot be read: it makes the reader fail."


class NotPicture(Exception):
    """The file is no picture that can be shown; `reason` is a sentence for its owner."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


async def stills(path: Path, width: int, height: int) -> dict[str, bytes]:
    """Return JPEGs of a picture by the labels of the rungs of a video of `width` x `height`.

    A size of 0 is not known yet: then the picture's own takes its place.

    Raises:
        NotPicture: it is none that can be shown.
        OSError: the file cannot be opened.
    """
    return await _made(
        path, ladder_for(width, height, STANDARD_LABELS) if width and height else None
    )


async def picture(path: Path, width: int, height: int) -> bytes:
    """Return a JPEG of a picture in its own shape within `width` x `height`, never scaled up.

    Raises:
        NotPicture: it is none that can be shown.
        OSError: the file cannot be opened.
    """
    box = Rendition(name=_ONLY, width=width, height=height, rate=0)
    return (await _made(path, Ladder((box,))))[_ONLY]


async def _made(path: Path, ladder: Ladder | None) -> dict[str, bytes]:
    file = await asyncio.to_thread(os.open, path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        async with turn(), asyncio.timeout(_SECONDS):
            return await _ask(file, Make(ladder=ladder))
    except TimeoutError as error:
        raise NotPicture(_BROKE_IT) from error
    finally:
        os.close(file)


async def _ask(file: int, make: Make) -> dict[str, bytes]:
    made: dict[str, bytes] = {}
    refused: Refused | None = None
    broken = False
    async with engine("still", "still", msgspec.json.encode(make).decode(), file=file) as child:
        try:
            async for report in child.reports():
                if isinstance(report, Poster):
                    made[report.label] = report.data
                elif isinstance(report, Refused):
                    refused = report
        except WireError:
            broken = True
            child.kill()
        status = await child.wait()
    if refused is not None:
        raise NotPicture(refused.reason)
    if broken or status or not made:
        log.warning("still died", extra={"status": status})
        raise NotPicture(_BROKE_IT)
    return made
