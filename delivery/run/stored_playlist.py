"""The media playlists of a run on disk, for other processes and for runs that have ended.

A file lists the newest segments only: those whose steps are in the state of the run and not yet in
its log, half a minute at least. So the bytes that a step costs do not depend on the length of the
window. Where the window is longer, a comment says where it begins, and `StoredPlaylists.read` adds
the older segments from the log. Without them the file is a correct playlist of a shorter window.

Source: draft-pantos-hls-rfc8216bis, 4.1 (comments) and 6.2.2 (live playlists).
"""

import logging
import re
from collections.abc import Iterable
from typing import Final

from delivery.run.run_state import PAGE_STEPS, Step, StepPage
from delivery.run.run_store import run_log
from media.hls.m3u8 import ENDLIST, Lines, SegmentLines, header, merge_lines, segment_lines
from media.hls.playlist import MediaPlaylist
from storage.objects.base import Objects

log = logging.getLogger(__name__)

_WINDOW: Final = re.compile(
    r"#EXT-X-MEDIA-SEQUENCE:(?P<start>[0-9]{1,15})\n"
    r"(?:#.*\n|\n)*?"
    r"#HEADEND-WINDOW:FIRST=(?P<first>[0-9]{1,15}),DISCONTINUITIES=(?P<parted>[0-9]{1,15})\n"
)
# The text of a window of 12 h has 1.7 MB: with five renditions each, of six streams at once.
_MOST_WINDOWS: Final = 32


class PlaylistTail:
    """The lines of the newest steps of one run, in all renditions; each is rendered once.

    `discontinuities` is the number of discontinuities before the first step.
    """

    def __init__(
        self, names: Iterable[str], steps: Iterable[Step], *, discontinuities: int
    ) -> None:
        self._steps: list[Step] = []
        self._lines: dict[str, list[Lines]] = {name: [] for name in names}
        self._discontinuities = discontinuities
        for step in steps:
            self.append(step)

    def append(self, step: Step) -> None:
        """Add the newest step."""
        self._steps.append(step)
        for name, lines in self._lines.items():
            lines.append(segment_lines(step.playlist_entry(name)))

    def drop(self, count: int) -> None:
        """Remove the oldest steps, which a page holds now."""
        self._discontinuities += sum(step.discontinuity for step in self._steps[:count])
        del self._steps[:count]
        for lines in self._lines.values():
            del lines[:count]

    def render(self, *, first: int, discontinuities: int, ended: bool) -> dict[str, str]:
        """Return the text of each rendition's file.

        `first` is the first step of the window, with `discontinuities` before it.
        """
        if not self._steps:
            return {}
        start = self._steps[0].sequence
        skipped = max(0, first - start)
        before = f"#HEADEND-WINDOW:FIRST={first},DISCONTINUITIES={discontinuities}\n"
        opening = MediaPlaylist(
            sequence=start + skipped,
            discontinuities=self._discontinuities if first < start else discontinuities,
        )
        parts = [header(opening, live=True), before if first < start else ""]
        ending = ENDLIST if ended else ""
        return {
            name: "".join([*parts, SegmentLines().join(lines[skipped:]), ending])
            for name, lines in self._lines.items()
        }


class StoredPlaylists:
    """Reads playlists from disk, whole: windows are put together and remembered.

    `read` reads one file if nothing changed since the last time but the newest segments.
    """

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._pages: dict[str, dict[int, Lines]] = {}  # by address and number

    async def read(self, address: str) -> str:
        """Return the text of a live playlist.

        Raises:
            ObjectError: there is none, or the disk failed.
            UnicodeDecodeError: it is damaged.
        """
        text = (await self._objects.get(address)).decode()
        window = _WINDOW.search(text)
        if window is None:
            return text
        first, start = int(window["first"]), int(window["start"])
        pages = await self._before(address, first, start)
        if pages is None:
            log.warning("window incomplete", extra={"address": address})
            return text
        opening = MediaPlaylist(sequence=first, discontinuities=int(window["parted"]))
        return "".join(
            [header(opening, live=True), SegmentLines().join(pages), text[window.end() :]]
        )

    async def _before(self, address: str, first: int, start: int) -> list[Lines] | None:
        """Return the lines of the steps from `first` to before `start`, None if some are gone."""
        folder, name, _ = address.rsplit("/", 2)
        _, hash_, run = folder.split("/")
        whole = -(-first // PAGE_STEPS)  # the first page that is listed as a whole
        numbers = range(first // PAGE_STEPS, -(-start // PAGE_STEPS))
        cached = self._pages.pop(address, {})
        pages = {
            number: cached[number] for number in numbers if number in cached and number >= whole
        }
        missing = [number for number in numbers if number not in pages]
        log_pages = run_log(self._objects, hash_, run).read_all(missing)
        count = PAGE_STEPS * len(pages)
        missing_numbers = iter(missing)
        async for page in log_pages:
            listed = _listed(page, first, start)
            count += len(listed)
            pages[next(missing_numbers)] = merge_lines(
                segment_lines(step.playlist_entry(name)) for step in listed
            )
        if count != start - first:
            return None
        self._pages[address] = pages
        if len(self._pages) > _MOST_WINDOWS:
            del self._pages[next(iter(self._pages))]
        return [pages[number] for number in numbers]


def _listed(page: StepPage | None, first: int, start: int) -> list[Step]:
    return [] if page is None else [step for step in page.steps if first <= step.sequence < start]
