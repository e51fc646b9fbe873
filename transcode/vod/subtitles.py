"""A file's own subtitles: read by a sandboxed engine, and stored as WebVTT.

Each track is cut into segments: players load the one that they need, and some begin anew at 0 if a
seek leads into a segment that began long before. The whole track is stored beside them (two hours
of dialogue are 100 kB), for a worker of 0.2 that may have to list it. A video without its subtitles
is still a video, so every failure here is a warning.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from media.hls.webvtt import Cue, numbers, render, split
from media.languages import language_name
from media.ticks import ORIGIN_SECONDS, VIDEO_SCALE
from storage.catalog.records.transcoding import MadeSubtitles
from storage.objects.addresses import video_subtitles
from storage.objects.at_once import do_each
from storage.objects.base import Objects
from transcode.protocol.engine_process import SILENT_SECONDS
from transcode.protocol.file_engine import file_engine
from transcode.protocol.file_messages import SubtitleTrack
from transcode.protocol.messages import Refused, Trouble

log = logging.getLogger(__name__)

_UNNAMED: Final = "Subtitles"
# Milliseconds that a segment lasts at least; in a bucket, more and smaller objects cost requests.
_SEGMENT_MS: Final = 10_000
# Segments of one track, of which a file may have 32: 10 s up to a video of 40 minutes, 30 s in a
# film of two hours, 150 s in ten hours.
_MOST_SEGMENTS: Final = 240
# A cue is in each segment in which it is shown, most in one. All segments may have so many times
# the letters of the whole, and so many more: cues that last for hours would multiply them.
_MOST_COPIES: Final = 3
_SPARE_LETTERS: Final = 1 << 20
# Segments that are stored at the same time.
_AT_ONCE: Final = 8
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
    objects: Objects,
    hash_: str,
    folder: str,
    tracks: Sequence[SubtitleTrack],
    length_ms: int,
) -> tuple[MadeSubtitles, ...]:
    """Store subtitles below a folder of a video and return what was stored.

    `length_ms` is the length of what plays, 0 if it is not known.

    Raises:
        ObjectError: some could not be stored.
    """
    stored: list[MadeSubtitles] = []
    names: set[str] = set()
    for number, track in enumerate(tracks, 1):
        rendition = f"words{number}"
        step, segments = _segments(track.cues, length_ms)
        files = [_file(track.cues), *map(_file, segments)]

        async def put(
            index: int, rendition: str = rendition, files: Sequence[bytes] = files
        ) -> None:
            await objects.put(video_subtitles(hash_, folder, rendition, index), files[index])

        await do_each(range(len(files)), put, at_once=_AT_ONCE)
        title = _unique_title(track.title or language_name(track.language) or _UNNAMED, names)
        names.add(title)
        stored.append(
            MadeSubtitles(
                folder=folder,
                rendition=rendition,
                title=title,
                language=track.language,
                forced=track.forced,
                size=sum(map(len, files)),
                segments=len(segments),
                segment_ms=step,
                peak=max((8_000 * len(each) // step for each in files[1:]), default=0),
            )
        )
    return tuple(stored)


def _file(cues: Sequence[Cue]) -> bytes:
    """Render cues that begin at the video's first frame: `ORIGIN_SECONDS` on the media clock."""
    return render(cues, ticks=ORIGIN_SECONDS * VIDEO_SCALE).encode()


def _segments(cues: Sequence[Cue], length_ms: int) -> tuple[int, list[list[Cue]]]:
    """Return the length of segments and the cues of each; (0, []) if cues last for too long.

    A cue may be meant to be shown for ever, or to begin after the end: it makes no segment longer.
    """
    end = length_ms or max((cue.end for cue in cues), default=1)
    step = max(_SEGMENT_MS, -(-end // _MOST_SEGMENTS))
    count = -(-end // step)
    whole = sum(len(cue.text) for cue in cues)
    copied = sum(len(cue.text) * len(numbers(cue, step, count)) for cue in cues)
    if copied > _MOST_COPIES * whole + _SPARE_LETTERS:
        return 0, []
    return step, split(cues, step, count)


def _unique_title(title: str, taken: set[str]) -> str:
    """Return a title that no other track has, without what a playlist cannot carry."""
    plain = "".join(letter if letter.isprintable() and letter != '"' else " " for letter in title)
    plain = " ".join(plain.split()) or _UNNAMED
    candidate, number = plain, 1
    while candidate in taken:
        number += 1
        candidate = f"{plain} ({number})"
    return candidate
