"""A disk on which some files can neither be deleted nor moved."""

from pathlib import Path

from storage.objects.base import StoreFailed
from storage.objects.disk import DiskObjects


class UndeletableDisk(DiskObjects):
    """A real disk that keeps all addresses containing one of the texts in `stuck`.

    `calls` counts what was to be deleted or moved.
    """

    def __init__(self, root: Path, *stuck: str) -> None:
        super().__init__(root, reserve_bytes=0)
        self.stuck = set(stuck)
        self.calls = 0

    async def delete(self, address: str) -> None:
        self._refuse(address)
        await super().delete(address)

    async def delete_tree(self, prefix: str) -> None:
        self._refuse(prefix)
        await super().delete_tree(prefix)

    async def move(self, source: str, target: str) -> None:
        self._refuse(source)
        await super().move(source, target)

    def _refuse(self, address: str) -> None:
        self.calls += 1
        if any(text in address for text in self.stuck):
            raise StoreFailed(address, "Operation not permitted")
