"""A file's own subtitles: read by a sandboxed engine, and stored as WebVTT.

Each track is one segment for the whole video: two hours of dialogue are 100 kB. A video without its
subtitles is still a video, so every failure here is a warning.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from media.hls.webvtt import render
from media.languages import language_name
from media.ticks import ORIGIN_SECONDS, VIDEO_SCALE
from storage.catalog.records.transcoding import MadeSubtitles
from storage.objects.addresses import video_subtitles
from storage.objects.base import Objects
from transcode.protocol.engine_process import SILENT_SECONDS
from transcode.protocol.file_engine import file_engine
from transcode.protocol.file_messages import SubtitleTrack
from transcode.protocol.messages import Refused, Trouble

__all__ = ["read_subtitles", "store_subtitles"]

log = logging.getLogger(__name__)

_UNNAMED: Final = "Subtitles"
# What an engine reports; one that a file controls might fill the memory with others.
_TROUBLES: Final = frozenset({"subtitles are pictures", "subtitles cut"})


async def read_subtitles(
    name: str, path: Path, warnings: dict[str, int], *, seconds: float = SILENT_SECONDS
) -> tuple[SubtitleTrack, ...]:
    """Return the subtitles in the file of the video `name`; add what went wrong to `warnings`.

    An engine that reports nothing for `seconds` is killed.

    Raises:
        OSError: the file cannot be opened.
    """
    tracks: list[SubtitleTrack] = []
    async with file_engine("subtitles", name, path, silent_seconds=seconds) as engine:
        async for report in engine.reports():
            match report:
                case SubtitleTrack():
                    tracks.append(report)
                case Trouble() if report.what in _TROUBLES:
                    warnings[report.what] = 1
                case Refused():
                    warnings["subtitles not read"] = 1
                case _:
                    pass
        status = (await engine.end()).status
    if status != 0:
        log.warning("subtitles not read", extra={"video": name, "status": status})
        warnings["subtitles not read"] = 1
    return tuple(tracks)


async def store_subtitles(
    objects: Objects, hash_: str, folder: str, tracks: Sequence[SubtitleTrack]
) -> tuple[MadeSubtitles, ...]:
    """Store subtitles below a folder of a video and return what was stored.

    Raises:
        ObjectError: some could not be stored.
    """
    stored: list[MadeSubtitles] = []
    names: set[str] = set()
    for number, track in enumerate(tracks, 1):
        # The cues begin at the video's first frame, which is at ORIGIN_SECONDS on the media clock.
        data = render(track.cues, ticks=ORIGIN_SECONDS * VIDEO_SCALE).encode()
        rendition = f"words{number}"
        await objects.put(video_subtitles(hash_, folder, rendition), data)
        title = _unique_title(track.title or language_name(track.language) or _UNNAMED, names)
        names.add(title)
        stored.append(
            MadeSubtitles(
                folder=folder,
                rendition=rendition,
                title=title,
                language=track.language,
                forced=track.forced,
                size=len(data),
            )
        )
    return tuple(stored)


def _unique_title(title: str, taken: set[str]) -> str:
    """Return a title that no other track has, without what a playlist cannot carry."""
    plain = "".join(letter if letter.isprintable() and letter != '"' else " " for letter in title)
    plain = " ".join(plain.split()) or _UNNAMED
    candidate, number = plain, 1
    while candidate in taken:
        number += 1
        candidate = f"{plain} ({number})"
    return candidate
