"""One process at a time changes the backups in a place.

In a folder it is a lock of the kernel (flock(2)), which ends with the process. In a bucket it is an
object that the holder replaces every 30 s; two minutes after it was replaced last, by the bucket's
clock, its holder is dead, and another process takes it over.
"""

import asyncio
import fcntl
import logging
import os
import secrets
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Final

from storage.backups.transfer import Target
from storage.errors import StorageError
from storage.objects.base import ObjectChanged, ObjectMissing
from storage.objects.s3_bucket import S3Bucket

log = logging.getLogger(__name__)

_FILE: Final = ".lock"
_OBJECT: Final = "lock"
_PROBE: Final = "lock.probe"
_RENEW_SECONDS: Final = 30.0
_DEAD_US: Final = 120_000_000


class BackupBusy(StorageError):
    """Another process changes the backups in this place."""

    def __init__(self, location: str, what: str) -> None:
        super().__init__(f"another `headend backup` is at work on {location} ({what}): wait for it")


@asynccontextmanager
async def locked(target: Target) -> AsyncGenerator[None]:
    """Hold the lock of a place for the length of the block.

    Raises:
        BackupBusy: another process holds it.
        StorageError: the place cannot be written to.
    """
    if isinstance(target, S3Bucket):
        async with _locked_bucket(target):
            yield
        return
    lock = os.open(target.root / _FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BackupBusy(target.location, "it holds the lock of the folder") from None
        yield
    finally:
        os.close(lock)


@asynccontextmanager
async def _locked_bucket(bucket: S3Bucket) -> AsyncGenerator[None]:
    me = f"{socket.gethostname()} {secrets.token_hex(8)}"
    version = await bucket.version(_OBJECT)
    if version is not None and not await _is_dead(bucket):
        raise BackupBusy(bucket.location, "or was killed less than two minutes ago")
    try:
        version = await bucket.put_if(_OBJECT, _beat(me), version)
    except ObjectChanged:
        raise BackupBusy(bucket.location, "it was faster") from None

    async def renew(version: str) -> None:
        while True:
            await asyncio.sleep(_RENEW_SECONDS)
            try:
                version = await bucket.put_if(_OBJECT, _beat(me), version)
            except ObjectChanged:
                raise BackupBusy(bucket.location, "this one did not answer for long") from None

    try:
        async with asyncio.TaskGroup() as group:
            renewing = group.create_task(renew(version))
            yield
            renewing.cancel()
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    finally:
        with suppress(StorageError):
            if (await bucket.get(_OBJECT)).startswith(me.encode()):
                await bucket.delete(_OBJECT)


def _beat(me: str) -> bytes:
    return f"{me} {secrets.token_hex(8)}\n".encode()  # a new version each time


async def _is_dead(bucket: S3Bucket) -> bool:
    """Return whether the lock's object is old, by the bucket's own clock."""
    await bucket.put(_PROBE, b"")
    stat, now = await bucket.stat(_OBJECT), await bucket.stat(_PROBE)
    if stat is None:
        return True
    if now is None:
        raise ObjectMissing(_PROBE)
    return now.modified_us - stat.modified_us > _DEAD_US
