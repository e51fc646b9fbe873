"""Posters and previews of a video, made by a sandboxed engine.

Posters of an image that an owner uploaded are made in `transcode.inspect.still`.
"""

import logging
from pathlib import Path

import msgspec

from media.ladder import Ladder
from transcode.inspect.probe import NotMedia
from transcode.protocol.engine_process import SILENT_SECONDS
from transcode.protocol.file_engine import file_engine
from transcode.protocol.file_messages import COVER_SIZES
from transcode.protocol.messages import FileOrder, Poster, Previews, Refused

log = logging.getLogger(__name__)


class PosterError(Exception):
    """No posters were made, through no fault of the file."""


class VodImages(msgspec.Struct, frozen=True, kw_only=True):
    """The posters of a video, one for each rung or size, largest first, and the previews.

    `previews` is None if there is only one keyframe, or if the engine broke off making them.
    """

    posters: tuple[Poster, ...]
    previews: Previews | None = None


async def make_posters(
    name: str,
    path: Path,
    ladder: Ladder | None,
    *,
    length_us: int = 0,
    seconds: float = SILENT_SECONDS,
) -> VodImages:
    """Return the images of the video `name`, `length_us` long (0: as its container declares).

    Without a ladder the file is audio only: its cover art becomes the poster, or else a card.

    Raises:
        NotMedia: no image can be made of the file.
        PosterError: the engine broke off, or reported nothing for `seconds`.
        OSError: the file cannot be opened.
    """
    order = FileOrder(ladder=ladder, length_us=length_us)
    posters: list[Poster] = []
    most = len(COVER_SIZES if ladder is None else ladder.renditions)
    previews: Previews | None = None
    refused: Refused | None = None
    async with file_engine("poster", name, path, order, silent_seconds=seconds) as engine:
        async for report in engine.reports():
            match report:
                case Poster() if len(posters) < most:
                    posters.append(report)
                case Poster():  # a hostile file may control the engine: it would fill our memory
                    engine.kill()
                case Previews():
                    previews = report
                case Refused():
                    refused = report
                case _:
                    pass
        end = await engine.end()
    if refused is not None:
        raise NotMedia(refused.reason)
    ended = f"the engine ended with status {end.status}"
    if len(posters) < most:
        raise PosterError(f"no answer within {seconds:g} s" if end.silent else ended)
    if end.status != 0:
        log.warning("no previews", extra={"video": name, "cause": ended})
    return VodImages(posters=tuple(posters), previews=previews)
