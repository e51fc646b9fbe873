"""Posters and previews of a video, made by a sandboxed engine.

Posters of an image that an owner uploaded are made in `transcode.inspect.still`.
"""

import asyncio
import logging
import os
from pathlib import Path

import msgspec

from media.ladder import Ladder
from transcode.inspect.probe import NotMedia
from transcode.protocol.engine_process import SILENT_SECONDS, spawn_engine
from transcode.protocol.file_messages import COVER_SIZES
from transcode.protocol.messages import FileOrder, Poster, Previews, Refused, WireError

__all__ = ["PosterError", "VodImages", "make_posters"]

log = logging.getLogger(__name__)


class PosterError(Exception):
    """No posters were made, through no fault of the file."""


class VodImages(msgspec.Struct, frozen=True, kw_only=True):
    """A poster for each rung of a video's ladder, largest first, and the previews.

    `previews` is None if there is only one keyframe, or if the engine broke off making them.
    """

    posters: tuple[Poster, ...]
    previews: Previews | None = None


async def make_posters(
    path: Path, ladder: Ladder | None, *, length_us: int = 0, seconds: float = SILENT_SECONDS
) -> VodImages:
    """Return the images of a video that is `length_us` long (0: as its container declares).

    Without a ladder the file is audio only: its cover art becomes the poster, or else a card.

    Raises:
        NotMedia: no image can be made of the file.
        PosterError: the engine broke off, or reported nothing for `seconds`.
        OSError: the file cannot be opened.
    """
    file = await asyncio.to_thread(os.open, path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return await _run_engine(FileOrder(ladder=ladder, length_us=length_us), file, seconds)
    finally:
        os.close(file)


async def _run_engine(make: FileOrder, file: int, seconds: float) -> VodImages:
    order = msgspec.json.encode(make).decode()
    posters: list[Poster] = []
    most = len(COVER_SIZES if make.ladder is None else make.ladder.renditions)
    previews: Previews | None = None
    refused: Refused | None = None
    silent = False
    async with spawn_engine("poster", "poster", order, file=file) as child:
        try:
            async for report in child.reports(silent_seconds=seconds):
                match report:
                    case Poster() if len(posters) < most:
                        posters.append(report)
                    case Poster():  # a file controls the engine, and might fill the memory
                        child.kill()
                    case Previews():
                        previews = report
                    case Refused():
                        refused = report
                    case _:
                        pass
        except (WireError, TimeoutError) as error:
            # Raised in the block of the engine it would come out as an ExceptionGroup.
            silent = isinstance(error, TimeoutError)
            child.kill()
        status = await child.wait()
    if refused is not None:
        raise NotMedia(refused.reason)
    if len(posters) < most:
        ended = f"the engine ended with status {status}"
        raise PosterError(f"no answer within {seconds:g} s" if silent else ended)
    if status != 0:
        log.warning("no previews", extra={"cause": f"the engine ended with status {status}"})
    return VodImages(posters=tuple(posters), previews=previews)
