"""The lease of an object store: one catalog at a time may write to it and clean it up.

The installation key (`storage.installation_key`) shows which catalogs a store belongs to. A copy of
a catalog has the same key, byte by byte: to a restore that is being tried out beside the running
service, all that the service stored since is unknown, and a cleanup would take it away.

What a copy cannot have is what the original does next. The store's object `installation.lease` and
a row of the catalog (`storage.catalog.projects.store_claims`) name the same random *turn*, and
every half minute one of the catalog's processes replaces it in both, by a conditional write. A copy
falls behind with the first turn after it was made. So all processes of one catalog hold the lease
together, also where its server fails over, restarts or moves, and nothing is asked of the names of
hosts and files, which change for good reasons and stay for bad ones.

A start is let in at once if the catalog has the store's turn, and if neither is a copy by what is
known of its place. Otherwise somebody else may be at work: it waits until the lease is renewed,
which tells for sure whose it is, or was not renewed for `expired_seconds`, by the store's own
clock. Then the holder is dead, and the lease is taken over, as after a restore from a backup. Where
it is certain that a process is the last of its catalog, it releases the lease as it ends.

No host's clock counts: ages are those of the store or of the database, or of the time since boot.

A process that loses the lease (another catalog took it over, on purpose or after an outage of both
the database and the store, or this catalog's other processes have another store, a copy) goes on
serving viewers and stores what is on air to its end; it deletes nothing and adds nothing else. It
holds the lease again once the other one is dead.
"""

import asyncio
import logging
import secrets
import socket
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, Protocol

import msgspec

from media.no_op import do_nothing
from media.ticks import MICROSECONDS
from storage.catalog import Catalog
from storage.catalog.projects.store_claims import StoreClaim
from storage.errors import CatalogError, StorageError
from storage.lease_verdict import MediaLease, Sight, StoreElsewhere, StoreInUse, Verdict, judge
from storage.objects.addresses import LEASE
from storage.objects.base import (
    STORE,
    ObjectChanged,
    ObjectMissing,
    Objects,
    StoreClaimed,
    StoreFailed,
    StoreFull,
)

log = logging.getLogger(__name__)

_TURN_BYTES: Final = 16  # random: no two turns are ever the same
_ATTEMPTS: Final = 3
# What a run on air stores, viewers are waiting for.
_ON_AIR: Final = "live/"
# What a run on air deletes is below its folder.
_BELOW_RUN: Final = 3
# In this folder, and in one of this name in each top folder, are the bytes that ask the store for
# its time and whether it can be written.
_CHECKS: Final = "checks"
# An answer that was lost with the transaction it was about, as when a replica takes over, may make
# another process' turn look foreign for a moment.
_SIGHTS: Final = 2


class LeaseTiming(msgspec.Struct, frozen=True, kw_only=True):
    """How often the lease is renewed, all in seconds.

    `sure_seconds` after it was last renewed a process does not count on it any more. That is
    earlier than `expired_seconds`, when others may take it over, by more than clocks drift apart.
    """

    look_seconds: float = 10.0  # a query of the database
    renew_seconds: float = 30.0  # a request to the store, 90 000 a month
    sure_seconds: float = 60.0
    expired_seconds: float = 90.0
    poll_seconds: float = 2.0  # of a start that waits


def _random() -> str:
    return secrets.token_hex(_TURN_BYTES)


class LeasedObjects(Objects, Protocol):
    """A store that has a lease."""

    async def identity(self) -> str:
        """Return what a copy of the store does not share with it."""
        ...


def _is_own(address: str) -> bool:
    """Return whether an object is the lease itself, or belongs to a check by one process."""
    return address == LEASE or _CHECKS in address.split("/")[:2]


def _is_on_air(address: str) -> bool:
    """Return whether an object is one of a run, which goes on."""
    return address.startswith(_ON_AIR)


def _is_below_run(address: str) -> bool:
    """Return whether an object is one that a run on air may delete."""
    return _is_on_air(address) and address.count("/") >= _BELOW_RUN


