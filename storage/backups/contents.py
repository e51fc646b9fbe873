"""What a backup has, by the addresses that a catalog may name: not every segment."""

from typing import Final

from storage.backups.manifest import ListedObject
from storage.objects.base import ObjectStat

_INDEX: Final = "/index.m3u8"


class Contents:
    """The files and folders of a backup (see `storage.cleanup.missing.FileList`)."""

    def __init__(self) -> None:
        self._files: dict[str, ObjectStat] = {}
        self._folders: set[str] = set()

    def add(self, entry: ListedObject) -> None:
        """Add an object."""
        address = entry.address
        top, *rest = address.split("/")
        if top in {"sources", "slates"} or (address.endswith(_INDEX) and len(rest) == 3):
            stat = ObjectStat(size=entry.size, modified_us=entry.modified_us)
            self._files[address] = stat
        if top == "videos":
            self._folders.add("/".join([top, *rest[:2]]))

    async def stat(self, address: str) -> ObjectStat | None:
        """Return the size and age of an uploaded file, a slate or a playlist of a video."""
        return self._files.get(address)

    async def addresses(self, prefix: str) -> list[str]:
        """Return an address below the folder of a video's media or pictures, if there is any."""
        return [prefix] if prefix in self._folders else []
