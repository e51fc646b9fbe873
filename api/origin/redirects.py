"""Redirects of viewers to stored media, so that this process does not send them.

The targets are signed URLs of a bucket, which are valid for a short time, or a CDN in front of the
bucket. The origin decides access before each redirect. A CDN checks no access, so only public media
are redirected there: to copies, which are deleted when access is restricted.

Media of a live stream are redirected once they are stored, a moment after they are listed.
"""

import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Literal, Protocol

import msgspec

from api.http.response import HttpResponse, cross_origin_response
from api.origin.access import AccessLevel
from api.origin.visibility import ViewerAccess
from storage.cleanup.withdrawn_copies import GRACE_SECONDS
from storage.errors import StorageError
from storage.objects.addresses import cdn_copy
from storage.single_flight import SingleFlight

log = logging.getLogger(__name__)

Method = Literal["GET", "HEAD"]
Sign = Callable[[str, Method, float], Awaitable[str]]
"""Returns an address of an object that is valid for a method and so many seconds."""
IsStored = Callable[[str], Awaitable[bool]]
"""Returns whether there is an object."""
MakeCopy = Callable[[str, str], Awaitable[bool]]
"""Copies an object to another address unless it is there; returns whether there is an object."""
OpenFolder = Callable[[str], Awaitable[None]]
"""Gives the stream or video with that hash a folder of copies unless it has one."""

_PRIVATE: Final = "private, no-store"
# Ten seconds less than withdrawn copies stay: records are a second old, clocks differ.
_TO_CDN: Final = f"public, max-age={GRACE_SECONDS - 10}"
# 500 bytes each: the current media of a few hundred streams, for a few thousand viewers.
_MOST_REMEMBERED: Final = 20_000
# Each is asked for once more if it is forgotten: ten hours of five renditions, in 10 MB.
_MOST_COPIES: Final = 50_000
# A record that got its folder is read again within a second.
_OPEN_SECONDS: Final = 5.0
_MOST_OPENED: Final = 1000


class Redirects(Protocol):
    """Finds the redirects of objects."""

    def known(self, method: Method, address: str, decision: ViewerAccess) -> HttpResponse | None:
        """Return the redirect of a visible object, if it is known without querying the store."""
        ...

    async def find(
        self, method: Method, address: str, decision: ViewerAccess
    ) -> HttpResponse | None:
        """Return the redirect of a visible object; None if it is served here or does not exist.

        Raises:
            StorageError: the store does not answer.
        """
        ...


class _StoredObjects:
    """Knows which objects are stored; those of live streams are checked once each."""

    def __init__(self, is_stored: IsStored) -> None:
        self._is_stored = is_stored
        self._stored_addresses: OrderedDict[str, None] = OrderedDict()

    def knows(self, address: str) -> bool:
        """Return whether an object is known to be stored, as all objects in videos' records are."""
        return not address.startswith("live/") or address in self._stored_addresses

    async def has(self, address: str) -> bool:
        """Return whether an object is stored."""
        if not self.knows(address):
            if not await self._is_stored(address):
                return False
            self._stored_addresses[address] = None
            if len(self._stored_addresses) > _MOST_REMEMBERED:
                self._stored_addresses.popitem(last=False)
        return True


class _Signed(msgspec.Struct, frozen=True, gc=False):
    url: str
    until: float


