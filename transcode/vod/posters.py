"""Posters and previews of a video, made by a sandboxed engine.

Posters of an image that an owner uploaded are made in `transcode.inspect.still`.
"""

import asyncio
import logging
import os
from pathlib import Path
from typing import Final

import msgspec

from media.ladder import Ladder
from transcode.inspect.probe import NotMedia
from transcode.protocol.engine_process import spawn_engine
from transcode.protocol.messages import FileOrder, Poster, Previews, Refused, WireError

__all__ = ["POSTER_SECONDS", "PosterError", "VodImages", "make_posters"]

log = logging.getLogger(__name__)

# The engine searches for keyframes for at most 90 s, then makes the posters and four sheets.
POSTER_SECONDS: Final = 180.0


class PosterError(Exception):
    """No posters were made, through no fault of the file."""


class VodImages(msgspec.Struct, frozen=True, kw_only=True):
    """A poster for each rung of a video's ladder, largest first, and the previews.

    `previews` is None if there is only one keyframe, or if the engine broke off making them.
    """

    posters: tuple[Poster, ...]
    previews: Previews | None = None


async def make_posters(
    path: Path, ladder: Ladder | None, *, length_us: int = 0, seconds: float = POSTER_SECONDS
) -> VodImages:
    """Return the images of a video that is `length_us` long (0: as its container says).

    Without a ladder the file is audio only: its cover art becomes the poster, or else a card.

    Raises:
        NotMedia: no image can be made of the file.
        PosterError: the engine broke off, or took more than `seconds`.
        OSError: the file cannot be opened.
    """
    file = await asyncio.to_thread(os.open, path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        async with asyncio.timeout(seconds):
            return await _run_engine(FileOrder(ladder=ladder, length_us=length_us), file)
    except TimeoutError as error:
        raise PosterError(f"no answer within {seconds:g} s") from error
    finally:
        os.close(file)


async def _run_engine(make: FileOrder, file: int) -> VodImages:
    order = msgspec.json.encode(make).decode()
    made: list[Poster] = []
    previews: Previews | None = None
    refused: Refused | None = None
    async with spawn_engine("poster", "poster", order, file=file) as child:
        try:
            async for report in child.reports():
                match report:
                    case Poster():
                        made.append(report)
                    case Previews():
                        previews = report
                    case Refused():
                        refused = report
                    case _:
                        pass
        except WireError:
            child.kill()
        status = await child.wait()
    if refused is not None:
        raise NotMedia(refused.reason)
    whole = len(made) == len(make.ladder.renditions) if make.ladder is not None else bool(made)
    if not whole:
        raise PosterError(f"the engine ended with status {status}")
    if status != 0:
        log.warning("no previews", extra={"cause": f"the engine ended with status {status}"})
    return VodImages(posters=tuple(made), previews=previews)
