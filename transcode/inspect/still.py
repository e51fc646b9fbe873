"""Scales an image that an owner uploaded, in a sandboxed engine."""

import asyncio
import logging
from pathlib import Path
from typing import Final

from media.ladder import STANDARD_LABELS, Ladder, Rendition, ladder_for
from transcode.inspect.probe import probe_place
from transcode.protocol.file_engine import file_engine
from transcode.protocol.messages import FileOrder, Poster, Refused

log = logging.getLogger(__name__)

# An image of 8192 x 4320 takes 2 s to decode and scale.
_SECONDS: Final = 20.0
_ONLY: Final = "picture"
_BROKE_IT: Final = "The picture cannot be read: it makes the reader fail."


class NotImage(Exception):
    """The file is not an image that can be shown; `reason` is a sentence for its owner."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


async def make_posters(path: Path, width: int, height: int) -> dict[str, bytes]:
    """Return JPEGs of an image, one for each rung of a video of `width` x `height`, by label.

    If the video's size is not known yet (0), the image's own is used.

    Raises:
        NotImage: the file is not an image that can be shown.
        OSError: the file cannot be opened.
    """
    return await _make(
        path, ladder_for(width, height, STANDARD_LABELS) if width and height else None
    )


async def make_image(path: Path, width: int, height: int) -> bytes:
    """Return a JPEG of an image, scaled down to fit `width` x `height`.

    Raises:
        NotImage: the file is not an image that can be shown.
        OSError: the file cannot be opened.
    """
    box = Rendition(name=_ONLY, width=width, height=height, rate=0)
    return (await _make(path, Ladder((box,))))[_ONLY]


async def _make(path: Path, ladder: Ladder | None) -> dict[str, bytes]:
    try:
        async with probe_place(), asyncio.timeout(_SECONDS):
            return await _run_engine(path, FileOrder(ladder=ladder))
    except TimeoutError as error:
        raise NotImage(_BROKE_IT) from error


async def _run_engine(path: Path, order: FileOrder) -> dict[str, bytes]:
    posters: dict[str, bytes] = {}
    refused: Refused | None = None
    async with file_engine("still", "uploaded image", path, order) as engine:
        async for report in engine.reports():
            if isinstance(report, Poster):
                posters[report.label] = report.data
            elif isinstance(report, Refused):
                refused = report
        end = await engine.end()
    if refused is not None:
        raise NotImage(refused.reason)
    if end.failure is not None or end.status or not posters:
        log.warning("image engine died", extra={"status": end.status, "cause": repr(end.failure)})
        raise NotImage(_BROKE_IT)
    return posters
