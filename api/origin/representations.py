"""The bytes of an object: at hand in memory, in a file that was opened recently, or looked for.

Live playlists come from the edge, or from the store if it does not have the stream; parts come only
from the edge, and so do segments that are not stored yet; everything else comes from the store.
"""

from functools import cache
from typing import Final

from api.http.open_file import FileOpener, OpenFile
from api.http.response import Headers, Representation, media_headers
from api.http.static_files import Asset
from api.origin.access import AccessLevel
from api.origin.media_request import (
    PLAYLIST_TYPE,
    MediaRequest,
    PartRequest,
    PlaylistRequest,
    PosterRequest,
    VariantsRequest,
)
from api.origin.store_requests import StoreRequests
from delivery.edge.base import NORMAL_LATENCY, CachedPlaylist, EdgeReader
from storage.objects.store import MediaStore

_PRIVATE: Final = "private, no-store"
_PLACEHOLDER: Final = "public, max-age=10"  # the real poster may exist at any moment
_TEXTS: Final = (PlaylistRequest, VariantsRequest)


class Representations:
    """Finds the representations of objects that a viewer may have, by their addresses.

    `card` is the default poster of streams and videos without one.
    """

    def __init__(
        self,
        objects: MediaStore,
        edge: EdgeReader,
        requests: StoreRequests,
        files: FileOpener,
        card: Asset | None,
    ) -> None:
        self._objects = objects
        # Joined as text: no other paths are parsed, and pathlib costs as much as opening the file.
        self._root = f"{objects.files}/"
        self._edge = edge
        self._requests = requests
        self._files = files
        self._card = card

    def at_hand(
        self, request: MediaRequest, address: str, access: AccessLevel
    ) -> Representation | None:
        """Return an object if it is in memory or was opened recently.

        Raises:
            OSError: the disk failed.
        """
        if isinstance(request, _TEXTS):
            text = self._local_playlist(request, address)
            if text is None and self._edge.knows(address):
                text = self._requests.remembered(address)
            return _text(text, request, access)
        if isinstance(request, PartRequest):
            return _bytes(self._edge.local_part(address), request, access)
        file = self._files.open_known(self._root + address)
        if file is None and request.is_at_edge_first:
            return _bytes(self._edge.local_part(address), request, access)
        return _file(file, request, access)

    async def find(
        self, request: MediaRequest, address: str, access: AccessLevel, *, may_ask: bool
    ) -> Representation | None:
        """Return an object that is not at hand; None if it does not exist.

        `may_ask`: the store may be asked for it.

        Raises:
            StorageError: the store failed.
            OSError: the disk failed.
        """
        if isinstance(request, _TEXTS):
            return _text(await self._requests.read(address), request, access) if may_ask else None
        if isinstance(request, PartRequest):
            return _bytes(await self._edge.get_part(address), request, access)
        file = await self._files.open(self._root + address)
        if file is None and request.is_at_edge_first:
            representation = _bytes(await self._edge.get_part(address), request, access)
            if representation is not None:
                return representation
        if file is None and may_ask:
            file = await self._fetched(address)
        return _file(file, request, access)

    def placeholder(self, request: PosterRequest, access: AccessLevel) -> Representation | None:
        """Return what is shown in place of a poster that does not exist."""
        if self._card is None:
            return None
        cached = _PLACEHOLDER if access.is_cacheable else _PRIVATE
        headers = _described(request.form[0], cached, "")
        return Representation(body=self._card.body, headers=headers, tag=self._card.tag)

    def _local_playlist(
        self, request: PlaylistRequest | VariantsRequest, address: str
    ) -> CachedPlaylist | None:
        directives = request.directives
        if not directives.low_latency and isinstance(request, VariantsRequest) and request.is_live:
            # While a run has no closed segment yet, there is only one for low latency.
            return self._edge.local_playlist(address + NORMAL_LATENCY)
        return self._edge.local_playlist(
            address, low_latency=directives.low_latency, skip=directives.skip
        )

    async def _fetched(self, address: str) -> OpenFile | None:
        """Open an object that had to be copied from the store; None if it does not exist.

        Raises:
            ObjectError: it cannot be copied.
            OSError: the copy cannot be read.
        """
        async with self._objects.holding(address) as is_there:
            if not is_there:
                return None
            file = await self._files.open(self._root + address)
            if file is None:
                raise FileNotFoundError(f"{address}: its copy is gone")
            return file


def _headers(request: MediaRequest, access: AccessLevel, coding: str = "") -> Headers:
    kind, kept = request.form
    return _described(kind, kept if access.is_cacheable else _PRIVATE, coding)


@cache
def _described(kind: str, cached: str, coding: str) -> Headers:
    """Return the headers of a kind of object; there are a dozen combinations."""
    is_playlist = kind == PLAYLIST_TYPE
    more = {"vary": "Accept-Encoding"} if is_playlist else {}
    if coding:
        more["content-encoding"] = coding
    # Chromium's own player reloads a playlist with a range as long as the text that it has, and
    # would get the beginning of a newer one, cut off in the middle of a line.
    return media_headers(kind, cached, more, has_ranges=not is_playlist)


def _file(
    file: OpenFile | None, request: MediaRequest, access: AccessLevel
) -> Representation | None:
    if file is None:
        return None
    return Representation(body=file, headers=_headers(request, access), tag=file.tag)


def _bytes(data: bytes | None, request: MediaRequest, access: AccessLevel) -> Representation | None:
    if data is None:
        return None
    return Representation(body=data, headers=_headers(request, access))


def _text(
    text: CachedPlaylist | None, request: MediaRequest, access: AccessLevel
) -> Representation | None:
    if text is None:
        return None
    if request.http.accepts_gzip:
        # A strong tag must differ, since the bytes do.
        headers = _headers(request, access, "gzip")
        return Representation(body=text.compressed, headers=headers, tag=f'"{text.tag}-gz"')
    return Representation(body=text.body, headers=_headers(request, access), tag=f'"{text.tag}"')
