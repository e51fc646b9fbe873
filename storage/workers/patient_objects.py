"""An object store whose writes wait while the store is away or nearly full."""

from collections.abc import Collection, Mapping

from storage.objects.base import Objects, ObjectStat
from storage.workers.store_health import StoreHealth


class PatientObjects(Objects):
    """`objects` (see `storage.objects.base.Objects`), written to only while `health` is well.

    A write that fails because the store is not well is repeated when it is well again; work under
    way only loses time. Reading and removing are not delayed.
    """

    def __init__(self, objects: Objects, health: StoreHealth) -> None:
        self._objects = objects
        self._health = health

    @property
    def location(self) -> str:
        """Where the objects are, for messages to the operator."""
        return self._objects.location

    async def put_all(self, objects: Mapping[str, bytes], *, vital: bool = False) -> None:
        """Write objects once the store is well."""
        await self._health.write(lambda: self._objects.put_all(objects, vital=vital))

    async def version(self, address: str) -> str | None:
        """Return the identifier of an object's present version, or None if there is none."""
        return await self._objects.version(address)

    async def put_if(
        self, address: str, data: bytes, version: str | None, *, vital: bool = False
    ) -> str:
        """Write an object in the place of one version of it.

        It is not repeated: after a failure, it may have been written.
        """
        return await self._objects.put_if(address, data, version, vital=vital)

    async def link(self, source: str, target: str) -> None:
        """Give an object a second address once the store is well."""
        await self._health.write(lambda: self._objects.link(source, target))

    async def make_durable(self, address: str) -> None:
        """Make what was written survive a power cut.

        It is not repeated: after a sync that failed, the kernel may have dropped what was written.
        """
        await self._objects.make_durable(address)

    async def get_all(self, addresses: Collection[str]) -> list[bytes | None]:
        """Return the bytes of objects."""
        return await self._objects.get_all(addresses)

    async def stat(self, address: str) -> ObjectStat | None:
        """Return the size and age of an object, or None if there is none."""
        return await self._objects.stat(address)

    async def move(self, source: str, target: str) -> None:
        """Move an object or a folder to another address."""
        await self._objects.move(source, target)

    async def delete_all(self, addresses: Collection[str]) -> None:
        """Delete objects that exist."""
        await self._objects.delete_all(addresses)

    async def addresses(self, prefix: str) -> list[str]:
        """Return the sorted addresses of all objects below `prefix`."""
        return await self._objects.addresses(prefix)

    async def sizes(self, prefix: str) -> dict[str, int]:
        """Return the sizes in bytes of all objects below `prefix`, by address."""
        return await self._objects.sizes(prefix)

    async def folder_names(self, prefix: str) -> set[str]:
        """Return the names of the folders below `prefix`."""
        return await self._objects.folder_names(prefix)

    async def has_changed(self, prefix: str, since_us: int) -> bool:
        """Return whether a folder has changed since then."""
        return await self._objects.has_changed(prefix, since_us)

    async def delete_tree(self, prefix: str) -> None:
        """Delete all objects below `prefix`."""
        await self._objects.delete_tree(prefix)