class SignedRedirects:
    """Redirects to signed URLs, each valid for `seconds`; `clock` is monotonic.

    A URL is reused for a quarter of its lifetime, and a public redirect may be cached for another
    quarter, which leaves at least half of the lifetime for the download.
    """

    def __init__(
        self,
        sign: Sign,
        is_stored: IsStored,
        *,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sign = sign
        self._stored = _StoredObjects(is_stored)
        self._seconds = seconds
        self._clock = clock
        self._public = f"public, max-age={int(seconds / 4)}"
        self._signed_urls: OrderedDict[str, _Signed] = OrderedDict()
        self._signing = SingleFlight[_Signed | None]()

    def known(self, method: Method, address: str, decision: ViewerAccess) -> HttpResponse | None:
        """Return the redirect to a URL that was signed earlier."""
        signed = self._signed_urls.get(f"{method} {address}")
        if signed is None or self._clock() >= signed.until:
            return None
        return self._redirect(signed, decision.access)

    async def find(
        self, method: Method, address: str, decision: ViewerAccess
    ) -> HttpResponse | None:
        """Return the redirect to a URL that is signed now, or was earlier."""
        redirect = self.known(method, address, decision)
        if redirect is not None:
            return redirect
        key = f"{method} {address}"
        signed = await self._signing.run(key, partial(self._signed, key, method, address))
        return None if signed is None else self._redirect(signed, decision.access)

    async def _signed(self, key: str, method: Method, address: str) -> _Signed | None:
        if not await self._stored.has(address):
            return None
        until = self._clock() + self._seconds / 4
        signed = _Signed(await self._sign(address, method, self._seconds), until)
        self._signed_urls.pop(key, None)
        self._signed_urls[key] = signed
        if len(self._signed_urls) > _MOST_REMEMBERED:
            self._signed_urls.popitem(last=False)
        return signed

    def _redirect(self, signed: _Signed, access: AccessLevel) -> HttpResponse:
        return _redirect(signed.url, self._public if access.is_cacheable else _PRIVATE)


class CdnRedirects:
    """Redirects to a CDN that serves the bucket's objects below `base`.

    It may read copies alone (`storage.objects.cdn_copies`), in the folder that the record names.
    `copy` makes the copy of an object, `open_folder` gives a record its folder: until the record
    has it, viewers get the media from here. `clock` is monotonic, in seconds.
    """

    def __init__(
        self,
        base: str,
        copy: MakeCopy,
        open_folder: OpenFolder,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._base = base.rstrip("/")
        self._copy = copy
        self._open_folder = open_folder
        self._clock = clock
        self._copies: OrderedDict[str, None] = OrderedDict()  # that are known to exist
        self._copying = SingleFlight[bool]()
        self._opened: OrderedDict[str, float] = OrderedDict()  # when, by hash

    def known(self, method: Method, address: str, decision: ViewerAccess) -> HttpResponse | None:
        """Return the redirect of an object whose copy is known to exist."""
        del method
        copy = _copy_for_all(address, decision)
        if copy is None or copy not in self._copies:
            return None
        return _redirect(f"{self._base}/{copy}", _TO_CDN)

    async def find(
        self, method: Method, address: str, decision: ViewerAccess
    ) -> HttpResponse | None:
        """Return the redirect of an object that has a copy, which is made now if need be."""
        copy = _copy_for_all(address, decision)
        if copy is None:
            await self._open(address, decision)
        elif copy not in self._copies:
            await self._copying.run(copy, partial(self._make, address, copy))
        return self.known(method, address, decision)

    async def _make(self, address: str, copy: str) -> bool:
        if not await self._copy(address, copy):
            return False
        self._copies[copy] = None
        if len(self._copies) > _MOST_COPIES:
            self._copies.popitem(last=False)
        return True

    async def _open(self, address: str, decision: ViewerAccess) -> None:
        """Give a record its folder if it may have one, and did not get it just now."""
        shown = decision.shown
        if shown is None or shown.cdn_token is not None or not _is_for_all(address, decision):
            return
        now = self._clock()
        if now - self._opened.get(shown.hash, now - _OPEN_SECONDS) < _OPEN_SECONDS:
            return
        self._opened.pop(shown.hash, None)
        self._opened[shown.hash] = now
        if len(self._opened) > _MOST_OPENED:
            self._opened.popitem(last=False)
        try:
            await self._open_folder(shown.hash)
        except StorageError as error:
            log.info("no folder for the CDN", extra={"cause": str(error)})


def _copy_for_all(address: str, decision: ViewerAccess) -> str | None:
    """Return where the copy of an object is that everyone may see; None if it has none."""
    token = None if decision.shown is None else decision.shown.cdn_token
    return cdn_copy(address, token) if token and _is_for_all(address, decision) else None


def _is_for_all(address: str, decision: ViewerAccess) -> bool:
    """Return whether an object is public and never changes; live posters change.

    Pictures of what is not published yet are public too, but not for a CDN.
    """
    shown = decision.shown
    if shown is None or not shown.published or not decision.access.is_cacheable:
        return False
    return not (address.startswith("live/") and address.endswith(".jpg"))


def _redirect(target: str, caching: str) -> HttpResponse:
    return cross_origin_response(302, {"location": target, "cache-control": caching})
