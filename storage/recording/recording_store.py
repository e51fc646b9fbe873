"""One recording in the object store: the linked media of its run, and the pages of its steps.

Segments and init sections are hard-linked from the run's folder into the video's, so they use no
more room and remain when the run's own are deleted. After a crash, steps that were linked but not
yet written into a page are linked again from the state of the run.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from media.hls.m3u8 import render
from media.ladder import Rendition
from storage.errors import StorageError
from storage.live.page_log import PageLog
from storage.live.run_state import PAGE_STEPS, Step, StepSegment
from storage.objects.addresses import (
    live_init,
    live_segment,
    video_init,
    video_page,
    video_pages,
    video_playlist,
    video_segment,
    video_variants,
)
from storage.objects.base import Objects
from storage.recording.pages import (
    PAGE_TICKS,
    RecordedPlaylists,
    RecordingPage,
    RecordingTotals,
    fit_step,
)

__all__ = ["MEDIA", "ListedStep", "RecordingStore"]

MEDIA: Final = "1-1"  # the folder below the video's: generation 1, attempt 1


class ListedStep(msgspec.Struct, frozen=True, kw_only=True):
    """A listed step, with the rungs of its run and the codecs that are known by rendition."""

    step: Step
    renditions: tuple[Rendition, ...]
    codecs: Mapping[str, str]


class RecordingStore:
    """The recording of the run `run` of a stream as the video `hash`. Only one task may use it."""

    def __init__(self, objects: Objects, *, stream: str, run: str, hash_: str) -> None:
        self.hash = hash_
        self.totals = RecordingTotals()
        self.closed = False
        self._objects = objects
        self._log = PageLog(objects, RecordingPage, lambda number: video_page(hash_, MEDIA, number))
        self._stream = stream
        self._run = run
        self._pages = 0
        self._unwritten_steps: list[Step] = []

    @classmethod
    async def load(cls, objects: Objects, *, stream: str, run: str, hash_: str) -> "RecordingStore":
        """Open a recording, or begin it if it has no page yet.

        Raises:
            ObjectError: the disk failed.
        """
        store = cls(objects, stream=stream, run=run, hash_=hash_)
        store._pages = await store._count()
        for number in reversed(range(store._pages)):
            page = await store._log.read(number)
            if page is not None:
                store.totals, store.closed = page.totals, page.closed
                break
        return store

    async def _count(self) -> int:
        """Return the number of pages; they are numbered from 0."""
        found = await self._objects.addresses(video_pages(self.hash, MEDIA))
        numbers = [address.rpartition("/")[2].removesuffix(".json") for address in found]
        return 1 + max((int(number) for number in numbers if number.isdecimal()), default=-1)

    # -- appending --------------------------------------------------------------------------------

    @property
    def unwritten_count(self) -> int:
        """The number of steps that are not in a page yet."""
        return len(self._unwritten_steps)

    @property
    def is_page_due(self) -> bool:
        """True once enough steps wait for a page."""
        if not self._unwritten_steps:
            return False
        oldest, newest = self._unwritten_steps[0], self._unwritten_steps[-1]
        return len(self._unwritten_steps) >= PAGE_STEPS or newest.end - oldest.end >= PAGE_TICKS

    async def append(self, listed: ListedStep) -> StorageError | None:
        """Link the media of a step, and return the first error if some became gaps.

        A step that is already recorded is ignored.
        """
        if listed.step.sequence <= self.totals.last:
            return None
        lost: dict[str, StorageError] = {}
        init_sizes: dict[str, int] = {}
        for name, segment in listed.step.segments.items():
            if segment.gap:
                continue
            try:
                await self._link(name, segment, listed.step.sequence, init_sizes)
            except StorageError as error:
                lost[name] = error
        step = fit_step(listed.step, self.totals, lost)
        if step is not None:
            self._unwritten_steps.append(step)
            self.totals = self.totals.with_step(step, listed.renditions, listed.codecs, init_sizes)
        return next(iter(lost.values()), None)

    async def _link(
        self, name: str, segment: StepSegment, sequence: int, init_sizes: dict[str, int]
    ) -> None:
        source = live_segment(self._stream, self._run, name, sequence)
        await self._objects.link(source, video_segment(self.hash, MEDIA, name, sequence))
        if self.totals.inits.get(name) != segment.init:
            target = video_init(self.hash, MEDIA, name, segment.init)
            await self._objects.link(live_init(self._stream, self._run, name, segment.init), target)
            found = await self._objects.stat(target)
            init_sizes[name] = 0 if found is None else found.size

    async def write_page(self, *, closed: bool = False) -> None:
        """Write the waiting steps as a page; `closed` makes it the last one.

        Raises:
            ObjectError: it could not be stored; the steps wait for the next call.
        """
        closing = closed and not self.closed and self._pages > 0
        if not self._unwritten_steps and not closing:
            return
        page = RecordingPage(steps=tuple(self._unwritten_steps), totals=self.totals, closed=closed)
        await self._log.write(self._pages, page)
        self._pages += 1
        self._unwritten_steps.clear()
        self.closed = closed

    # -- the end ----------------------------------------------------------------------------------

    async def write_playlists(self) -> int:
        """Write the playlists of all pages and return their size in bytes.

        Raises:
            ObjectError: a playlist could not be stored, or a page could not be read.
        """
        playlists = RecordedPlaylists(self.totals)
        async for page in self._log.read_all(range(self._pages)):
            playlists.add(() if page is None else page.steps)
        texts = {
            video_playlist(self.hash, MEDIA, name): text
            for name, text in playlists.media_playlists().items()
        }
        # Last, since it points to the others.
        texts[video_variants(self.hash, MEDIA)] = render(playlists.multivariant(MEDIA))
        size = 0
        for address, text in texts.items():
            data = text.encode()
            await self._objects.put(address, data)
            size += len(data)
        return size

    async def remove_pages(self) -> None:
        """Delete the pages, which are not needed once the playlists are written.

        Raises:
            ObjectError: some are left; they do no harm.
        """
        await self._objects.delete_tree(video_pages(self.hash, MEDIA))
