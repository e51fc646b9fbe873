"""A page log: a list that only grows, kept in numbered objects that are never rewritten.

The steps of runs and recordings are kept this way, so that each step is written once, regardless of
the length of the list. The newest items are in no page yet; the owner of the log keeps them where
it can replace them as a whole (`delivery.run.run_state`), until there are enough for a page.

A page is written as a whole or not at all, also when the process is killed. Nothing is synced, as
for the media that the pages describe, so a power cut may lose or shorten the newest pages: such a
page reads as None.
"""

from collections.abc import AsyncGenerator, Callable, Iterable
from itertools import islice
from typing import Final, Generic, TypeVar

import msgspec

from storage.objects.base import Objects

# Pages read at once: texts of 100 kB together. A window of 12 h has 1350 pages.
_AT_ONCE: Final = 16

P = TypeVar("P")


class PageLog(Generic[P]):
    """The pages of one list, of the type `kind`; `address` returns that of a page by its number."""

    def __init__(self, objects: Objects, kind: type[P], address: Callable[[int], str]) -> None:
        self._objects = objects
        self._kind = kind
        self._address = address

    async def create(self, number: int, page: P) -> None:
        """Write a page, unless there is one of that number.

        Raises:
            ObjectChanged: there is one already.
            ObjectError: it could not be written.
        """
        await self._objects.put_if(self._address(number), msgspec.json.encode(page), None)

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
        (text,) = await self._objects.get_all((self._address(number),))
        return self._decoded(text)

    async def read_all(self, numbers: Iterable[int]) -> AsyncGenerator[P | None]:
        """Yield pages in the order of `numbers`, reading several at once.

        Raises:
            ObjectError: the disk failed.
        """
        remaining = iter(numbers)
        while batch := list(islice(remaining, _AT_ONCE)):
            for text in await self._objects.get_all([self._address(number) for number in batch]):
                yield self._decoded(text)

    def _decoded(self, text: bytes | None) -> P | None:
        try:
            return None if text is None else msgspec.json.decode(text, type=self._kind)
        except msgspec.MsgspecError:
            return None
