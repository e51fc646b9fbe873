"""Places shared among clients, so that none of them can hold all.

A client may hold as many places as would still be free. One alone gets half of them, a second one
half of the rest, and so on: a crowd behind one address gets many places while many are free, and
however many a few clients hold, a newcomer that needs few gets them. A fixed limit per client could
do only one of the two. Pure.
"""

from collections import Counter
from enum import Enum
from typing import Final

import msgspec

from media.networks import client_network, site_network

# A /48 may hold twice the free places: it is one site with many networks, or many customers.
_SITE_SHARE: Final = 2


class Refusal(Enum):
    """Why a place is refused; the value is for the log."""

    ALL = "all places are taken"
    SHARE = "one client holds its share"


class Holder(msgspec.Struct, frozen=True):
    """A client, or a group of clients, that may hold `share` times the free places.

    At most `most` places if that is fewer.
    """

    name: str
    share: int = 1
    most: int | None = None


def client_holders(address: str) -> tuple[Holder, ...]:
    """Return the holders that a client's address counts for; none if it has no address."""
    if not address:
        return ()
    site = site_network(address)
    client = Holder(client_network(address))
    return (client,) if site is None else (client, Holder(site, _SITE_SHARE))


class FairShare:
    """Counts the places that are held, in total and by holder.

    `spare` is how many held places their holders would give up for others: they count as free.
    """

    def __init__(self, total: int) -> None:
        self.spare = 0
        self._total = total
        self._total_held = 0
        self._held_by: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._total_held

    @property
    def is_exceeded(self) -> bool:
        """True if more places are held than there are, of which one must be given up at once."""
        return self._total_held > self._total

    def acquire(self, holders: tuple[Holder, ...]) -> Refusal | None:
        """Acquire a place that counts for all `holders`, or return why it is refused.

        Each place must be given to `release` with the same holders.
        """
        if self._free() <= 0:
            return Refusal.ALL
        if not self.charge(holders):
            return Refusal.SHARE
        self._total_held += 1
        return None

    def release(self, holders: tuple[Holder, ...]) -> None:
        """Release a place."""
        self._total_held -= 1
        self.discharge(holders)

    def charge(self, holders: tuple[Holder, ...]) -> bool:
        """Count a held place for `holders` too; return False if that exceeds a holder's bound.

        What was charged must be given to `discharge`.
        """
        free = self._free()
        if any(self._is_at_bound(holder, free) for holder in holders):
            return False
        for holder in holders:
            self._held_by[holder.name] += 1
        return True

    def discharge(self, holders: tuple[Holder, ...]) -> None:
        """Undo a charge."""
        for holder in holders:
            self._held_by[holder.name] -= 1
            if not self._held_by[holder.name]:
                del self._held_by[holder.name]

    def _free(self) -> int:
        return self._total - self._total_held + self.spare

    def _is_at_bound(self, holder: Holder, free: int) -> bool:
        count = self._held_by[holder.name]
        # While a place is free, every holder gets its first one.
        return count > 0 and (
            count >= holder.share * free or (holder.most is not None and count >= holder.most)
        )
