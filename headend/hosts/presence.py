"""Registers this process among the hosts of the catalog while it runs (`storage.catalog.hosts`).

A host renews its row once a second; the database's clock records when it was last seen. If that is
more than `hosts.dead_seconds` ago, other hosts take its streams. By then the host no longer counts
itself as an owner: it measures the same time by its own clock, from before the last renewal.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from headend.supervision import BackgroundTask, run_in_background
from media.no_op import do_nothing
from storage.catalog import Catalog
from storage.errors import HostNameTaken, MediaNotShared, StorageError

log = logging.getLogger(__name__)

INTERVAL_SECONDS: Final = 1.0
# A database that does not answer at the end must not delay the exit.
_LEAVE_SECONDS: Final = 2.0


class HostIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """A host as the others know it (see `storage.catalog.hosts.repository.HostRecord`)."""

    name: str
    role: str
    address: str | None
    version: str
    capacity: int | None = None


def _uptime() -> float:
    # Unlike CLOCK_MONOTONIC it continues while a virtual machine is suspended.
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class HostPresence:
    """The registration of this process among the hosts of a catalog that several may use.

    Attributes:
        dead_seconds: How long a host that is not seen counts as alive.
        host: The number by which it claims streams; None while it is not registered.
        on_owned: Called after each renewal, with the generations of the streams that it owns, by
            their numbers. A stream that it served and that is missing has another owner.
        on_lost: Called once when others may own its streams: it was not seen for too long, or its
            row was removed. It owns streams again from the next `on_owned` on.
    """

    def __init__(
        self,
        catalog: Catalog,
        identity: HostIdentity,
        *,
        dead_seconds: float,
        interval: float = INTERVAL_SECONDS,
        now: Callable[[], float] = _uptime,
    ) -> None:
        self.dead_seconds = dead_seconds
        self.host: int | None = None
        self.on_owned: Callable[[Mapping[int, int]], None] = do_nothing
        self.on_lost: Callable[[], None] = do_nothing
        self._catalog = catalog
        self._identity = identity
        self._interval = interval
        self._now = now
        self._last_seen = now()  # before the last renewal
        self._is_lost = False
        self._is_stopping = False
        self._logged_cause = ""  # of the failure that lasts, "" if there is none

    @asynccontextmanager
    async def running(self, *, shares_media: bool) -> AsyncGenerator[None]:
        """Register this process for the length of the block.

        `shares_media`: other hosts reach the media, too, since they are in a bucket.

        Raises:
            HostNameTaken: another process of its name runs.
            MediaNotShared: another host runs, and the media are not shared.
            StorageError: the catalog does not answer.
        """
        await self.start()
        try:
            if not shares_media:
                await self.require_alone()
            async with run_in_background(BackgroundTask("host presence", self.keep_seen)):
                yield
        finally:
            await self.leave()

    @property
    def name(self) -> str:
        """The unique name of this process."""
        return self._identity.name

    @property
    def problem(self) -> str:
        """The reason why this process does not count as a host, for the operator; "" if it does."""
        if not self._is_lost:
            return ""
        return f"this process owns no stream: {self._logged_cause or 'it was not seen'}"

    async def start(self) -> None:
        """Register this process as it starts; from then on `keep_seen` must run.

        If a host of this name counts as alive, wait until the database has not seen it for
        `dead_seconds`: it may be this process before it was killed. Nothing in the data folder
        could tell, since the folder may be a copy, and the living host that of the original.

        Raises:
            HostNameTaken: another process of this name runs.
            StorageError: the catalog does not answer.
        """
        until = self._now() + self.dead_seconds + self._interval
        is_logged = False
        while (namesake := await self._find_namesake()) is not None:
            if self._now() >= until:
                raise HostNameTaken(self._identity.name)
            if not is_logged:
                facts = {"host": self._identity.name, "number": namesake}
                log.info("waiting until the host of this name is not seen any more", extra=facts)
            is_logged = True
            await asyncio.sleep(self._interval)
        await self.register()

    async def register(self) -> None:
        """Register this process, replacing any other host of its name.

        Raises:
            StorageError: the catalog does not answer.
        """
        began = self._now()
        identity = self._identity
        self.host = await self._catalog.hosts.register(
            identity.name,
            identity.role,
            identity.address,
            identity.version,
            0 if self._is_stopping else identity.capacity,
        )
        self._last_seen = began
        log.info("host registered", extra={"host": identity.name, "number": self.host})

    async def require_alone(self) -> None:
        """Check that no other host is alive.

        Raises:
            MediaNotShared: one is.
            StorageError: the catalog does not answer.
        """
        for host in await self._catalog.hosts.find_all(self.dead_seconds):
            if host.alive and host.id != self.host:
                raise MediaNotShared(host.name)

    async def keep_seen(self) -> None:
        """Renew the row once a second, and report what the host owns, until cancelled."""
        while True:
            began = self._now()
            remaining = self._last_seen + self.dead_seconds - began
            if remaining <= 0:
                self._lose()
            try:
                async with asyncio.timeout(self.dead_seconds if self._is_lost else remaining):
                    owned = await self._renew()
            except (StorageError, TimeoutError) as error:
                self._report(repr(error))
            else:
                if owned is not None:
                    self._regain()
                    self.on_owned(owned)
            await asyncio.sleep(max(0.0, self._next_turn(began) - self._now()))

    def _next_turn(self, began: float) -> float:
        turn = began + self._interval
        return turn if self._is_lost else min(turn, self._last_seen + self.dead_seconds)

    async def _renew(self) -> dict[int, int] | None:
        """Renew the row, and return what the host owns; None if another process has its name."""
        began = self._now()
        if self.host is not None and not await self._catalog.hosts.beat(
            self.host, self._identity.name, self.dead_seconds
        ):
            self.host = None
            self._lose()
        if self.host is None:
            if await self._find_namesake() is not None:
                self._report(str(HostNameTaken(self._identity.name)))
                return None
            await self.register()
            return {}
        self._last_seen = began
        return await self._catalog.owners.owned_by(self.host)

    async def _find_namesake(self) -> int | None:
        """Return the number of the living host of this name, if there is one."""
        hosts = await self._catalog.hosts.find_all(self.dead_seconds)
        namesakes = (host.id for host in hosts if host.alive and host.name == self._identity.name)
        return next(namesakes, None)

    def _lose(self) -> None:
        if not self._is_lost:
            self._is_lost = True
            log.warning("host not seen: it owns no stream", extra={"host": self._identity.name})
            self.on_lost()

    def _regain(self) -> None:
        if self._logged_cause or self._is_lost:
            log.info("host seen again", extra={"host": self._identity.name})
        self._is_lost, self._logged_cause = False, ""

    def _report(self, cause: str) -> None:
        if cause != self._logged_cause:  # once, however long it lasts
            log.warning("host not seen", extra={"host": self._identity.name, "cause": cause})
        self._logged_cause = cause

    async def close_to_new_streams(self) -> None:
        """Stop the other hosts from giving this one new streams, since it is about to stop."""
        self._is_stopping = True
        if self.host is None:
            return
        try:
            async with asyncio.timeout(_LEAVE_SECONDS):
                await self._catalog.hosts.limit(self.host, 0)
        except (StorageError, TimeoutError) as error:
            log.warning("host not closed to new streams", extra={"cause": repr(error)})

    async def leave(self) -> None:
        """Unregister this process, so that others need not wait to take its streams."""
        if self.host is None:
            return
        try:
            async with asyncio.timeout(_LEAVE_SECONDS):
                await self._catalog.hosts.leave(self.host)
        except (StorageError, TimeoutError) as error:
            log.warning("host not removed", extra={"cause": repr(error)})
        self.host = None
