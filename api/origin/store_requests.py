"""What the origin asks the store for: playlists once a second, and nothing that is known to miss.

A look-up in a bucket costs a request, and a stranger can make up any number of names. There
`absences` bounds the requests (`api.origin.absences`). An object that the lists of its stream or
video name is asked for in any case; these lists are few, and read once a second.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from api.origin.absences import Absences, Standing
from api.origin.media_request import MediaRequest, PartRequest, PosterRequest, SegmentRequest
from api.origin.playlist_cache import PlaylistCache
from api.origin.visibility import ViewerAccess
from delivery.edge.base import CachedPlaylist, EdgeReader
from delivery.run.stored_playlist import StoredPlaylists
from storage.catalog.records.common import PublicRecord
from storage.objects.base import ObjectMissing
from storage.objects.store import MediaStore
from storage.single_flight import SingleFlight

_BEFORE_URIS: Final = (b"\n", b'"', b"/")  # in playlists


class Question(msgspec.Struct, frozen=True):
    """Whether the store may be asked for an object of the stream or video with that hash.

    `is_named` by a playlist. `is_crowded`: it may not be asked now, but may have the object.
    """

    address: str
    hash: str
    may_ask: bool = True
    is_named: bool = False
    is_crowded: bool = False


UNGUARDED: Final = Question("", "")
"""That of an object which may always be asked for."""


class StoreRequests:
    """The origin's requests of a store; `clock` is in seconds."""

    def __init__(
        self,
        objects: MediaStore,
        edge: EdgeReader,
        *,
        absences: Absences | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._objects = objects
        self._edge = edge
        self._absences = absences
        self._clock = clock
        self._stored = StoredPlaylists(objects)
        self._playlists = PlaylistCache()
        self._reading = SingleFlight[CachedPlaylist | None]()

    # -- playlists --------------------------------------------------------------------------------

    def remembered(self, address: str) -> CachedPlaylist | None:
        """Return a playlist that was read before, if it has not changed since.

        Raises:
            OSError: the disk failed.
        """
        entry = self._playlists.get(address, self._clock())
        if entry is None:
            return None
        stat, playlist = entry
        return playlist if self._objects.is_unchanged(address, stat) else None

    async def read(self, address: str) -> CachedPlaylist | None:
        """Return a stored playlist, which is read once for all that ask for it now.

        Raises:
            ObjectError: the store failed.
        """
        return await self._reading.run(address, partial(self._read, address))

    async def _read(self, address: str) -> CachedPlaylist | None:
        now = self._clock()
        stat = await self._objects.stat(address)
        if stat is None:
            return None
        try:
            text = CachedPlaylist.from_text(await self._stored.read(address))
        except ObjectMissing:
            return None
        self._playlists.put(address, stat, text, now)
        return text

    # -- absences ---------------------------------------------------------------------------------

    async def question(self, request: MediaRequest, decision: ViewerAccess) -> Question:
        """Return whether the store may be asked for an object now; tell `note` the answer.

        Raises:
            StorageError: a list of what there is cannot be read.
        """
        shown, absences = decision.shown, self._absences
        address = None if shown is None else request.address(shown)
        if absences is None or shown is None or address is None:
            return UNGUARDED
        if isinstance(request, PartRequest):
            return UNGUARDED  # parts are not stored
        if isinstance(request, SegmentRequest) and request.is_live and self._is_ahead(address):
            return Question(address, shown.hash, may_ask=False)
        standing = absences.ask(shown.hash, address, self._clock())
        if standing is Standing.UNKNOWN:
            return Question(address, shown.hash)
        if isinstance(request, PosterRequest):  # the record names it
            return Question(address, shown.hash, may_ask=standing is Standing.CROWDED)
        if standing is not Standing.CONFIRMED and await self._is_named(request, shown, absences):
            return Question(address, shown.hash, is_named=True)
        is_crowded = standing is Standing.CROWDED
        return Question(address, shown.hash, may_ask=False, is_crowded=is_crowded)

    def note(self, question: Question, *, is_there: bool) -> None:
        """Remember the answer to a question, if the store was asked."""
        if self._absences is None or not question.address or not question.may_ask:
            return
        if is_there:
            self._absences.found(question.hash, question.address)
        else:
            self._absences.missed(question.address, self._clock(), is_named=question.is_named)

    def _is_ahead(self, address: str) -> bool:
        """Return whether a live segment is later than what is being made, as far as is known."""
        folder, _, name = address.rpartition("/")
        timeline = self._edge.timeline(f"{folder}/index.m3u8")
        number = name.removesuffix(".m4s")
        # Another process may have listed the next segment a moment earlier.
        return timeline is not None and number.isdecimal() and int(number) > timeline.next_msn

    async def _is_named(
        self, request: MediaRequest, shown: PublicRecord, absences: Absences
    ) -> bool:
        """Return whether the lists that lead to an object name it."""
        lists = request.lists(shown)
        for address, uri in lists:
            text = self._edge.local_playlist(address) or self.remembered(address)
            if text is None:
                text = await self._read_list(shown.hash, address, absences)
            if text is None or not any(mark + uri.encode() in text.body for mark in _BEFORE_URIS):
                return False
        return bool(lists)

    async def _read_list(
        self, hash_: str, address: str, absences: Absences
    ) -> CachedPlaylist | None:
        standing = absences.ask(hash_, address, self._clock())
        if standing in {Standing.ABSENT, Standing.CONFIRMED}:
            return None
        text = await self.read(address)
        self.note(Question(address, hash_), is_there=text is not None)
        return text
