"""A video's previews on their way to an object store: a list of times, and the sheets it names.

Whoever can read the list can read all that it names: it is stored last. Folders are an attempt's
own, so what caches keep of them is never wrong.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from media.hls.webvtt import Cue, render
from storage.objects.addresses import video_preview_list, video_preview_sheet
from storage.objects.base import Objects
from transcode.protocol.messages import Previews

__all__ = ["preview_list", "store_previews"]

_LAST_MS: Final = 10_000  # what the last picture stands for, where the film's length is not known


def preview_list(previews: Previews, length_us: int) -> str:
    """Return the list as WebVTT: a cue for each picture, up to the next one's time.

    A cue says where its picture stands, as media fragments do (`sheet-0.jpg#xywh=160,0,160,90`).
    `length_us` is the film's length in microseconds.
    """
    return render(_cues(previews, length_us))


async def store_previews(
    objects: Objects, hash_: str, folder: str, made: Previews, length_us: int
) -> int:
    """Store previews below a video's folder; returns their bytes.

    Raises:
        ObjectError: one could not be stored.
    """
    size = 0
    for number, sheet in enumerate(made.sheets):
        await objects.put(video_preview_sheet(hash_, folder, number), sheet)
        size += len(sheet)
    data = preview_list(made, length_us).encode()
    await objects.put(video_preview_list(hash_, folder), data)
    return size + len(data)


def _cues(previews: Previews, length_us: int) -> Iterator[Cue]:
    times = previews.times
    end = max(length_us // 1000, times[-1] + (1 if length_us else _LAST_MS))
    # Nothing is shown before the first picture, so that one stands for the beginning.
    bounds = (0, *times[1:], end)
    for number, (start, until) in enumerate(pairwise(bounds)):
        if until <= start:
            continue  # two pictures within a millisecond
        sheet, place = divmod(number, previews.per_sheet)
        left = place % previews.columns * previews.width
        top = place // previews.columns * previews.height
        area = f"{left},{top},{previews.width},{previews.height}"
        yield Cue(start, until, f"sheet-{sheet}.jpg#xywh={area}")
