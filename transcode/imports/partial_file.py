"""The file that an import downloads to, which survives the process: later attempts continue it.

It is locked while an attempt writes to it. How many of its bytes count, and of which version of the
file they are, is in the row of the import.
"""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from media.stream_keys import PublicHash
from storage.objects import addresses
from storage.objects.resumable_file import FileStillLocked, ResumableFile, open_resumable_file
from storage.objects.store import MediaStore


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
) -> AsyncGenerator[ResumableFile]:
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
        max_bytes=max_bytes,
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
        yield file