def _uptime() -> float:
    # Unlike CLOCK_MONOTONIC it continues while a virtual machine is suspended.
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class StoreLease:
    """The lease of a store as one process holds it, together with all others of its catalog.

    `now` returns a monotonic time in seconds.
    """

    def __init__(
        self,
        objects: LeasedObjects,
        catalog: Catalog,
        *,
        timing: LeaseTiming | None = None,
        now: Callable[[], float] = _uptime,
    ) -> None:
        self._objects = objects
        self._claims = catalog.store_claims
        self._catalog = catalog.location
        self._timing = timing or LeaseTiming()
        self._now = now
        self._place = self._store = ""
        self._known: list[str] = []  # turns that the catalog had lately
        self._written: tuple[str, str] | None = None  # this process' last turn, and its version
        self._sure_until = float("-inf")
        self._sights = 0  # of another's lease, in a row
        # What another changes for as long as it has the lease instead, and since when it has not:
        # the store's lease, or the turn of this catalog, which it uses with another store.
        self._lost: tuple[MediaLease | str, float] | None = None
        self._logged_cause = ""

    @property
    def problem(self) -> str:
        """Why this process may not write to the store, for the operator; "" if it may."""
        if self._lost is None:
            return ""
        sign, _ = self._lost
        cause = (
            f"the database at {self._catalog} is in use with other media than those in"
            f" {self._objects.location}"
            if isinstance(sign, str)
            else f"the media in {self._objects.location} were taken over by the database at"
            f" {sign.holder}"
        )
        return f"{cause}: nothing is added or deleted here"

    def require_write(self, address: str) -> None:
        """Check that no other catalog is known to have the lease; a run on air goes on.

        Raises:
            StoreClaimed: one has.
        """
        if self._lost is not None and not (_is_on_air(address) or _is_own(address)):
            raise StoreClaimed(address, self.problem)

    def require_delete(self, address: str) -> None:
        """Check that no other catalog can have the lease by now; a run on air goes on.

        Raises:
            StoreClaimed: one has, or it was not renewed in time.
        """
        if _is_own(address):
            return
        if self._lost is not None and not _is_below_run(address):
            raise StoreClaimed(address, self.problem)
        if self._now() > self._sure_until and not _is_on_air(address):
            raise StoreClaimed(address, "the lease of the store was not renewed in time")

    async def require(self) -> None:
        """Check that this process holds the lease, before anything is cleaned up.

        Raises:
            StorageError: it does not, or that cannot be found out.
        """
        await self.look()
        self.require_delete(STORE)

    # -- the start --------------------------------------------------------------------------------

    async def acquire(self, on_wait: Callable[[str], None] = do_nothing) -> None:
        """Join the other processes of this catalog, or take the lease that nobody renews.

        `on_wait` is called again and again with what it waits for and why.

        Raises:
            StoreInUse: another catalog, with the same key, is at work on the store.
            StoreElsewhere: this catalog's processes are at work on another store.
            StorageError: the store or the catalog failed.
        """
        await self._learn_places()
        first: Sight | None = None
        watched_from = float("inf")
        while True:
            began = self._now()
            sight = await self._see()
            match await self._judge(first, sight, watched_seconds=began - watched_from):
                case Verdict.OURS if sight.claim.age < self._timing.renew_seconds:
                    self._note(sight.claim, began)
                    return
                case Verdict.OURS | Verdict.FREE:
                    if await self._begin(began, sight.lease):
                        return
                case Verdict.WAIT:
                    on_wait(self._reason_to_wait(sight))
                    await asyncio.sleep(self._timing.poll_seconds)
                case Verdict.IN_USE:
                    raise self._in_use(sight.lease)
                case Verdict.ELSEWHERE:
                    raise StoreElsewhere(self._objects.location, self._catalog)
            if first is None:
                first, watched_from = sight, self._now()

    async def _judge(self, first: Sight | None, now: Sight, *, watched_seconds: float) -> Verdict:
        """Return what to do; the store is asked for its time only if that matters.

        Its clock may have been set back since the lease was written, which is then never old: what
        nobody has renewed for `watched_seconds`, while this start was watching, is as old as that.
        """
        decide = partial(
            judge,
            first,
            now,
            place=self._place,
            store=self._store,
            expired_seconds=self._timing.expired_seconds,
        )
        verdict = decide(lease_age=0.0)
        if verdict is not Verdict.WAIT:
            return verdict
        return decide(lease_age=max(watched_seconds, await self._age()))

    async def _begin(self, began: float, seen: MediaLease | None) -> bool:
        """Take the lease as a process starts, if it is as `seen` and the store has room for it."""
        lease, version = await self._read()
        if lease != seen:
            return False  # another began at this moment, or this process was frozen
        try:
            return await self._take(began, version)
        except StoreFull as error:
            # Nobody else can write it either, and what this process deletes makes room.
            log.warning("lease not written", extra={"cause": str(error)})
            self._sure_until = began + self._timing.sure_seconds
            return True

    async def take_over(self) -> MediaLease | None:
        """Take the lease from whoever has it, and return what that was.

        Raises:
            StorageError: the store or the catalog failed.
        """
        await self._learn_places()
        for _ in range(_ATTEMPTS):
            lease, version = await self._read()
            if await self._take(self._now(), version):
                return lease
        raise StoreFailed(LEASE, "others write it all the time")

    async def refuse_use(self) -> None:
        """Check that no other catalog is at work on the store, to which media are to be copied.

        Raises:
            StoreInUse: one has renewed its lease lately.
            StorageError: the store or the catalog failed.
        """
        sight = await self._see()
        if sight.lease is None or sight.lease.released or sight.lease.turn in sight.turns:
            return
        if await self._age() < self._timing.expired_seconds:
            raise self._in_use(sight.lease)

    async def hand_over(self) -> str:
        """Let a copy of the catalog, which is made after this, hold the lease without a wait.

        Nothing is done unless this catalog holds it. Return its turn, "" if this catalog does not
        hold it: a copy that was made before this does so with that turn.

        Raises:
            StorageError: the store or the catalog failed.
        """
        await self._learn_places()
        sight = await self._see()
        lease = sight.lease
        if lease is None or lease.turn not in sight.turns:
            return ""
        if lease.place:  # else it was handed over before, and nobody renewed it since
            self._place = ""
            _, version = await self._read()
            await self._take(self._now(), version)
            lease, _ = await self._read()
        return "" if lease is None else lease.turn

    async def release(self) -> bool:
        """Let a copy of the catalog hold the lease without a wait; return whether it can.

        The caller makes sure that no process of this catalog is running, nor starts meanwhile.

        Raises:
            StorageError: the store or the catalog failed; the lease may be released.
        """
        lease, version = await self._read()
        claim = await self._claims.read()
        if lease is None or lease.turn not in claim.turns:
            return False
        # A process that starts writes a turn then: over that, what is written here cannot come,
        # however late it does.
        await self._claims.expire()
        released = msgspec.structs.replace(lease, released=True)
        try:
            await self._objects.put_if(LEASE, msgspec.json.encode(released), version, vital=True)
        except ObjectChanged:
            return False
        return True

    async def _learn_places(self) -> None:
        self._place = await self._claims.place()
        self._store = await self._objects.identity()

    def _reason_to_wait(self, sight: Sight) -> str:
        lease, seconds = sight.lease, self._timing.expired_seconds
        other = self._catalog if lease is None else lease.holder
        return (
            f"waiting for up to {seconds:.0f} s to see whether the database at {other} is in use"
            f" with the media in {self._objects.location}"
        )

    def _in_use(self, lease: MediaLease | None) -> StoreInUse:
        seconds = self._timing.expired_seconds
        return StoreInUse(self._objects.location, self._catalog, lease or MediaLease(), seconds)

    # -- while it runs ----------------------------------------------------------------------------

    async def keep(self) -> None:
        """Renew the lease until cancelled, and find out if another catalog has it."""
        while True:
            await asyncio.sleep(self._timing.look_seconds)
            try:
                await self.look()
            except StorageError as error:
                if str(error) != self._logged_cause:  # once, however long it lasts
                    log.warning("lease not renewed", extra={"cause": str(error)})
                self._logged_cause = str(error)
            else:
                self._logged_cause = ""

    @asynccontextmanager
    async def holding(self, on_wait: Callable[[str], None] = do_nothing) -> AsyncGenerator[None]:
        """Acquire the lease and keep it for the length of the block (`on_wait` as in `acquire`).

        Raises:
            StorageError: as in `acquire`.
        """
        await self.acquire(on_wait)
        failure: StorageError | None = None
        async with asyncio.TaskGroup() as tasks:
            keeping = tasks.create_task(self.keep())
            try:
                yield
            except StorageError as error:  # raised in the group it would come out as a group
                failure = error
            finally:
                keeping.cancel()
        if failure is not None:
            raise failure

    async def look(self) -> None:
        """Renew the lease if no other process of this catalog did so lately.

        Raises:
            StorageError: the store or the catalog failed.
        """
        began = self._now()
        if self._lost is not None:
            await self._look_at_holder(*self._lost, began)
            return
        try:
            claim = await self._claims.read()
            if claim.age < self._timing.renew_seconds and not await self._is_here(claim):
                self._see_other(claim.turn, began)
                return
            self._note(claim, began)
            is_tried = claim.tried < self._timing.look_seconds and claim.age < (
                self._timing.sure_seconds
            )
            if claim.age < self._timing.renew_seconds or is_tried:
                return
            claim = await self._claims.begin(_random())
        except CatalogError:
            if began > self._sure_until - self._timing.renew_seconds:
                await self._refresh(began)
            raise
        if await self._renew(claim, began):
            self._sights = 0

    async def _renew(self, claim: StoreClaim, began: float) -> bool:
        """Replace the turn by the next one; return False if it is another catalog's."""
        known = claim.turns | set(self._known)
        for _ in range(_ATTEMPTS):
            if self._written is not None and self._written[0] == claim.turn:
                lease, version = MediaLease(turn=claim.turn), self._written[1]
            else:
                lease, version = await self._read()
            if lease is not None and not lease.turn:
                lease = None  # nobody's: it cannot be read, and whoever has it writes another
            if lease is not None and lease.turn not in known:
                self._see_other(lease, began)
                return False
            if lease is not None and lease.turn not in claim.turns:
                await self._claims.adopt(lease.turn)
                claim = await self._claims.begin(claim.next_turn)
            self._written = None
            try:
                is_written = await self._write(claim.next_turn, version)
            except StoreFull:
                self._sure_until = began + self._timing.sure_seconds  # as in `_begin`
                raise
            if is_written:
                await self._claims.confirm(claim.next_turn, claim.began_us)
                self._note(msgspec.structs.replace(claim, age=0.0), began)
                return True
        return False

    async def _refresh(self, began: float) -> None:
        """Renew the lease under the same turn, since the catalog cannot take another one now."""
        lease, version = await self._read()
        if (
            lease is not None
            and lease.turn in self._known
            and await self._write(lease.turn, version)
        ):
            self._sure_until = began + self._timing.sure_seconds

    async def _is_here(self, claim: StoreClaim) -> bool:
        """Return whether this store has a turn of the claim that this process did not see yet.

        Another process has renewed it, and would not have done so here if it had another store.
        """
        if not self._known or claim.turn in self._known:
            return True
        lease, _ = await self._read()
        if lease is None or not lease.turn:
            return True  # whoever has it writes another
        claims = claim.turns | (await self._claims.read()).turns
        if lease.turn in claims:
            self._sights = 0
            return True
        return False

    def _see_other(self, sign: MediaLease | str, began: float) -> None:
        self._sights += 1
        if self._sights >= _SIGHTS:
            self._lost = sign, began
            log.error("media taken over", extra={"cause": self.problem})

    async def _look_at_holder(self, sign: MediaLease | str, since: float, began: float) -> None:
        """Hold the lease again if the other one has not renewed it for long enough."""
        lease, version = await self._read()
        claim = await self._claims.read()
        is_ours = lease is not None and lease.turn in claim.turns
        now = claim.turn if isinstance(sign, str) else lease
        if now is not None and not is_ours:
            if now != sign:
                self._lost = now, began
            if now != sign or began - since < self._timing.expired_seconds:
                return
        if await self._take(began, version):
            log.warning("media taken back", extra={"store": self._objects.location})

    # -- helpers ----------------------------------------------------------------------------------

    def _note(self, claim: StoreClaim, began: float) -> None:
        """Count on the lease from when the catalog saw it renewed."""
        self._known = [each for each in self._known if each not in claim.turns][-2:]
        self._known += sorted(claim.turns)
        self._sure_until = max(self._sure_until, began - claim.age + self._timing.sure_seconds)

    async def _see(self) -> Sight:
        before = await self._claims.read()
        lease, _ = await self._read()
        claim = await self._claims.read()
        return Sight(lease=lease, claim=claim, turns=before.turns | claim.turns)

    async def _read(self) -> tuple[MediaLease | None, str | None]:
        """Return the lease and its version; they are those of one moment, or a write fails."""
        version = await self._objects.version(LEASE)
        if version is None:
            return None, None
        try:
            data = await self._objects.get(LEASE)
        except ObjectMissing:
            return None, None
        try:
            return msgspec.json.decode(data, type=MediaLease), version
        except msgspec.MsgspecError:
            return MediaLease(), version

    async def _take(self, began: float, version: str | None) -> bool:
        """Write the next turn over that version; return False if another was faster."""
        claim = await self._claims.begin(_random())
        if not await self._write(claim.next_turn, version):
            return False
        await self._claims.confirm(claim.next_turn, claim.began_us)
        self._lost, self._sights = None, 0
        self._note(msgspec.structs.replace(claim, turn=claim.next_turn, age=0.0), began)
        return True

    async def _write(self, turn: str, version: str | None) -> bool:
        """Replace the lease; return False if another has written it."""
        lease = MediaLease(
            turn=turn,
            beat=_random(),
            host=socket.gethostname(),
            catalog=self._catalog,
            place=self._place,
            store=self._store,
        )
        data = msgspec.json.encode(lease)
        try:
            self._written = turn, await self._objects.put_if(LEASE, data, version, vital=True)
        except ObjectChanged:
            return False
        return True

    async def _age(self) -> float:
        """Return how long ago (seconds) the lease was written, by the store's own clock."""
        probe = f"{_CHECKS}/{secrets.token_hex(8)}"
        await self._objects.put(probe, b"?", vital=True)
        try:
            now, lease = await self._objects.stat(probe), await self._objects.stat(LEASE)
        finally:
            await self._objects.delete(probe)
        if now is None or lease is None:
            return float("inf")
        return max(0.0, (now.modified_us - lease.modified_us) / MICROSECONDS)
