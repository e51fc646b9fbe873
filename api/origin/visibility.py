"""Looks up what each viewer may see of streams and videos, and caches it for a second.

The catalog is queried once per second and hash, for all viewers together. Ownership and country
are checked per request, and only if they matter. So a change by the owner takes effect within a
second, and a segment of a public stream costs no query.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from api.http.client_address import RawHeaders, header_values
from api.origin.access import AccessLevel, decide_access
from api.ports import OwnerCheck, Showcase
from storage.catalog.records.common import PublicRecord
from storage.errors import CatalogBusy

__all__ = ["CountryOf", "Requester", "ViewerAccess", "VisibilityCache", "no_country"]

_REMEMBERED: Final = 1.0  # seconds that a cached answer of the catalog is used
_MOST_REMEMBERED: Final = 10_000

# Returns the two letters of the country of a peer with these headers; None if unknown.
CountryOf = Callable[[str | None, RawHeaders], str | None]


def no_country(_peer: str | None, _headers: RawHeaders) -> str | None:
    """Return None: every country is unknown."""
    return None


class Requester(msgspec.Struct, frozen=True):
    """The address at the other end of the connection, and all headers of the request."""

    peer: str | None
    headers: RawHeaders

    @classmethod
    def from_scope(cls, scope: Mapping[str, Any]) -> "Requester":  # Any: ASGI's own map
        """Return the requester of an HTTP request."""
        client = scope.get("client")
        return cls(str(client[0]) if client else None, scope["headers"])

    @property
    def authorization(self) -> str | None:
        """The `Authorization` header, if any; of several the last one."""
        found = header_values(self.headers, b"authorization")
        return found[-1] if found else None


class ViewerAccess(msgspec.Struct, frozen=True):
    """The access of a viewer to `shown`, which is None if nothing has this hash."""

    access: AccessLevel
    shown: PublicRecord | None


class _Known(msgspec.Struct, frozen=True):
    """A cached answer of the catalog, its time, and the access of an anonymous viewer."""

    asked: float
    verdict: ViewerAccess


class VisibilityCache:
    """Decides access, with cached records of the catalog; `clock` is monotonic, in seconds."""

    def __init__(
        self,
        showcase: Showcase,
        is_owner: OwnerCheck,
        country: CountryOf = no_country,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._showcase = showcase
        self._is_owner = is_owner
        self._country = country
        self._clock = clock
        self._shown: dict[str, _Known] = {}
        self._asking: dict[str, asyncio.Future[PublicRecord | None]] = {}

    def cached(self, hash_: str, peer: str | None, headers: RawHeaders) -> ViewerAccess | None:
        """Return the access if no query is needed; None: call `lookup`."""
        known = self._remembered(hash_)
        if known is None:
            return None
        if known.verdict.access is AccessLevel.OPEN:
            return known.verdict
        shown = known.verdict.shown
        access = self._of_stranger(shown, Requester(peer, headers), early=False)
        # A token may give access where an anonymous viewer has none.
        return ViewerAccess(access, shown) if access.is_visible else None

    async def lookup(self, hash_: str, viewer: Requester, *, early: bool = False) -> ViewerAccess:
        """Return the access of a viewer.

        Raises:
            StorageError: the catalog does not answer.
        """
        known = self._remembered(hash_)
        shown = await self._ask(hash_) if known is None else known.verdict.shown
        access = self._of_stranger(shown, viewer, early=early)
        if not access.is_visible and shown is not None:
            authorization = viewer.authorization
            if authorization is not None and await self._is_owner(authorization, hash_):
                access = decide_access(shown, owner=True, early=early)
        return ViewerAccess(access, shown)

    def _of_stranger(
        self, shown: PublicRecord | None, viewer: Requester, *, early: bool
    ) -> AccessLevel:
        restricted = shown is not None and shown.countries
        country = self._country(viewer.peer, viewer.headers) if restricted else None
        return decide_access(shown, owner=False, country=country, early=early)

    def _remembered(self, hash_: str) -> "_Known | None":
        known = self._shown.get(hash_)
        return known if known is not None and self._clock() - known.asked < _REMEMBERED else None

    async def _ask(self, hash_: str) -> PublicRecord | None:
        """Query the catalog, once for all requests that wait for it at this moment.

        Each second the whole audience of a stream needs the answer; a query for each viewer would
        delay all of them.
        """
        asking = self._asking.get(hash_)
        if asking is not None:
            return await asyncio.shield(asking)
        asking = self._asking[hash_] = asyncio.get_running_loop().create_future()
        asked_at = self._clock()
        try:
            shown = await self._showcase.find(hash_)
        except BaseException as error:
            # A cancelled request must not cancel the others.
            mine = isinstance(error, Exception)
            asking.set_exception(error if mine else CatalogBusy("nobody asks any more"))
            asking.exception()  # marks it as retrieved: there may be no other waiter
            raise
        finally:
            del self._asking[hash_]
        if len(self._shown) >= _MOST_REMEMBERED:
            self._shown.clear()  # filled by guessed hashes; real ones are looked up again
        # Public access is decided once for all viewers.
        self._shown[hash_] = _Known(
            asked_at, ViewerAccess(decide_access(shown, owner=False), shown)
        )
        asking.set_result(shown)
        return shown
