"""A file's own subtitles, made by a boxed child, on their way to an object store.

Each track is one segment of WebVTT for all of the film: the words of two hours are 100 kB. A film
without its subtitles is still a film: what goes wrong with them is a warning.
"""

import asyncio
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from media.hls.webvtt import render
from media.languages import language_name
from media.ticks import ORIGIN_SECONDS, VIDEO_SCALE
from storage.catalog.records.transcoding import MadeSubtitles
from storage.objects.addresses import video_subtitles
from storage.objects.base import Objects
from transcode.protocol.engine_process import engine
from transcode.protocol.file_messages import Subtitles
from transcode.protocol.messages import Refused, Trouble, WireError

__all__ = ["read_subtitles", "store_subtitles"]

log = logging.getLogger(__name__)

# All of the file is read where its container has no index of them; a slow disk has 50 MB a second.
_SECONDS: Final = 300.0
_UNNAMED: Final = "Subtitles"


async def read_subtitles(
    name: str, path: Path, warnings: dict[str, int], *, seconds: float = _SECONDS
) -> tuple[Subtitles, ...]:
    """Return the subtitles in the file of a video; what an owner should know is in `warnings`.

    Raises:
        OSError: the file cannot be opened.
    """
    file = await asyncio.to_thread(os.open, path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        async with asyncio.timeout(seconds):
            found, status = await _ask(name, file, warnings)
    except TimeoutError:
        found, status = (), None
    finally:
        os.close(file)
    if status != 0:
        log.warning("subtitles not read", extra={"video": name, "status": status})
        warnings["subtitles not read"] = 1
    return found


async def _ask(
    name: str, file: int, warnings: dict[str, int]
) -> tuple[tuple[Subtitles, ...], int | None]:
    found: list[Subtitles] = []
    async with engine("subtitles", name, file=file) as child:
        try:
            async for report in child.reports():
                match report:
                    case Subtitles():
                        found.append(report)
                    case Trouble():
                        warnings[report.what] = 1
                    case Refused():
                        warnings["subtitles not read"] = 1
                    case _:
                        pass
        except WireError:
            child.kill()
        status = await child.wait()
    return tuple(found), status


async def store_subtitles(
    objects: Objects, hash_: str, folder: str, found: Sequence[Subtitles]
) -> tuple[MadeSubtitles, ...]:
    """Store subtitles below a folder of a video; returns what there is now.

    Raises:
        ObjectError: some could not be stored.
    """
    made: list[MadeSubtitles] = []
    names: set[str] = set()
    for number, each in enumerate(found, 1):
        # Their time 0 is the film's first picture, which is there on the media's clock.
        data = render(each.cues, ticks=ORIGIN_SECONDS * VIDEO_SCALE).encode()
        rendition = f"words{number}"
        await objects.put(video_subtitles(hash_, folder, rendition), data)
        title = _unlike(each.title or language_name(each.language) or _UNNAMED, names)
        names.add(title)
        made.append(
            MadeSubtitles(
                folder=folder,
                rendition=rendition,
                title=title,
                language=each.language,
                forced=each.forced,
                size=len(data),
            )
        )
    return tuple(made)


def _unlike(title: str, others: set[str]) -> str:
    """Return a title that no other track of the film has, without what a playlist cannot carry."""
    plain = "".join(each if each.isprintable() and each != '"' else " " for each in title)
    plain = " ".join(plain.split()) or _UNNAMED
    found, number = plain, 1
    while found in others:
        number += 1
        found = f"{plain} ({number})"
    return found
