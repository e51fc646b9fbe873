"""The store of an installation's media: the data folder, or a bucket if the settings name one."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from headend.config.settings import ServiceSettings
from storage.objects.disk import DiskObjects
from storage.objects.read_only import ReadOnlyObjects
from storage.objects.s3 import S3Objects
from storage.objects.s3_bucket import S3Bucket, S3Location
from storage.objects.store import MediaStore

OBJECTS: Final = "objects"
SCRATCH: Final = "scratch"  # beside a bucket
StoredFiles = ReadOnlyObjects | S3Bucket


def bucket_of(settings: ServiceSettings) -> S3Location | None:
    """Return the bucket that holds the media; None: they are in the data folder."""
    storage = settings.storage
    if not storage.url:
        return None
    return S3Location.parse(storage.url, endpoint=storage.endpoint, region=storage.region)


def signing_bucket(settings: ServiceSettings) -> S3Bucket:
    """Return the bucket under the address by which viewers reach it.

    Raises:
        ValueError: the settings name no bucket.
    """
    location, public = bucket_of(settings), settings.storage.public_endpoint
    if location is None:
        raise ValueError("storage.url is not set")
    return S3Bucket(msgspec.structs.replace(location, endpoint=public) if public else location)


@contextmanager
def open_store(
    folder: Path,
    bucket: S3Location | None,
    *,
    cache_bytes: int = 0,
    min_free_bytes: int = 0,
    has_cdn_copies: bool = False,
) -> Generator[MediaStore]:
    """Open the store for the length of the block.

    `cache_bytes` of the data folder hold copies of what was read from a bucket; large ones are made
    only if `min_free_bytes` of its disk stay free. `has_cdn_copies` as in `S3Objects`.
    """
    if bucket is None:
        with DiskObjects(folder / OBJECTS) as objects:
            yield objects
    else:
        with DiskObjects(folder / SCRATCH) as scratch:
            yield S3Objects(
                bucket,
                scratch,
                cache_bytes=cache_bytes,
                min_free_bytes=min_free_bytes,
                has_cdn_copies=has_cdn_copies,
            )


def read_store(
    folder: Path, bucket: S3Location | None, *, has_cdn_copies: bool = False
) -> StoredFiles:
    """Return the store for callers that change nothing, not even in the data folder.

    `has_cdn_copies` as in `S3Bucket`.
    """
    if bucket is None:
        return ReadOnlyObjects(folder / OBJECTS)
    return S3Bucket(bucket, has_cdn_copies=has_cdn_copies)
