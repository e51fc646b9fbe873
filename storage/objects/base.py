"""The protocol of object stores, which keep media that outlives a process.

    StorageError
    └── ObjectError             an object store could not do what was asked
        ├── ObjectMissing       no fault: there is no such object
        ├── ObjectChanged       no fault: another writer was faster
        ├── StoreClaimed        for the operator: the store takes nothing from this process now
        ├── StoreFull           for the operator: no room (ENOSPC, EDQUOT)
        └── StoreFailed         a fault outside Headend: the disk or the network failed (EIO etc.)

An object is written as a whole or not at all, and replaced atomically: a reader sees the old bytes
or the new ones. Addresses are relative paths (see `storage.objects.addresses`).
"""

from collections.abc import Collection, Mapping
from typing import Final, Protocol

import msgspec

from storage.errors import StorageError
from storage.objects.addresses import printable

STORE: Final = "the store"  # in the place of an address, in errors about all of it


class ObjectError(StorageError):
    """An operation on the object at `address` failed."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"{printable(address)}: {reason}")
        self.address = address
        self.reason = reason


class ObjectMissing(ObjectError):
    """No object has this address."""

    def __init__(self, address: str) -> None:
        super().__init__(address, "no such object")


class ObjectChanged(ObjectError):
    """The object is not the version that was to be replaced."""

    def __init__(self, address: str) -> None:
        super().__init__(address, "another writer has changed it")


class StoreClaimed(ObjectError):
    """The store is well, and takes nothing from this process now: see `Guard`."""


class StoreFull(ObjectError):
    """The store has no room for the object."""


class StoreFailed(ObjectError):
    """The disk or the network failed."""


class Guard(Protocol):
    """What a store asks before each change (`storage.store_lease`); both raise `StoreClaimed`."""

    def require_write(self, address: str) -> None:
        """Check that this process may write an object."""
        ...

    def require_delete(self, address: str) -> None:
        """Check that this process may delete or move what is at an address."""
        ...


class _Unguarded:
    def require_write(self, address: str) -> None:
        """Allow it."""

    def require_delete(self, address: str) -> None:
        """Allow it."""


UNGUARDED: Final[Guard] = _Unguarded()


class ObjectStat(msgspec.Struct, frozen=True, kw_only=True):
    """Size in bytes, and time of the last change in microseconds since the Unix epoch."""

    size: int
    modified_us: int


class ReadableObjects(Protocol):
    """Read access to objects. Every call may raise `BadAddress` and `ObjectError`."""

    @property
    def location(self) -> str:
        """Where the objects are, for messages to the operator."""
        ...

    async def folder_names(self, prefix: str) -> set[str]:
        """Return the names of the folders below `prefix`, however much is in them.

        Without such a folder the result is empty.
        """
        ...

    async def has_changed(self, prefix: str, since_us: int) -> bool:
        """Return whether a folder has changed since then, in microseconds since the Unix epoch.

        In a bucket that is any object below it, on a disk what is directly in it. A folder that
        does not exist has not changed.
        """
        ...

    async def addresses(self, prefix: str) -> list[str]:
        """Return the sorted addresses of all objects below `prefix`, a folder's address."""
        ...

    async def stat(self, address: str) -> ObjectStat | None:
        """Return the size and age of an object, or None if there is none."""
        ...

    async def get(self, address: str) -> bytes:
        """Return the bytes of an object, or raise `ObjectMissing`."""
        ...


class Objects(ReadableObjects, Protocol):
    """An object store. Every call may raise `BadAddress` and `ObjectError`.

    Stores that derive from it need no calls for one object beside those for several.
    """

    async def put(self, address: str, data: bytes, *, vital: bool = False) -> None:
        """Write an object and replace any that has the address.

        A `vital` object is small and leads to others; it may use the room reserved for these.
        """
        await self.put_all({address: data}, vital=vital)

    async def put_all(self, objects: Mapping[str, bytes], *, vital: bool = False) -> None:
        """Write objects by address, in any order, as `put` does.

        After a failure the others are still written; the last error is raised.
        """
        ...

    async def version(self, address: str) -> str | None:
        """Return an identifier of an object's present version, or None if there is no object."""
        ...

    async def put_if(
        self, address: str, data: bytes, version: str | None, *, vital: bool = False
    ) -> str:
        """Replace one version of an object, and return the new version.

        With `version` None there must be no such object. Of several writers that replace the same
        version, one succeeds. After `StoreFailed` the object may still have been written.

        Raises:
            ObjectChanged: the object has another version.
        """
        ...

    async def link(self, source: str, target: str) -> None:
        """Give an object a second address, replacing any object there, without using more room.

        Deleting one address keeps the other. Stores that cannot link make a copy. Raises
        `ObjectMissing` if there is no object at `source`.
        """
        ...

    async def move(self, source: str, target: str) -> None:
        """Move an object, or all objects below a folder; do nothing if there is none.

        There must be no objects at `target`. Stores that cannot move copy first, then delete.
        """
        ...

    async def make_durable(self, address: str) -> None:
        """Have an object, or all objects below a folder, survive a power cut.

        Call it before a row that names the object is committed; it waits for the disk. Raises
        `ObjectMissing` if there is nothing.
        """
        ...

    async def get(self, address: str) -> bytes:
        """Return the bytes of an object, or raise `ObjectMissing`."""
        (data,) = await self.get_all((address,))
        if data is None:
            raise ObjectMissing(address)
        return data

    async def get_all(self, addresses: Collection[str]) -> list[bytes | None]:
        """Return the bytes of objects, None for those that do not exist."""
        ...

    async def delete(self, address: str) -> None:
        """Delete an object, if it exists."""
        await self.delete_all((address,))

    async def delete_all(self, addresses: Collection[str]) -> None:
        """Delete objects that exist, as many as possible; the last error is raised."""
        ...

    async def sizes(self, prefix: str) -> dict[str, int]:
        """Return the sizes in bytes of all objects below `prefix`, by address."""
        ...

    async def delete_tree(self, prefix: str) -> None:
        """Delete all objects below `prefix`, however many; some are left if the store fails."""
        ...
