"""The record of one run on an object store: its media, linked, and the pages of its steps.

Segments and init sections are linked from the run's folder into the video's, so they take no more
room and stay when the live window trims its own. What was linked and not yet written into a page
is linked again after a crash, from the run's notes.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

import msgspec

from media.hls.m3u8 import render
from media.ladder import Rendition
from storage.errors import StorageError
from storage.live.run_state import Cut, Step
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
from storage.objects.base import ObjectError, ObjectMissing, Objects
from storage.recording.pages import PAGE_STEPS, PAGE_TICKS, Page, RecordedPlaylists, Tally, fitted

__all__ = ["MEDIA", "Heard", "Record"]

_AT_ONCE: Final = 8  # pages: a day has 2700 of them
MEDIA: Final = "1-1"  # the folder below the video's own: its first file, made at once


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """A step that was listed, with the rungs of its run and the codings that are known."""

    step: Step
    renditions: tuple[Rendition, ...]
    codecs: Mapping[str, str]


class Record:
    """What is recorded of the run `run` of a stream, as the video `hash`. One task calls it."""

    def __init__(self, objects: Objects, *, stream: str, run: str, hash_: str) -> None:
        self.hash = hash_
        self.tally = Tally()
        self.closed = False
        self._objects = objects
        self._stream = stream
        self._run = run
        self._pages = 0
        self._unwritten: list[Step] = []

    @classmethod
    async def load(cls, objects: Objects, *, stream: str, run: str, hash_: str) -> "Record":
        """Go on with a record, or begin it where nothing is written of it yet.

        Raises:
            ObjectError: the disk does not answer.
        """
        record = cls(objects, stream=stream, run=run, hash_=hash_)
        record._pages = await record._count()
        for number in reversed(range(record._pages)):
            page = await record._page(number)
            if page is not None:
                record.tally, record.closed = page.tally, page.closed
                break
        return record

    async def _count(self) -> int:
        """Return how many pages there are: they have the numbers from 0 on."""
        found = await self._objects.addresses(video_pages(self.hash, MEDIA))
        numbers = [address.rpartition("/")[2].removesuffix(".json") for address in found]
        return 1 + max((int(number) for number in numbers if number.isdecimal()), default=-1)

    async def _page(self, number: int) -> Page | None:
        """Return a page; None where a power cut took or shortened it: the others are there."""
        try:
            text = await self._objects.get(video_page(self.hash, MEDIA, number))
            return msgspec.json.decode(text, type=Page)
        except (ObjectMissing, msgspec.MsgspecError):
            return None

    async def _read(self, number: int) -> Page | ObjectError | None:
        """Return a page, or why it cannot be read: a group of tasks would wrap the error."""
        try:
            return await self._page(number)
        except ObjectError as error:
            return error

    # -- taking steps -----------------------------------------------------------------------------

    @property
    def unwritten(self) -> int:
        """How many steps no page has."""
        return len(self._unwritten)

    @property
    def due(self) -> bool:
        """Whether a page is to be written."""
        if not self._unwritten:
            return False
        oldest, newest = self._unwritten[0], self._unwritten[-1]
        return len(self._unwritten) >= PAGE_STEPS or newest.end - oldest.end >= PAGE_TICKS

    async def take(self, heard: Heard) -> StorageError | None:
        """Link a step's media; what cannot be is a gap, and the first reason is returned.

        A step that is recorded already is passed over.
        """
        if heard.step.sequence <= self.tally.last:
            return None
        lost: dict[str, StorageError] = {}
        fresh: dict[str, int] = {}
        for name, cut in heard.step.cuts.items():
            if cut.gap:
                continue
            try:
                await self._link(name, cut, heard.step.sequence, fresh)
            except StorageError as error:
                lost[name] = error
        step = fitted(heard.step, self.tally, lost)
        if step is not None:
            self._unwritten.append(step)
            self.tally = self.tally.next(step, heard.renditions, heard.codecs, fresh)
        return next(iter(lost.values()), None)

    async def _link(self, name: str, cut: Cut, sequence: int, fresh: dict[str, int]) -> None:
        source = live_segment(self._stream, self._run, name, sequence)
        await self._objects.link(source, video_segment(self.hash, MEDIA, name, sequence))
        if self.tally.inits.get(name) != cut.init:
            target = video_init(self.hash, MEDIA, name, cut.init)
            await self._objects.link(live_init(self._stream, self._run, name, cut.init), target)
            found = await self._objects.stat(target)
            fresh[name] = 0 if found is None else found.size

    async def write(self, *, closed: bool = False) -> None:
        """Write a page of what none has; `closed`: the last, whatever the run does.

        Raises:
            ObjectError: it could not be stored; the steps wait for the next call.
        """
        closing = closed and not self.closed and self._pages > 0
        if not self._unwritten and not closing:
            return
        page = Page(steps=tuple(self._unwritten), tally=self.tally, closed=closed)
        address = video_page(self.hash, MEDIA, self._pages)
        await self._objects.put(address, msgspec.json.encode(page))
        self._pages += 1
        self._unwritten.clear()
        self.closed = closed

    # -- the end ----------------------------------------------------------------------------------

    async def publish(self) -> int:
        """Write the playlists of all that is in the pages; returns their bytes.

        Raises:
            ObjectError: one could not be stored, or a page could not be read.
        """
        playlists = RecordedPlaylists(self.tally)
        for start in range(0, self._pages, _AT_ONCE):
            numbers = range(start, min(start + _AT_ONCE, self._pages))
            async with asyncio.TaskGroup() as tasks:
                reading = [tasks.create_task(self._read(number)) for number in numbers]
            for page in (task.result() for task in reading):
                if isinstance(page, ObjectError):
                    raise page
                playlists.add(() if page is None else page.steps)
        texts = {
            video_playlist(self.hash, MEDIA, name): text for name, text in playlists.media().items()
        }
        # The one that leads to the others comes last.
        texts[video_variants(self.hash, MEDIA)] = render(playlists.variants(MEDIA))
        size = 0
        for address, text in texts.items():
            data = text.encode()
            await self._objects.put(address, data)
            size += len(data)
        return size

    async def remove_pages(self) -> None:
        """Remove what only the making of the playlists needed.

        Raises:
            ObjectError: they are still there; they do no harm.
        """
        await self._objects.delete_tree(video_pages(self.hash, MEDIA))
