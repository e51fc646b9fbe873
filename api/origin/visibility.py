"""Looks up viewers' access to streams and videos, and caches it for a second.

The catalog is queried once per second and hash, for all viewers together. Ownership and country
are checked per request, and only if they matter. So a change by the owner takes effect within a
second, and a segment of a public stream costs no query.

While the catalog fails or does not answer, cached records are used for five more minutes: public
ones stay public, restricted ones are decided by the cached countries. Without a cached record, the
request fails.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

import msgspec

from api.http.client_address import RawHeaders
from api.origin.access import AccessLevel, decide_access, is_access_equal
from api.origin.viewer import Viewer
from api.ports import OwnerCheck, PublicRecords
from storage.catalog.records.common import PublicRecord
from storage.errors import CatalogBusy, StorageError

log = logging.getLogger(__name__)

_REMEMBERED: Final = 1.0  # seconds that a cached answer of the catalog is used
# Seconds that it is used while the catalog fails: restarts of a database take less, and a change
# by another process must not stay unseen for long.
_FALLBACK: Final = 300.0
# Seconds that a request waits for the catalog if there is a cached record: players have larger
# buffers, and a healthy catalog answers in milliseconds.
_PATIENCE: Final = 0.5
# Where nothing was to be seen, so many times as long: it may have been published since, no viewer
# has a buffer that runs empty, and a player gives up at a 404.
_UNSEEN_PATIENCE: Final = 10
# Blocking requests use a slightly older record: at low latency, each part would otherwise be
# delayed by a query.
_CONFIRMED: Final = 2.0
# A record with missing media is looked up again unless it is as new as this, so that requests for
# lost media do not cost a query each.
_NEW: Final = 0.1
_MOST_REMEMBERED: Final = 10_000

# Returns the two-letter country code of a peer with these headers; None if unknown.
CountryOf = Callable[[str | None, RawHeaders], str | None]


def no_country(_peer: str | None, _headers: RawHeaders) -> str | None:
    """Return None: all countries are unknown."""
    return None


async def no_owner(_credentials: str | None, _hash: str, /) -> bool:
    """Return False: no request is from an owner."""
    return False


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
    decision: ViewerAccess


class _Query(msgspec.Struct, frozen=True):
    """A query in progress, and its start on the clock of the event loop."""

    began: float
    answer: asyncio.Future[PublicRecord | None]


# A viewer's access, and the callback to call with whether it still has it.
_Unconfirmed = tuple[ViewerAccess, Callable[[bool], None]]


class VisibilityCache:
    """Decides access, with cached records of the catalog; `clock` is monotonic, in seconds.

    `is_owner` checks the `Authorization` header of a request, `is_signed_in` its cookies if it has
    no such header. A request waits `patience` seconds for the catalog if there is a cached record,
    and ten times as long if nobody but the owner could see anything then.
    `run_queries` must run beside it, or a request that begins a query waits for its end.
    """

    def __init__(
        self,
        public_records: PublicRecords,
        is_owner: OwnerCheck,
        country: CountryOf = no_country,
        *,
        is_signed_in: OwnerCheck = no_owner,
        clock: Callable[[], float] = time.monotonic,
        patience: float = _PATIENCE,
    ) -> None:
        self._public_records = public_records
        self._is_owner = is_owner
        self._is_signed_in = is_signed_in
        self._country = country
        self._clock = clock
        self._patience = patience
        self._failing = False
        self._entries: dict[str, _Known] = {}
        self._queries: dict[str, _Query] = {}
        self._confirming: dict[str, list[_Unconfirmed]] = {}
        self._tasks: asyncio.TaskGroup | None = None

    async def run_queries(self) -> None:
        """Run the queries whose requests no longer wait for them, until cancelled."""
        async with asyncio.TaskGroup() as self._tasks:
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                self._tasks = None

    def cached(self, hash_: str, viewer: Viewer) -> ViewerAccess | None:
        """Return the access if no query is needed; None: call `lookup`."""
        entry = self._remembered(hash_)
        if entry is None:
            return None
        if entry.decision.access is AccessLevel.OPEN:
            return entry.decision
        shown = entry.decision.shown
        access = self._of_stranger(shown, viewer, early=False)
        # A token may give access where an anonymous viewer has none.
        return ViewerAccess(access, shown) if access.is_visible else None

    async def lookup(
        self, hash_: str, viewer: Viewer, *, early: bool = False, anew: bool = False
    ) -> ViewerAccess:
        """Return the access of a viewer.

        `anew`: the cached record is known to be outdated.

        Raises:
            StorageError: the catalog does not answer, and did not in the last five minutes.
        """
        entry = self._remembered(hash_, _NEW if anew else _REMEMBERED)
        shown = await self._query_once(hash_) if entry is None else entry.decision.shown
        access = self._of_stranger(shown, viewer, early=early)
        if not access.is_visible and shown is not None and await self._owns(viewer, hash_):
            access = decide_access(shown, owner=True, early=early)
        return ViewerAccess(access, shown)

    async def _owns(self, viewer: Viewer, hash_: str) -> bool:
        authorization, cookie = viewer.authorization, viewer.cookie
        if authorization is not None:
            return await self._is_owner(authorization, hash_)
        return cookie is not None and await self._is_signed_in(cookie, hash_)

    def confirm(self, hash_: str, before: ViewerAccess, answer: Callable[[bool], None]) -> None:
        """Call `answer` with whether a viewer still has the access `before`.

        It is called at once if the catalog was queried within the last two seconds, or else after
        one query for all waiting callers. If False, the viewer may have another access.
        """
        entry = self._entries.get(hash_)
        tasks = self._tasks
        if tasks is None or (entry and self._clock() - entry.asked < _CONFIRMED):
            answer(entry is not None and is_access_equal(entry.decision.shown, before.shown))
            return
        waiting = self._confirming.get(hash_)
        if waiting is None:
            waiting = self._confirming[hash_] = []
            tasks.create_task(self._confirm(hash_, waiting))
        waiting.append((before, answer))

    async def _confirm(self, hash_: str, waiting: list[_Unconfirmed]) -> None:
        shown: PublicRecord | None = None
        try:
            shown = await self._query_once(hash_)
        except StorageError as error:
            log.debug("access not confirmed", extra={"reason": str(error)})
        except Exception:
            log.exception("access not confirmed")
        finally:
            # However the query ends, the parked requests get an answer.
            del self._confirming[hash_]
            for before, answer in waiting:
                answer(shown is not None and is_access_equal(shown, before.shown))

    def _of_stranger(
        self, shown: PublicRecord | None, viewer: Viewer, *, early: bool
    ) -> AccessLevel:
        restricted = shown is not None and shown.countries
        country = self._country(viewer.peer, viewer.headers) if restricted else None
        return decide_access(shown, owner=False, country=country, early=early)

    def _remembered(self, hash_: str, seconds: float = _REMEMBERED) -> "_Known | None":
        entry = self._entries.get(hash_)
        return entry if entry is not None and self._clock() - entry.asked < seconds else None

    async def _query_once(self, hash_: str) -> PublicRecord | None:
        """Query the catalog once for all currently waiting requests.

        The whole audience of a stream needs the record each second; a query for each viewer would
        delay all of them.
        """
        query = self._queries.get(hash_) or await self._begin(hash_)
        entry = self._entries.get(hash_)
        if entry is None or self._clock() - entry.answered >= _FALLBACK:
            return await asyncio.shield(query.answer)
        is_seen = entry.decision.access is not AccessLevel.NONE
        patience = self._patience if is_seen else self._patience * _UNSEEN_PATIENCE
        try:
            async with asyncio.timeout_at(query.began + patience):
                return await asyncio.shield(query.answer)
        except (TimeoutError, StorageError):
            # No request waits until the next attempt. The answer may have come just now.
            entry = self._entries.get(hash_, entry)
            self._entries[hash_] = msgspec.structs.replace(entry, asked=self._clock())
            return entry.decision.shown

    async def _begin(self, hash_: str) -> _Query:
        """Begin a query; without a task group, wait for its end."""
        loop = asyncio.get_running_loop()
        query = self._queries[hash_] = _Query(loop.time(), loop.create_future())
        if self._tasks is None:
            await self._find(hash_, query.answer)
        else:
            self._tasks.create_task(self._find(hash_, query.answer))
        return query

    async def _find(self, hash_: str, answer: asyncio.Future[PublicRecord | None]) -> None:
        """Query the catalog and cache its answer; an error is the answer's exception."""
        asked_at = self._clock()
        try:
            shown = await self._public_records.find(hash_)
        except BaseException as error:
            # A cancelled request must not cancel the others.
            is_failure = isinstance(error, Exception)
            if is_failure and not self._failing:
                self._failing = True
                log.warning("visibility not read: what is remembered counts for five minutes")
            answer.set_exception(error if is_failure else CatalogBusy("the query was cancelled"))
            answer.exception()  # marks it as retrieved: there may be no other waiter
            if not is_failure:
                raise
        else:
            if self._failing:
                self._failing = False
                log.info("visibility is read again")
            self._remember(hash_, asked_at, shown)
            answer.set_result(shown)
        finally:
            del self._queries[hash_]

    def _remember(self, hash_: str, asked_at: float, shown: PublicRecord | None) -> None:
        if len(self._entries) >= _MOST_REMEMBERED and hash_ not in self._entries:
            # Evict guessed hashes first: the others are needed if the catalog fails.
            self._entries = {
                name: entry
                for name, entry in self._entries.items()
                if entry.decision.shown is not None
            }
            if len(self._entries) >= _MOST_REMEMBERED:
                self._entries.clear()
        # Public access is decided once for all viewers.
        self._entries[hash_] = _Known(
            asked_at, asked_at, ViewerAccess(decide_access(shown, owner=False), shown)
        )
