"""Redirects of viewers to stored media, so that this process does not send them.

The targets are signed URLs of a bucket, which are valid for a short time, or a CDN in front of the
bucket. The origin decides access before each redirect. A CDN checks no access, so only public media
are redirected there.

Media of a live stream are redirected once they are stored, a moment after they are listed.
"""

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Literal, Protocol

import msgspec

from api.http.response import HttpResponse, cross_origin_response
from api.origin.access import AccessLevel
from storage.single_flight import SingleFlight

__all__ = ["CdnRedirects", "IsStored", "Method", "Redirects", "Sign", "SignedRedirects"]

Method = Literal["GET", "HEAD"]
Sign = Callable[[str, Method, float], Awaitable[str]]
"""Returns an address of an object that is valid for a method and so many seconds."""
IsStored = Callable[[str], Awaitable[bool]]
"""Returns whether there is an object."""

_PRIVATE: Final = "private, no-store"
# Media never change under their address, but the CDN's URL may.
_TO_CDN: Final = "public, max-age=300"
# 500 bytes each: the current media of a few hundred streams, for a few thousand viewers.
_MOST_REMEMBERED: Final = 20_000


class Redirects(Protocol):
    """Finds the redirects of objects."""

    def known(self, method: Method, address: str, access: AccessLevel) -> HttpResponse | None:
        """Return the redirect of a visible object, if it is known without querying the store."""
        ...

    async def find(self, method: Method, address: str, access: AccessLevel) -> HttpResponse | None:
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

    def known(self, method: Method, address: str, access: AccessLevel) -> HttpResponse | None:
        """Return the redirect to a URL that was signed earlier."""
        signed = self._signed_urls.get(f"{method} {address}")
        if signed is None or self._clock() >= signed.until:
            return None
        return self._redirect(signed, access)

    async def find(self, method: Method, address: str, access: AccessLevel) -> HttpResponse | None:
        """Return the redirect to a URL that is signed now, or was earlier."""
        redirect = self.known(method, address, access)
        if redirect is not None:
            return redirect
        key = f"{method} {address}"
        signed = await self._signing.run(key, partial(self._signed, key, method, address))
        return None if signed is None else self._redirect(signed, access)

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
    """Redirects to a CDN that serves the bucket's objects below `base`."""

    def __init__(self, base: str, is_stored: IsStored) -> None:
        self._base = base.rstrip("/")
        self._stored = _StoredObjects(is_stored)
        self._checking = SingleFlight[bool]()

    def known(self, method: Method, address: str, access: AccessLevel) -> HttpResponse | None:
        """Return the redirect of an object that is known to be stored."""
        del method
        if not _is_for_all(address, access) or not self._stored.knows(address):
            return None
        return _redirect(f"{self._base}/{address}", _TO_CDN)

    async def find(self, method: Method, address: str, access: AccessLevel) -> HttpResponse | None:
        """Return the redirect of an object that is stored."""
        if not _is_for_all(address, access):
            return None
        await self._checking.run(address, partial(self._stored.has, address))
        return self.known(method, address, access)


def _is_for_all(address: str, access: AccessLevel) -> bool:
    """Return whether an object is public and never changes; live posters change."""
    return access.is_cacheable and not (address.startswith("live/") and address.endswith(".jpg"))


def _redirect(target: str, caching: str) -> HttpResponse:
    return cross_origin_response(302, {"location": target, "cache-control": caching})
