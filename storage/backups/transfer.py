"""Moves the bytes of objects between stores, and knows them by their SHA-256.

Small objects are in memory, some at a time. Larger ones pass through a file of this machine, unless
they are one: then nothing of them is in memory at once.
"""

import contextlib
import hashlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from storage.objects.base import ObjectMissing
from storage.objects.disk import DiskObjects
from storage.objects.incoming_file import in_thread, write_at
from storage.objects.read_only import MISSING, ReadOnlyObjects
from storage.objects.s3 import fetch_file
from storage.objects.s3_bucket import PIECE_BYTES, S3Bucket

# What is read from: `DiskObjects` extends `ReadOnlyObjects`.
Source = ReadOnlyObjects | S3Bucket
Target = DiskObjects | S3Bucket

LARGE_BYTES: Final = PIECE_BYTES
# Objects in memory at once: segments have 1 to 4 MB, and a slow disk must write all within 20 s.
_BATCH: Final = 64
_CHUNK: Final = 4 << 20  # read or written in one go; a slow disk takes a second for it


_T = TypeVar("_T")


def batches(objects: Iterable[_T], size_of: Callable[[_T], int]) -> Iterator[list[_T]]:
    """Yield some objects at a time, which fit into memory together; a large one is alone."""
    batch: list[_T] = []
    total = 0
    for each in objects:
        size = size_of(each)
        if batch and (len(batch) >= _BATCH or total + size > LARGE_BYTES):
            yield batch
            batch, total = [], 0
        batch.append(each)
        total += size
    if batch:
        yield batch


def digest_of(data: bytes) -> str:
    """Return the SHA-256 of bytes in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


async def read_all(source: Source, addresses: Collection[str]) -> list[bytes | None]:
    """Return the bytes of small objects, None for those that do not exist.

    Raises:
        StoreFailed: the store failed.
    """
    if isinstance(source, S3Bucket):
        return await source.get_all(addresses)

    def read() -> list[bytes | None]:
        return [_read(source.path(address)) for address in addresses]

    return await in_thread(read, name=next(iter(addresses), ""))


def _read(path: Path) -> bytes | None:
    with contextlib.suppress(*MISSING):
        return path.read_bytes()
    return None


async def copy_to_file(source: Source, address: str, path: Path) -> str:
    """Copy an object into a new file, and return the SHA-256 of its bytes.

    Raises:
        ObjectMissing: there is no such object.
        StoreFull, StoreFailed: the store or the disk failed.
    """
    if isinstance(source, S3Bucket):

        async def begin(size: int) -> None:
            del size  # a full disk says so

        await fetch_file(source, address, path.with_name(f"{path.name}.part"), path, begin)
        return await digest_of_file(path)
    return await _walk_file(source.path(address), address, into=path)


async def digest_of_file(path: Path, name: str = "") -> str:
    """Return the SHA-256 of a file's bytes.

    Raises:
        ObjectMissing: there is no such file.
        StoreFailed: the disk failed.
    """
    return await _walk_file(path, name or path.name, into=None)


async def _walk_file(path: Path, name: str, *, into: Path | None) -> str:
    """Return the SHA-256 of a file's bytes, which are also written to another file."""
    digest = hashlib.sha256()
    position = 0

    def step() -> int:
        with path.open("rb") as file:
            file.seek(position)
            chunk = file.read(_CHUNK)
        digest.update(chunk)
        if into is not None:
            write_at(into, chunk, position)
        return len(chunk)

    def is_there() -> bool:
        return path.is_file()

    if not await in_thread(is_there, name=name):
        raise ObjectMissing(name)
    while count := await in_thread(step, name=name):
        position += count
    return digest.hexdigest()


async def place_file(target: Target, path: Path, address: str) -> None:
    """Make a file an object; on the disk of a folder it is the object then.

    Raises:
        StoreFull, StoreFailed: the store failed.
    """
    await target.send(path, address)
    await in_thread(partial(path.unlink, missing_ok=True), name=address)


async def set_times(target: Target, times_us: Mapping[str, int]) -> None:
    """Give objects on a disk the times of their last change; a bucket has its own.

    Raises:
        StoreFailed: the disk failed.
    """
    if isinstance(target, S3Bucket):
        return

    def set_each() -> None:
        for address, time_us in times_us.items():
            os.utime(target.path(address), ns=(time_us * 1000, time_us * 1000))

    await in_thread(set_each, name=next(iter(times_us), ""))
