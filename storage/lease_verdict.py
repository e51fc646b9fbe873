"""What a start does about the lease of its store (`storage.store_lease`). Pure."""

from enum import Enum, auto

import msgspec

from storage.catalog.projects.store_claims import StoreClaim
from storage.errors import StorageError


class MediaLease(msgspec.Struct, frozen=True, kw_only=True):
    """The lease as it is in the store.

    Whenever it is written it has another `beat`, which is random; the turn stays where the catalog
    cannot be told of a new one. `host` and `catalog` say to operators whose it is; `place` and
    `store` are what copies of the catalog and of the store do not share with them. `place` is "" if
    the catalog was moved. `released`: the last process of the catalog has ended.
    """

    turn: str = ""
    beat: str = ""
    host: str = ""
    catalog: str = ""
    place: str = ""
    store: str = ""
    released: bool = False

    @property
    def holder(self) -> str:
        """Where the catalog is, for operators, also if the lease could not be read."""
        return f"{self.catalog} on {self.host}" if self.catalog else "an unknown place"


class StoreInUse(StorageError):
    """Another copy of the catalog uses the store."""

    def __init__(self, store: str, catalog: str, lease: MediaLease, seconds: float) -> None:
        super().__init__(
            f"the media in {store} are in use by another copy of the database at {catalog}, that at"
            f" {lease.holder}: stop the Headend there and start this one"
            f" {seconds:.0f} s later, or give this one other media, or run `headend take-over`,"
            " after which that one deletes and adds nothing more"
        )
        self.lease = lease


class StoreElsewhere(StorageError):
    """The catalog's other processes have another store."""

    def __init__(self, store: str, catalog: str) -> None:
        super().__init__(
            f"the database at {catalog} is in use with other media than those in {store}: use the"
            " folder or bucket that the running Headend has, or a database of your own; if those"
            " are a copy and these are not, run `headend take-over`, after which the other Headend"
            " deletes and adds nothing more"
        )


class NewStoreRefused(StorageError):
    """A new store is to be confirmed while the catalog's other processes have theirs."""

    def __init__(self, store: str, catalog: str, seconds: float) -> None:
        super().__init__(
            f"the database at {catalog} was in use with other media than the new, empty {store}"
            f" less than {seconds:.0f} s ago: a machine that joins others needs the folder or"
            " bucket that they have; if all are to begin with a new one, stop them, and run this"
            f" {seconds:.0f} s later"
        )


class Verdict(Enum):
    """What a start does about the lease."""

    OURS = auto()
    FREE = auto()
    WAIT = auto()
    IN_USE = auto()
    ELSEWHERE = auto()


class Sight(msgspec.Struct, frozen=True, kw_only=True):
    """The lease in the store (None: there is none) and the catalog's claim, seen together."""

    lease: MediaLease | None
    claim: StoreClaim
    turns: frozenset[str]  # of the claim, before and after the lease was read


def judge(
    first: Sight | None,
    now: Sight,
    *,
    place: str,
    store: str,
    lease_age: float,
    expired_seconds: float,
) -> Verdict:
    """Return what a start at `place` does about the lease of the store known as `store`.

    `first` is what it saw first, None at the first look; `lease_age` (seconds) is by the store's
    clock, or for how long this start has seen no other lease.
    """
    lease, claim = now.lease, now.claim
    is_ours = lease is not None and lease.turn in now.turns
    if lease is not None:
        is_at_home = lease.place in ("", place)
        if is_ours and is_at_home and lease.store == store:
            return Verdict.OURS
        if not is_at_home and lease.store != store:
            return Verdict.FREE  # both are copies, as after a restore: nobody else has either
    is_held = lease is not None and not lease.released
    if first is not None:
        if is_held and first.lease is not None and lease != first.lease:
            # Somebody renewed it while this was watching.
            return Verdict.OURS if is_ours else Verdict.IN_USE
        if not is_ours and claim.turn != first.claim.turn:
            return Verdict.ELSEWHERE
    is_alive = is_held and lease_age < expired_seconds
    if is_alive or claim.age < expired_seconds:
        return Verdict.WAIT
    return Verdict.FREE
