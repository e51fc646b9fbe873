"""Copies of public media for a CDN, in the only folder of the bucket that a CDN may read.

The objects themselves stay where they are, out of its reach, and with them everything that viewers
must not get: uploaded files, states of runs, the trash. A copy is made when a viewer is first sent
to it, at `cdn/HASH/TOKEN/...`. The token is a folder's secret name
(`storage.catalog.maintenance.cdn_folders`), so a hash opens nothing. Once not everyone may see a
stream or video, its folder is deleted (`storage.cleanup.withdrawn_copies`).

So nothing but the redirects to the CDN, and what deletes objects, has to know of copies.
"""

import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection
from typing import Final

from storage.objects.addresses import cdn_copy, cdn_folders
from storage.objects.base import ObjectMissing, Objects

# How long the names of a hash's folders are remembered: live streams delete segments every few
# seconds. A folder that is younger than this has few copies of what is old enough to be deleted.
_SECONDS: Final = 60.0
_MOST: Final = 10_000


async def copy_for_cdn(objects: Objects, address: str, copy: str) -> bool:
    """Make the copy of an object at an address below `cdn`; return False if there is no object.

    A request to copy costs ten times as much as a look: strangers can ask for what does not exist.

    Raises:
        ObjectError: the store failed.
    """
    if await objects.stat(copy) is not None:
        return True
    if await objects.stat(address) is None:
        return False
    try:
        await objects.link(address, copy)
    except ObjectMissing:  # it was deleted just now
        return False
    return True


class CopyFinder:
    """Finds the copies that objects may have, which are deleted with them.

    `names` returns the names of the folders in a folder; `clock` is monotonic, in seconds.
    """

    def __init__(
        self,
        names: Callable[[str], Awaitable[Collection[str]]],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._names = names
        self._clock = clock
        self._tokens: dict[str, tuple[float, Collection[str]]] = {}  # by hash

    async def find(self, addresses: Collection[str]) -> list[str]:
        """Return where copies of some objects may be.

        Raises:
            ObjectError: the store cannot be listed.
        """
        by_hash: defaultdict[str, list[str]] = defaultdict(list)
        for address in addresses:
            if cdn_copy(address, "any") is not None:
                by_hash[address.split("/", 2)[1]].append(address)
        copies: list[str | None] = []
        for hash_, of_hash in by_hash.items():
            for token in await self._tokens_of(hash_):
                copies += [cdn_copy(address, token) for address in of_hash]
        return [copy for copy in copies if copy is not None]

    async def _tokens_of(self, hash_: str) -> Collection[str]:
        now = self._clock()
        since, tokens = self._tokens.get(hash_, (now - _SECONDS, ()))
        if now - since >= _SECONDS:
            tokens = await self._names(cdn_folders(hash_))
            if len(self._tokens) >= _MOST:
                self._tokens.clear()
            self._tokens[hash_] = (now, tokens)
        return tokens
