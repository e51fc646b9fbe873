"""Posters of a video and its previews, made by a boxed child.

Those of a picture that an owner sent: `transcode.inspect.still`.
"""

import asyncio
import logging
import os
from pathlib import Path
from typing import Final

import msgspec

from media.ladder import Ladder
from transcode.inspect.probe import NotMedia
from transcode.protocol.engine_process import engine
from transcode.protocol.messages import Make, Poster, Previews, Refused, WireError

__all__ = ["POSTER_SECONDS", "PosterError", "Stills", "posters"]

log = logging.getLogger(__name__)

# The child looks for at most 90 s, and makes the posters and four sheets of what it found.
POSTER_SECONDS: Final = 180.0


class PosterError(Exception):
    """No posters, in time or at all, and the file is not to blame."""


class Stills(msgspec.Struct, frozen=True, kw_only=True):
    """A poster for each rung of a video's ladder, largest first, and its previews.

    `previews` is None where there is but one keyframe, or the child broke off over them.
    """

    posters: tuple[Poster, ...]
    previews: Previews | None = None


async def posters(
    path: Path, ladder: Ladder | None, *, length_us: int = 0, seconds: float = POSTER_SECONDS
) -> Stills:
    """Return the stills of a video that is `length_us` long (0: its container says how long).

    Without a ladder it is sound alone, for which its cover stands, or a card.

    Raises:
        NotMedia: none can be made of it.
        PosterError: the child did not do it, or not within `seconds`.
        OSError: the file cannot be opened.
    """
    file = await asyncio.to_thread(os.open, path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        async with asyncio.timeout(seconds):
            return await _ask(Make(ladder=ladder, length_us=length_us), file)
    except TimeoutError as error:
        raise PosterError(f"no answer within {seconds:g} s") from error
    finally:
        os.close(file)


async def _ask(make: Make, file: int) -> Stills:
    order = msgspec.json.encode(make).decode()
    made: list[Poster] = []
    previews: Previews | None = None
    refused: Refused | None = None
    async with engine("poster", "poster", order, file=file) as child:
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
    return Stills(posters=tuple(made), previews=previews)
