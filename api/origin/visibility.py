"""Looks up what each viewer may see of streams and videos, and caches it for a second.

The catalog is queried once per second and hash, for all viewers together. Ownership and country
are checked per request, and only if they matter. So a change by the owner takes effect within a
second, and a segment of a public stream costs no query.

While the catalog fails or does not answer, its last answer counts for five more minutes: what was
public stays public, what was restricted is decided by the remembered countries. What is not
remembered is an error.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from api.http.client_address import RawHeaders, header_values
from api.origin.access import AccessLevel, decide_access, is_access_equal
from api.ports import OwnerCheck, Showcase
from storage.catalog.records.common import PublicRecord
from storage.errors import CatalogBusy, StorageError

__all__ = ["CountryOf", "Requester", "ViewerAccess", "VisibilityCache", "is_nobody", "no_country"]

log = logging.getLogger(__name__)

_REMEMBERED: Final = 1.0  # seconds that a cached answer of the catalog is used
# Seconds that it is used if the catalog gives no other: restarts of a database take less, and a
# change that another process makes meanwhile must not stay unseen for long.
_FALLBACK: Final = 300.0
# Seconds that a request waits for the catalog if there is a remembered answer: players have more
# than that in their buffers, and a healthy catalog answers in milliseconds.
_PATIENCE: Final = 0.5
# Those that have waited for a part are answered by what was remembered a little earlier: at low
# latency each part would otherwise come late by a query.
_CONFIRMED: Final = 2.0
# A record that names what is gone is looked up again unless it is as new as this: whoever requests
# what is lost shall not cost the catalog a query each time.
_NEW: Final = 0.1
_MOST_REMEMBERED: Final = 10_000

# Returns the two letters of the country of a peer with these headers; None if unknown.
CountryOf = Callable[[str | None, RawHeaders], str | None]


def no_country(_peer: str | None, _headers: RawHeaders) -> str | None:
    """Return None: every country is unknown."""
    return None


async def is_nobody(_credentials: str | None, _hash: str, /) -> bool:
    """Return False: nobody owns anything."""
    return False


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

    @property
    def cookie(self) -> str | None:
        """The cookies of the request, if any, as one header."""
        # HTTP/2 may split them (RFC 9113, 8.2.3).
        return "; ".join(header_values(self.headers, b"cookie")) or None


class ViewerAccess(msgspec.Struct, frozen=True):
    """The access of a viewer to `shown`, which is None if nothing has this hash."""

    access: AccessLevel
    shown: PublicRecord | None


class _Known(msgspec.Struct, frozen=True):
    """A cached answer of the catalog, and the access of an anonymous viewer.

    `answered` is the time of the query that the catalog answered, `asked` that of the newest one.
    """

    answered: float
    asked: float
    verdict: ViewerAccess


class _Query(msgspec.Struct, frozen=True):
    """A query that is under way, and when it began, by the clock of the event loop."""

    began: float
    answer: asyncio.Future[PublicRecord | None]


# What a viewer had, and the callback that is to know whether it has it still.
_Unconfirmed = tuple[ViewerAccess, Callable[[bool], None]]


class VisibilityCache:
    """Decides access, with cached records of the catalog; `clock` is monotonic, in seconds.

    `is_owner` judges the `Authorization` header of a request, `is_signed_in` its cookies if it has
    no such header. A request waits `patience` seconds for the catalog if there is a remembered
    answer. `keep_asking` must run beside it, or a request that begins a query waits for its end.
    """

    def __init__(
        self,
        showcase: Showcase,
        is_owner: OwnerCheck,
        country: CountryOf = no_country,
        *,
        is_signed_in: OwnerCheck = is_nobody,
        clock: Callable[[], float] = time.monotonic,
        patience: float = _PATIENCE,
    ) -> None:
        self._showcase = showcase
        self._is_owner = is_owner
        self._is_signed_in = is_signed_in
        self._country = country
        self._clock = clock
        self._patience = patience
        self._failing = False
        self._shown: dict[str, _Known] = {}
        self._asking: dict[str, _Query] = {}
        self._confirming: dict[str, list[_Unconfirmed]] = {}
        self._tasks: asyncio.TaskGroup | None = None

    async def keep_asking(self) -> None:
        """Let queries go on when their requests no longer wait for them, until cancelled."""
        async with asyncio.TaskGroup() as self._tasks:
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                self._tasks = None

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

    async def lookup(
        self, hash_: str, viewer: Requester, *, early: bool = False, anew: bool = False
    ) -> ViewerAccess:
        """Return the access of a viewer.

        `anew`: the record that was remembered a moment ago is no longer true.

        Raises:
            StorageError: the catalog does not answer, and has not for five minutes.
        """
        known = self._remembered(hash_, _NEW if anew else _REMEMBERED)
        shown = await self._ask(hash_) if known is None else known.verdict.shown
        access = self._of_stranger(shown, viewer, early=early)
        if not access.is_visible and shown is not None and await self._owns(viewer, hash_):
            access = decide_access(shown, owner=True, early=early)
        return ViewerAccess(access, shown)

    async def _owns(self, viewer: Requester, hash_: str) -> bool:
        authorization, cookie = viewer.authorization, viewer.cookie
        if authorization is not None:
            return await self._is_owner(authorization, hash_)
        return cookie is not None and await self._is_signed_in(cookie, hash_)

    def confirm(self, hash_: str, before: ViewerAccess, answer: Callable[[bool], None]) -> None:
        """Call `answer` with whether a viewer that had an access still has it.

        At once if the catalog was queried within the last two seconds, or else after a query, one
        for all that wait. A viewer that does not have it any more may have another.
        """
        known = self._shown.get(hash_)
        tasks = self._tasks
        if tasks is None or (known and self._clock() - known.asked < _CONFIRMED):
            answer(known is not None and is_access_equal(known.verdict.shown, before.shown))
            return
        waiting = self._confirming.get(hash_)
        if waiting is None:
            waiting = self._confirming[hash_] = []
            tasks.create_task(self._confirm(hash_, waiting))
        waiting.append((before, answer))

    async def _confirm(self, hash_: str, waiting: list[_Unconfirmed]) -> None:
        shown: PublicRecord | None = None
        try:
            shown = await self._ask(hash_)
        except StorageError as error:
            log.debug("access not confirmed", extra={"reason": str(error)})
        finally:
            del self._confirming[hash_]
        for before, answer in waiting:
            answer(shown is not None and is_access_equal(shown, before.shown))

    def _of_stranger(
        self, shown: PublicRecord | None, viewer: Requester, *, early: bool
    ) -> AccessLevel:
        restricted = shown is not None and shown.countries
        country = self._country(viewer.peer, viewer.headers) if restricted else None
        return decide_access(shown, owner=False, country=country, early=early)

    def _remembered(self, hash_: str, seconds: float = _REMEMBERED) -> "_Known | None":
        known = self._shown.get(hash_)
        return known if known is not None and self._clock() - known.asked < seconds else None

    async def _ask(self, hash_: str) -> PublicRecord | None:
        """Query the catalog, once for all requests that wait for it at this moment.

        Each second the whole audience of a stream needs the answer; a query for each viewer would
        delay all of them.
        """
        query = self._asking.get(hash_) or await self._begin(hash_)
        known = self._shown.get(hash_)
        if known is None or self._clock() - known.answered >= _FALLBACK:
            return await asyncio.shield(query.answer)
        try:
            async with asyncio.timeout_at(query.began + self._patience):
                return await asyncio.shield(query.answer)
        except (TimeoutError, StorageError):
            # Until the next attempt nobody waits. The answer may have come at this moment.
            known = self._shown.get(hash_, known)
            self._shown[hash_] = msgspec.structs.replace(known, asked=self._clock())
            return known.verdict.shown

    async def _begin(self, hash_: str) -> _Query:
        """Begin a query; without a task group, wait for its end."""
        loop = asyncio.get_running_loop()
        query = self._asking[hash_] = _Query(loop.time(), loop.create_future())
        if self._tasks is None:
            await self._find(hash_, query.answer)
        else:
            self._tasks.create_task(self._find(hash_, query.answer))
        return query

    async def _find(self, hash_: str, answer: asyncio.Future[PublicRecord | None]) -> None:
        """Query the catalog and cache its answer; an error is the answer's exception."""
        asked_at = self._clock()
        try:
            shown = await self._showcase.find(hash_)
        except BaseException as error:
            # A cancelled request must not cancel the others.
            mine = isinstance(error, Exception)
            if mine and not self._failing:
                self._failing = True
                log.warning("visibility not read: what is remembered counts for five minutes")
            answer.set_exception(error if mine else CatalogBusy("nobody asks any more"))
            answer.exception()  # marks it as retrieved: there may be no other waiter
            if not mine:
                raise
        else:
            if self._failing:
                self._failing = False
                log.info("visibility is read again")
            self._remember(hash_, asked_at, shown)
            answer.set_result(shown)
        finally:
            del self._asking[hash_]

    def _remember(self, hash_: str, asked_at: float, shown: PublicRecord | None) -> None:
        if len(self._shown) >= _MOST_REMEMBERED and hash_ not in self._shown:
            # Guessed hashes go first: others may be all that is known if the catalog fails.
            self._shown = {
                name: known
                for name, known in self._shown.items()
                if known.verdict.shown is not None
            }
            if len(self._shown) >= _MOST_REMEMBERED:
                self._shown.clear()
        # Public access is decided once for all viewers.
        self._shown[hash_] = _Known(
            asked_at, asked_at, ViewerAccess(decide_access(shown, owner=False), shown)
        )
