"""One recording in the object store: the linked media of its run, and the pages of its steps.

Segments and init sections are linked from the run's folder into the video's (a bucket copies them),
so they remain when the run's own are deleted. After a crash, steps that were linked but not
yet written into a page are linked again from the state of the run. The pages of a recording remain
with its video: clips are made from them, since they record which segments were on air at a time.
"""

from collections.abc import Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Final

import msgspec

from delivery.recording.pages import (
    PAGE_TICKS,
    RecordedPlaylists,
    RecordingPage,
    RecordingTotals,
    TimeRange,
    fit_step,
    time_of,
)
from delivery.run.page_log import PageLog
from delivery.run.run_state import PAGE_STEPS, Step, StepPage
from media.hls.m3u8 import render
from media.ladder import Rendition
from storage.errors import StorageError
from storage.objects.addresses import (
    media_init,
    media_segment,
    video_init,
    video_page,
    video_pages,
    video_playlist,
    video_segment,
    video_variants,
)
from storage.objects.at_once import do_each
from storage.objects.base import ObjectChanged, ObjectMissing, Objects

# How many pages another host may write while this host writes one; both write one in half a minute.
_ATTEMPTS: Final = 4
# A bucket copies an object in a network's round trip, so that six hours of five renditions take
# minutes instead of hours.
_LINKS_AT_ONCE: Final = 16
_STEPS_AT_ONCE: Final = 16
MEDIA: Final = "1-1"  # the folder below the video's: generation 1, attempt 1


class ListedStep(msgspec.Struct, frozen=True, kw_only=True):
    """A listed step, with the rungs of its run, and the known codecs by rendition.

    `folders` may have its media; the first one that has an object is used.
    """

    step: Step
    renditions: tuple[Rendition, ...]
    codecs: Mapping[str, str]
    folders: tuple[str, ...]


class WrittenPlaylists(msgspec.Struct, frozen=True, kw_only=True):
    """The size of all playlists in bytes, and the time that they show; None if they are empty."""

    size: int
    time: TimeRange | None


