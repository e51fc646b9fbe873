"""What the public pages and the origin need of the world; `headend.wiring` binds it."""

from typing import Protocol

from storage.catalog.records import Shown

__all__ = ["OwnerCheck", "Showcase"]


class Showcase(Protocol):
    """Knows which streams there are to be watched; the catalog is one."""

    async def shown(self, hash_: str, /) -> Shown | None:
        """Return what viewers may know of the stream, or None where there is none."""
        ...


class OwnerCheck(Protocol):
    """Tells an owner from a viewer."""

    async def __call__(self, authorization: str | None, hash_: str, /) -> bool:
        """Say whether the `Authorization` header holds a token that reaches the stream."""
        ...
