"""A page log: a list that only grows, kept in numbered objects that are never rewritten.

A run's steps and a recording's are kept so: a step is written once, however long the list is. The
newest items are in no page yet; the owner of the log keeps them where it can replace them as a
whole (`storage.live.run_state`), until there are enough for a page.

A page is written as a whole or not at all, also when the process is killed. Nothing is synced, as
for the media that the pages describe, so a power cut may lose or shorten the newest pages: such a
page reads as None.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from itertools import islice
from typing import Final, Generic, TypeVar

import msgspec

from storage.objects.base import ObjectError, ObjectMissing, Objects

__all__ = ["PageLog"]

# Pages read in parallel; a day of 2 s steps has 2700 pages of 16.
_AT_ONCE: Final = 8

P = TypeVar("P")


class PageLog(Generic[P]):
    """The pages of one list; `kind` is the type of a page and `address` that of a page's number."""

    def __init__(self, objects: Objects, kind: type[P], address: Callable[[int], str]) -> None:
        self._objects = objects
        self._kind = kind
        self._address = address

    async def write(self, number: int, page: P, *, vital: bool = False) -> None:
        """Write a page (`vital`: see `Objects.put`).

        Raises:
            ObjectError: it could not be written.
        """
        await self._objects.put(self._address(number), msgspec.json.encode(page), vital=vital)

    async def read(self, number: int) -> P | None:
        """Return a page, or None if it is gone or damaged.

        Raises:
            ObjectError: the disk failed.
        """
        try:
            text = await self._objects.get(self._address(number))
            return msgspec.json.decode(text, type=self._kind)
        except (ObjectMissing, msgspec.MsgspecError):
            return None

    async def read_all(self, numbers: Sequence[int]) -> AsyncGenerator[P | None]:
        """Yield pages in the order of `numbers`, reading several at once.

        Raises:
            ObjectError: the disk failed.
        """
        wanted = iter(numbers)
        while some := list(islice(wanted, _AT_ONCE)):
            async with asyncio.TaskGroup() as tasks:
                reading = [tasks.create_task(self._try(number)) for number in some]
            for task in reading:
                page = task.result()
                if isinstance(page, ObjectError):
                    raise page
                yield page

    async def _try(self, number: int) -> P | ObjectError | None:
        """Return a page, or the error of reading it, which a task group would wrap."""
        try:
            return await self.read(number)
        except ObjectError as error:
            return error

    async def delete(self, number: int) -> None:
        """Delete a page, if it exists.

        Raises:
            ObjectError: it could not be deleted.
        """
        await self._objects.delete(self._address(number))
