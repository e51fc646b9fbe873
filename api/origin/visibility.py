"""What each viewer gets of each stream and video, asked anew every second.

The catalog is asked once a second and hash, for all who want to know; which viewer is its owner,
and in which country they are, is looked at for each request, and only where it matters. So what an
owner changes counts within a second, and a segment of what is open to all costs no query.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from api.http.client_address import RawHeaders, header_values
from api.origin.access import AccessLevel, decide_access
from api.ports import OwnerCheck, Showcase
from storage.catalog.records.common import Shown
from storage.errors import CatalogBusy

__all__ = ["CountryOf", "Requester", "ViewerAccess", "VisibilityCache", "no_country"]

_REMEMBERED: Final = 1.0  # seconds that what is shown may be old
_MOST_REMEMBERED: Final = 10_000

# The two letters of the country that a peer with these headers is in; None where unknown.
CountryOf = Callable[[str | None, RawHeaders], str | None]


def no_country(_peer: str | None, _headers: RawHeaders) -> str | None:
    """Know no country at all."""
    return None


class Requester(msgspec.Struct, frozen=True):
    """Who asks: the address at the other end of the connection, and all headers of the request."""

    peer: str | None
    headers: RawHeaders

    @classmethod
    def from_scope(cls, scope: Mapping[str, Any]) -> "Requester":  # Any: ASGI's own map
        """Return who made a request of HTTP."""
        client = scope.get("client")
        return cls(str(client[0]) if client else None, scope["headers"])

    @property
    def authorization(self) -> str | None:
        """What was sent to prove an owner, if anything was; the last of several counts."""
        found = header_values(self.headers, b"authorization")
        return found[-1] if found else None


class ViewerAccess(msgspec.Struct, frozen=True):
    """What a viewer gets, and of what; `shown` None: there is nothing of that name."""

    access: AccessLevel
    shown: Shown | None


class _Known(msgspec.Struct, frozen=True):
    """What was found when it was asked for, and what a viewer of whom nothing is known gets."""

    asked: float
    verdict: ViewerAccess


class VisibilityCache:
    """Asks for access and remembers who is shown; `clock` is in seconds and never goes back."""

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
        self._asking: dict[str, asyncio.Future[Shown | None]] = {}

    def cached(self, hash_: str, peer: str | None, headers: RawHeaders) -> ViewerAccess | None:
        """Return a verdict that needs no question to the catalog; None: it has to be asked."""
        known = self._remembered(hash_)
        if known is None:
            return None
        if known.verdict.access is AccessLevel.OPEN:
            return known.verdict
        shown = known.verdict.shown
        access = self._of_stranger(shown, Requester(peer, headers), early=False)
        # A token may open what is not open to strangers.
        return ViewerAccess(access, shown) if access.is_visible else None

    async def lookup(self, hash_: str, viewer: Requester, *, early: bool = False) -> ViewerAccess:
        """Return what a viewer gets.

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

    def _of_stranger(self, shown: Shown | None, viewer: Requester, *, early: bool) -> AccessLevel:
        restricted = shown is not None and shown.countries
        country = self._country(viewer.peer, viewer.headers) if restricted else None
        return decide_access(shown, owner=False, country=country, early=early)

    def _remembered(self, hash_: str) -> "_Known | None":
        known = self._shown.get(hash_)
        return known if known is not None and self._clock() - known.asked < _REMEMBERED else None

    async def _ask(self, hash_: str) -> Shown | None:
        """Ask the showcase, once for all requests that want to know at this moment.

        Each second the whole audience of a stream wants to; a query for each of them would hold
        them all up.
        """
        asking = self._asking.get(hash_)
        if asking is not None:
            return await asyncio.shield(asking)
        asking = self._asking[hash_] = asyncio.get_running_loop().create_future()
        asked_at = self._clock()
        try:
            shown = await self._showcase.find(hash_)
        except BaseException as error:
            # A request that is cancelled takes no other with it.
            mine = isinstance(error, Exception)
            asking.set_exception(error if mine else CatalogBusy("nobody asks any more"))
            asking.exception()  # perhaps nobody else waits for it
            raise
        finally:
            del self._asking[hash_]
        if len(self._shown) >= _MOST_REMEMBERED:
            self._shown.clear()  # strangers' guesses; the true ones are asked for again
        # What is open to all is decided on once for all of them.
        self._shown[hash_] = _Known(
            asked_at, ViewerAccess(decide_access(shown, owner=False), shown)
        )
        asking.set_result(shown)
        return shown
