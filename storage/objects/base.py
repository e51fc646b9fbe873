"""What keeps media that outlives a process: whole objects by address.

    StorageError
    └── ObjectError             what an object store could not do
        ├── ObjectMissing       nobody's: there is no such object
        ├── StoreFull           the operator's: no room (ENOSPC, EDQUOT)
        └── StoreFailed         the world's: the disk or the network (EIO and all else)

An object is written whole or not at all, and replaced in one step: a reader sees the old bytes or
the new ones. Addresses are relative paths (see `storage.objects.addresses`).
"""

from typing import Protocol

import msgspec

from storage.errors import StorageError

__all__ = ["ObjectError", "ObjectMissing", "ObjectStat", "Objects", "StoreFailed", "StoreFull"]


class ObjectError(StorageError):
    """An object store could not do what was asked of `address`."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"{address}: {reason}")
        self.address = address
        self.reason = reason


class ObjectMissing(ObjectError):
    """There is no such object."""

    def __init__(self, address: str) -> None:
        super().__init__(address, "no such object")


class StoreFull(ObjectError):
    """There is no room for it."""


class StoreFailed(ObjectError):
    """The disk or the network failed."""


class ObjectStat(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of an object without reading it: bytes, microseconds since the Unix epoch."""

    size: int
    modified_us: int


class Objects(Protocol):
    """An object store. Every call raises `BadAddress` for what is no address, and `ObjectError`."""

    async def put(self, address: str, data: bytes, *, vital: bool = False) -> None:
        """Write an object, in place of one that has the address.

        A `vital` one is small and leads to others: it may take room that is kept for such.
        """
        ...

    async def link(self, source: str, target: str) -> None:
        """Have an object at a second address, in place of one that has it; it takes no more room.

        Each lives on without the other. Where a store cannot, it is a copy. `ObjectMissing` where
        there is no object at `source`.
        """
        ...

    async def get(self, address: str) -> bytes:
        """Return an object; `ObjectMissing` where there is none."""
        ...

    async def stat(self, address: str) -> ObjectStat | None:
        """Return what is known of an object, or None where there is none."""
        ...

    async def delete(self, address: str) -> None:
        """Remove an object; one that is not there is gone already."""
        ...

    async def addresses(self, prefix: str) -> list[str]:
        """Return the addresses of all objects below `prefix` (a folder's address), in order."""
        ...

    async def delete_tree(self, prefix: str) -> None:
        """Remove all objects below `prefix`."""
        ...
