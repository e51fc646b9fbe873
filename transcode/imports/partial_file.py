"""The file that an import downloads to, which survives the process: later attempts continue it.

It is locked while an attempt writes to it. How many of its bytes count, and of which version of the
file they are, is in the row of the import.
"""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

from media.stream_keys import PublicHash
from storage.objects import addresses
from storage.objects.incoming_file import IncomingFileTooLarge
from storage.objects.resumable_file import FileStillLocked, ResumableFile, open_resumable_file
from storage.objects.store import MediaStore


class PartialFile:
    """The bytes of a file that were downloaded so far. Only one task at a time may use it."""

    def __init__(self, file: ResumableFile, max_bytes: int) -> None:
        self._file = file
        self._max_bytes = max_bytes

    @property
    def size(self) -> int:
        """The bytes received so far, those included that are still in memory."""
        return self._file.position

    @property
    def path(self) -> Path:
        """Where the file is."""
        return self._file.path

    async def write(self, data: bytes) -> None:
        """Append bytes, which must not be changed afterwards.

        Raises:
            IncomingFileTooLarge: the file exceeds its limit.
            StoreFull, StoreFailed: as in `ResumableFile.write`.
        """
        if self.size + len(data) > self._max_bytes:
            raise IncomingFileTooLarge(self._max_bytes)
        await self._file.write(data)

    async def restart(self) -> None:
        """Empty the file: it will be received again from the beginning.

        Raises:
            StoreFailed: the disk failed.
        """
        await self._file.truncate(0)

    async def flush(self) -> None:
        """Write all received bytes to the file, so that it can be read.

        Raises:
            StoreFull, StoreFailed: as in `ResumableFile.write`.
        """
        await self._file.flush()

    async def sync(self) -> int:
        """Make the written bytes survive a power cut; return how many they are.

        Raises:
            StoreFailed: the disk failed.
        """
        return await self._file.sync()

    async def keep(self, address: str) -> None:
        """Turn the file into the object at `address`; then it survives a power cut.

        Raises:
            StoreFull, StoreFailed: as in `ResumableFile.keep`.
        """
        await self._file.flush()
        await self._file.keep(address)


@asynccontextmanager
async def open_partial_file(
    objects: MediaStore,
    hash_: PublicHash,
    *,
    attempt: int,
    received: int,
    max_bytes: int,
    min_free_bytes: int,
    wait_seconds: float = 1.0,
) -> AsyncGenerator[PartialFile]:
    """Open the file of a video's import for the length of the block, with up to `received` bytes.

    If a worker that lost its lease still holds it after `wait_seconds`, the attempt begins a
    separate file. The file stays when the block ends. `min_free_bytes` of the disk stay free.

    Raises:
        FileStillLocked: the attempt's own file is held, too.
        StoreFull, StoreFailed: the file cannot be created.
    """
    open_file = partial(
        open_resumable_file,
        objects,
        final_address=addresses.imported_source(hash_, attempt),
        min_free_bytes=min_free_bytes,
        wait_seconds=wait_seconds,
    )
    async with AsyncExitStack() as stack:
        try:
            file = await stack.enter_async_context(open_file(addresses.partial_import(hash_)))
        except FileStillLocked:
            own_address = addresses.partial_import(hash_, attempt)
            file = await stack.enter_async_context(open_file(own_address))
            received = 0
        await file.truncate(received)
        yield PartialFile(file, max_bytes)
