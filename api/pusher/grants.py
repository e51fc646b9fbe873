"""Finds out which tokens and sessions still hold, of those that open private channels."""

from collections.abc import Awaitable, Callable, Collection
from typing import Final, TypeVar

from api.pusher.protocol import ChannelGrant
from storage.catalog import Catalog
from storage.wall_clock import wall_clock_us

T = TypeVar("T", int, str)

# In a query: PostgreSQL and SQLite take some 32 000 parameters.
_AT_ONCE: Final = 1000

# Returns which of these grants still hold. Raises `StorageError` if that cannot be found out.
FindHolding = Callable[[Collection[ChannelGrant]], Awaitable[frozenset[ChannelGrant]]]


async def none_hold(_grants: Collection[ChannelGrant]) -> frozenset[ChannelGrant]:
    """Return nothing: no token and no session opens a private channel."""
    return frozenset()


def holding_in(catalog: Catalog, clock_us: Callable[[], int] = wall_clock_us) -> FindHolding:
    """Return the function that looks grants up in a catalog."""

    async def find(grants: Collection[ChannelGrant]) -> frozenset[ChannelGrant]:
        numbers = [grant.token for grant in grants if grant.session is None]
        digests = [grant.session for grant in grants if grant.session is not None]
        tokens: set[int] = set()
        for some in _parts(numbers):
            tokens |= await catalog.tokens.find_valid(some)
        sessions: set[str] = set()
        for some in _parts(digests):
            sessions |= await catalog.sessions.find_open(some, clock_us())
        return frozenset(
            grant
            for grant in grants
            if (grant.token in tokens if grant.session is None else grant.session in sessions)
        )

    return find


def _parts(whole: list[T]) -> list[list[T]]:
    return [whole[at : at + _AT_ONCE] for at in range(0, len(whole), _AT_ONCE)]