class RecordingStore:
    """The recording of a run as the video `hash`. Only one task may use it."""

    def __init__(self, objects: Objects, hash_: str) -> None:
        self.hash = hash_
        self.totals = RecordingTotals()
        self.closed = False
        self._objects = objects
        self._log = PageLog(objects, RecordingPage, lambda number: video_page(hash_, MEDIA, number))
        self._pages = 0
        # Each step as it is recorded, and as it was listed.
        self._unwritten: list[tuple[Step, ListedStep]] = []

    @classmethod
    async def load(cls, objects: Objects, hash_: str) -> "RecordingStore":
        """Open a recording, or begin it if it has no page yet.

        Raises:
            ObjectError: the disk failed.
        """
        store = cls(objects, hash_)
        await store._read_pages()
        return store

    async def _read_pages(self) -> None:
        self.totals, self.closed, self._pages = RecordingTotals(), False, await self._count_pages()
        for number in reversed(range(self._pages)):
            page = await self._log.read(number)
            if page is not None:
                self.totals, self.closed = page.totals, page.closed
                break

    async def _count_pages(self) -> int:
        """Return the number of pages; they are numbered from 0."""
        pages = await self._objects.addresses(video_pages(self.hash, MEDIA))
        numbers = [address.rpartition("/")[2].removesuffix(".json") for address in pages]
        return 1 + max((int(number) for number in numbers if number.isdecimal()), default=-1)

    # -- appending --------------------------------------------------------------------------------

    @property
    def unwritten_count(self) -> int:
        """The number of steps that are not in a page yet."""
        return len(self._unwritten)

    @property
    def is_page_due(self) -> bool:
        """True once enough steps wait for a page."""
        if not self._unwritten:
            return False
        oldest, newest = self._unwritten[0][0], self._unwritten[-1][0]
        return len(self._unwritten) >= PAGE_STEPS or newest.end - oldest.end >= PAGE_TICKS

    async def append(self, listed: ListedStep) -> StorageError | None:
        """Link the media of a step, and return the first error if some became gaps.

        A step that is already recorded is ignored.
        """
        return await self.append_all((listed,))

    async def append_all(self, steps: Sequence[ListedStep]) -> StorageError | None:
        """Link the media of steps in their order, several at a time (see `append`)."""
        first: StorageError | None = None
        for start in range(0, len(steps), _STEPS_AT_ONCE):
            new = [
                each
                for each in steps[start : start + _STEPS_AT_ONCE]
                if each.step.sequence > self.totals.last
            ]
            errors = await self._link_media(new)
            for listed in new:
                error = await self._append_linked(listed, errors)
                first = first or error
        return first

    async def _append_linked(
        self, listed: ListedStep, errors: Mapping[str, StorageError]
    ) -> StorageError | None:
        """Append a step whose segments are linked, except those with `errors` by address."""
        lost: dict[str, StorageError] = {}
        init_sizes: dict[str, int] = {}
        for name, segment in listed.step.segments.items():
            if segment.gap:
                continue
            error = errors.get(self._segment_address(listed, name))
            if error is not None:
                lost[name] = error
            elif self.totals.inits.get(name) != segment.init:
                try:
                    init_sizes[name] = await self._link_init(listed, name, segment.init)
                except StorageError as failure:
                    lost[name] = failure
        step = fit_step(listed.step, self.totals, lost)
        if step is not None:
            self._unwritten.append((step, listed))
            self.totals = self.totals.with_step(step, listed.renditions, listed.codecs, init_sizes)
        return next(iter(lost.values()), None)

    async def _link_media(self, steps: Sequence[ListedStep]) -> dict[str, StorageError]:
        """Link the segments of steps; return the errors by the addresses in the recording."""
        errors: dict[str, StorageError] = {}

        async def link(entry: tuple[ListedStep, str]) -> None:
            listed, name = entry
            sequence, target = listed.step.sequence, self._segment_address(listed, name)
            sources = [media_segment(folder, name, sequence) for folder in listed.folders]
            try:
                await self._link_first(sources, target)
            except StorageError as error:
                errors[target] = error

        entries = [
            (listed, name)
            for listed in steps
            for name, segment in listed.step.segments.items()
            if not segment.gap
        ]
        await do_each(entries, link, at_once=_LINKS_AT_ONCE)
        return errors

    def _segment_address(self, listed: ListedStep, name: str) -> str:
        return video_segment(self.hash, MEDIA, name, listed.step.sequence)

    async def _link_init(self, listed: ListedStep, name: str, init: int) -> int:
        """Link an init section and return its size; there are a few in a run."""
        target = video_init(self.hash, MEDIA, name, init)
        await self._link_first([media_init(each, name, init) for each in listed.folders], target)
        stat = await self._objects.stat(target)
        return 0 if stat is None else stat.size

    async def _link_first(self, sources: Sequence[str], target: str) -> None:
        """Link the first of some objects that exists.

        Raises:
            ObjectMissing: none exists.
            ObjectError: the disk failed.
        """
        *others, last = sources
        for source in others:
            with suppress(ObjectMissing):
                await self._objects.link(source, target)
                return
        await self._objects.link(last, target)

    async def write_page(self, *, closed: bool = False) -> StorageError | None:
        """Write the waiting steps as a page; `closed` makes it the last one.

        Steps that another host has written meanwhile are not written again. The others are appended
        after these; the result is the first error if that makes some of their media gaps.

        Raises:
            ObjectError: it could not be stored; the steps wait for the next call.
        """
        first: StorageError | None = None
        for _ in range(_ATTEMPTS):
            closing = closed and not self.closed and self._pages > 0
            if not self._unwritten and not closing:
                return first
            steps = tuple(step for step, _ in self._unwritten)
            page = RecordingPage(steps=steps, totals=self.totals, closed=closed)
            try:
                await self._log.create(self._pages, page)
            except ObjectChanged:
                error = await self._follow_pages()
                first = first or error
                continue
            self._pages += 1
            self._unwritten.clear()
            self.closed = closed
            return first
        raise ObjectChanged(video_page(self.hash, MEDIA, self._pages))

    async def _follow_pages(self) -> StorageError | None:
        """Continue after pages that were written meanwhile; return the first error, as `append`.

        They were written by another host that records the run, or by this one, in a request that
        seemed to fail.
        """
        await self._read_pages()
        waiting = [listed for _, listed in self._unwritten]
        self._unwritten.clear()
        return None if self.closed else await self.append_all(waiting)

    # -- the end ----------------------------------------------------------------------------------

    async def write_playlists(self) -> WrittenPlaylists:
        """Write the playlists of all pages.

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
        objects = {address: text.encode() for address, text in texts.items()}
        await self._objects.put_all(objects)
        # Last, since it points to the others.
        variants = render(playlists.multivariant(MEDIA)).encode()
        await self._objects.put(video_variants(self.hash, MEDIA), variants)
        size = sum(map(len, objects.values())) + len(variants)
        return WrittenPlaylists(size=size, time=playlists.time)

    async def remove_pages(self) -> None:
        """Delete the pages, which the playlists do not need.

        Raises:
            ObjectError: the disk failed.
        """
        await self._objects.delete_tree(video_pages(self.hash, MEDIA))

    # -- reading ----------------------------------------------------------------------------------

    @property
    def pages(self) -> "StepPages":
        """Its pages so far."""
        return StepPages(self._log, range(self._pages))


class StepPages:
    """Some pages of a log of steps, by their numbers; only those that are needed are read.

    Each method raises `ObjectError` if the disk failed.
    """

    def __init__(self, log: PageLog[StepPage] | PageLog[RecordingPage], numbers: range) -> None:
        self._log = log
        self._numbers = numbers

    async def find(self, wanted: TimeRange) -> list[Step]:
        """Return all steps that overlap a time: also some before and after it."""
        steps: list[Step] = []
        first = await self._first(wanted.from_us)
        async with aclosing(self._log.read_all(range(first, self._numbers.stop))) as pages:
            async for page in pages:
                steps += () if page is None else page.steps
                if steps and time_of(steps[-1]).to_us >= wanted.to_us:
                    break
        return steps

    async def _first(self, from_us: int) -> int:
        """Return the number of the first page that ends after a time, or of one before it."""
        low, high = self._numbers.start, self._numbers.stop
        while low < high:
            middle = (low + high) // 2
            page = await self._log.read(middle)
            if page is not None and page.steps and time_of(page.steps[-1]).to_us <= from_us:
                low = middle + 1
            else:  # a page that cannot be read counts as later
                high = middle
        return low

    async def begin_us(self, since: int = 0) -> int | None:
        """Return the wall-clock time at which the first step from the number `since` on begins.

        None if no page has one.
        """
        for number in self._numbers:
            page = await self._log.read(number)
            steps = () if page is None else page.steps
            begin = next((step for step in steps if step.sequence >= since), None)
            if begin is not None:
                return time_of(begin).from_us
        return None
