"""Posters of a video, made by a boxed child (those that its owner sends: `transcode.still`)."""

import asyncio
import logging
import os
from pathlib import Path
from typing import Final

import msgspec

from media.ladder import Ladder
from transcode.probe import NotMedia
from transcode.process import engine
from transcode.wire import Make, Poster, Refused, WireError

__all__ = ["POSTER_SECONDS", "PosterError", "posters"]

log = logging.getLogger(__name__)

# Thirteen seeks in a 2160p film whose keyframes are far apart took 6 s on a busy core.
POSTER_SECONDS: Final = 60.0


class PosterError(Exception):
    """No posters, in time or at all, and the file is not to blame."""


async def posters(
    path: Path, ladder: Ladder, *, seconds: float = POSTER_SECONDS
) -> tuple[Poster, ...]:
    """Return a poster for each rung of a video's ladder, largest first.

    Raises:
        NotMedia: none can be made of it.
        PosterError: the child did not do it, or not within `seconds`.
        OSError: the file cannot be opened.
    """
    file = await asyncio.to_thread(os.open, path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        async with asyncio.timeout(seconds):
            return await _ask(ladder, file)
    except TimeoutError as error:
        raise PosterError(f"no answer within {seconds:g} s") from error
    finally:
        os.close(file)


async def _ask(ladder: Ladder, file: int) -> tuple[Poster, ...]:
    order = msgspec.json.encode(Make(ladder=ladder)).decode()
    made: list[Poster] = []
    refused: Refused | None = None
    async with engine("poster", "poster", order, file=file) as child:
        try:
            async for report in child.reports():
                match report:
                    case Poster():
                        made.append(report)
                    case Refused():
                        refused = report
                    case _:
                        pass
        except WireError:
            child.kill()
        status = await child.wait()
    if refused is not None:
        raise NotMedia(refused.reason)
    if status != 0 or not made:
        raise PosterError(f"the engine ended with status {status}")
    return tuple(made)
