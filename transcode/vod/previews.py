"""Stores a video's previews: sheets of thumbnails, and a WebVTT list that names them.

The list is stored last, so that everything it names can be read. Each attempt has its own folder,
so cached previews are never wrong.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from media.hls.webvtt import Cue, render
from storage.objects.addresses import video_preview_list, video_preview_sheet
from storage.objects.base import Objects
from transcode.protocol.messages import Previews

_LAST_MS: Final = 10_000  # the last thumbnail's time span, if the video's length is not known


def preview_list(previews: Previews, length_us: int) -> str:
    """Return the list as WebVTT: a cue for each thumbnail, up to the next one's time.

    A cue's text is a media fragment (`sheet-0.jpg#xywh=160,0,160,90`). `length_us` is the video's
    length in microseconds, 0 if it is not known.
    """
    return render(_cues(previews, length_us))


async def store_previews(
    objects: Objects, hash_: str, folder: str, previews: Previews, length_us: int
) -> int:
    """Store previews below a video's folder and return their size in bytes.

    Raises:
        ObjectError: one could not be stored.
    """
    size = 0
    for number, sheet in enumerate(previews.sheets):
        await objects.put(video_preview_sheet(hash_, folder, number), sheet)
        size += len(sheet)
    data = preview_list(previews, length_us).encode()
    await objects.put(video_preview_list(hash_, folder), data)
    return size + len(data)


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
