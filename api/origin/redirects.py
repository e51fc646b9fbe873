"""Redirects of viewers to where media are, so that this process need not send them.

To signed addresses of a bucket, which are valid for a short time, or to a CDN in front of the
bucket. The origin judges access before each redirect. A CDN asks nobody, so only what everyone may
see is redirected there.

Of a live stream only what is stored is redirected: a segment is listed a moment before it is.
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
# Media are never another under their address; the CDN itself may move.
_TO_CDN: Final = "public, max-age=300"
# 500 bytes each: what a few thousand viewers of a few hundred streams get at a time.
_MOST_REMEMBERED: Final = 20_000


class Redirects(Protocol):
    """Where an object is to be had, if not here."""

    def known(self, method: Method, address: str, access: AccessLevel) -> HttpResponse | None:
        """Return the redirect of a visible object, if it needs no look at the store."""
        ...

    async def find(self, method: Method, address: str, access: AccessLevel) -> HttpResponse | None:
        """Return the redirect of a visible object; None: it is to be had here, or not at all.

        Raises:
            StorageError: the store does not answer.
        """
        ...


class _StoredObjects:
    """Which objects are stored; of live streams the store is asked, once for each object."""

    def __init__(self, is_stored: IsStored) -> None:
        self._is_stored = is_stored
        self._known: OrderedDict[str, None] = OrderedDict()

    def knows(self, address: str) -> bool:
        """Return whether an object is known to be stored: rows name those of videos."""
        return not address.startswith("live/") or address in self._known

    async def has(self, address: str) -> bool:
        """Return whether an object is stored."""
        if not self.knows(address):
            if not await self._is_stored(address):
                return False
            self._known[address] = None
            if len(self._known) > _MOST_REMEMBERED:
                self._known.popitem(last=False)
        return True


class _Signed(msgspec.Struct, frozen=True, gc=False):
    url: str
    until: float


class SignedRedirects:
    """Redirects to signed addresses, each valid for `seconds`; `clock` is monotonic.

    An address is used for a quarter of its time, and a public redirect may be cached for another
    quarter: whoever follows it at the last moment still has half of the time.
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
        self._known: OrderedDict[str, _Signed] = OrderedDict()
        self._signing = SingleFlight[_Signed | None]()

    def known(self, method: Method, address: str, access: AccessLevel) -> HttpResponse | None:
        """Return the redirect to an address that was signed a while ago."""
        signed = self._known.get(f"{method} {address}")
        if signed is None or self._clock() >= signed.until:
            return None
        return self._redirect(signed, access)

    async def find(self, method: Method, address: str, access: AccessLevel) -> HttpResponse | None:
        """Return the redirect to an address that is signed now, or was a while ago."""
        found = self.known(method, address, access)
        if found is not None:
            return found
        key = f"{method} {address}"
        signed = await self._signing.run(key, partial(self._signed, key, method, address))
        return None if signed is None else self._redirect(signed, access)

    async def _signed(self, key: str, method: Method, address: str) -> _Signed | None:
        if not await self._stored.has(address):
            return None
        until = self._clock() + self._seconds / 4
        signed = _Signed(await self._sign(address, method, self._seconds), until)
        self._known.pop(key, None)
        self._known[key] = signed
        if len(self._known) > _MOST_REMEMBERED:
            self._known.popitem(last=False)
        return signed

    def _redirect(self, signed: _Signed, access: AccessLevel) -> HttpResponse:
        return _redirect(signed.url, self._public if access.is_cacheable else _PRIVATE)


class CdnRedirects:
    """Redirects to a CDN that has the bucket's objects below `base`."""

    def __init__(self, base: str, is_stored: IsStored) -> None:
        self._base = base.rstrip("/")
        self._stored = _StoredObjects(is_stored)
        self._looking = SingleFlight[bool]()

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
        await self._looking.run(address, partial(self._stored.has, address))
        return self.known(method, address, access)


def _is_for_all(address: str, access: AccessLevel) -> bool:
    """Return whether everyone may see an object, and it never changes, as a live poster does."""
    return access.is_cacheable and not (address.startswith("live/") and address.endswith(".jpg"))


def _redirect(target: str, caching: str) -> HttpResponse:
    return cross_origin_response(302, {"location": target, "cache-control": caching})
