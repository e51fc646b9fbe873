"""Posters and previews of a video: made by a sandboxed engine, and stored.

Previews are sheets of thumbnails, and a WebVTT list that names them. The list is stored last, so
that everything it names can be read. Each attempt has its own folders, so cached images are never
wrong. Posters of an image that an owner uploaded are made in `transcode.inspect.still`.
"""

import logging
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec

from media.hls.webvtt import Cue, render
from media.ladder import Ladder
from storage.objects.addresses import video_poster, video_preview_list, video_preview_sheet
from storage.objects.base import Objects
from transcode.inspect.probe import NotMedia
from transcode.protocol.engine_process import SILENT_SECONDS
from transcode.protocol.file_engine import file_engine
from transcode.protocol.file_messages import COVER_SIZES
from transcode.protocol.messages import FileOrder, Poster, Previews, Refused

log = logging.getLogger(__name__)

_LAST_MS: Final = 10_000  # the last thumbnail's time span, if the video's length is not known


class PosterError(Exception):
    """No posters were made, through no fault of the file."""


class VodImages(msgspec.Struct, frozen=True, kw_only=True):
    """The posters of a video, one for each rung or size, largest first, and the previews.

    `previews` is None if there is only one keyframe, or if the engine broke off making them.
    """

    posters: tuple[Poster, ...]
    previews: Previews | None = None


async def make_images(
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


async def store_images(
    objects: Objects, hash_: str, images: VodImages, posters: str, previews: str, length_us: int
) -> int:
    """Store images in two folders of a video and return the size of the previews in bytes.

    Raises:
        ObjectError: one could not be stored.
    """
    for poster in images.posters:
        await objects.put(video_poster(hash_, posters, poster.label), poster.data)
    if images.previews is None:
        return 0
    size = 0
    for number, sheet in enumerate(images.previews.sheets):
        await objects.put(video_preview_sheet(hash_, previews, number), sheet)
        size += len(sheet)
    data = preview_list(images.previews, length_us).encode()
    await objects.put(video_preview_list(hash_, previews), data)
    return size + len(data)


def preview_list(previews: Previews, length_us: int) -> str:
    """Return the list as WebVTT: a cue for each thumbnail, up to the next one's time.

    A cue's text is a media fragment (`sheet-0.jpg#xywh=160,0,160,90`). `length_us` is the video's
    length in microseconds, 0 if it is not known.
    """
    return render(_cues(previews, length_us))


def _cues(previews: Previews, length_us: int) -> Iterator[Cue]:
    times = previews.times
    end = max(length_us // 1000, times[-1] + (1 if length_us else _LAST_MS))
    # No thumbnail is earlier than the first one, so it also covers the beginning.
    bounds = (0, *times[1:], end)
    for number, (start, until) in enumerate(pairwise(bounds)):
        if until <= start:
            continue  # two thumbnails within a millisecond
        sheet, position = divmod(number, previews.per_sheet)
        left = position % previews.columns * previews.width
        top = position // previews.columns * previews.height
        area = f"{left},{top},{previews.width},{previews.height}"
        yield Cue(start, until, f"sheet-{sheet}.jpg#xywh={area}")
