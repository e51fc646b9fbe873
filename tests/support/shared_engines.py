"""PostgreSQL, Redis and a bucket in the place of SQLite, a folder and memory, for whole suites.

With `HEADEND_TEST_ENGINES=shared` the tests of the API and of the corpus run on what several hosts
share (`make engines`).
"""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, cast

import pytest

from storage.objects.disk import DiskObjects
from storage.objects.s3 import S3Objects
from tests.support.storage.s3_server import S3Server

__all__ = ["ON_SHARED", "bucket_objects"]

_CHOICES: Final = {"": False, "shared": True}
ON_SHARED: Final = _CHOICES[os.environ.get("HEADEND_TEST_ENGINES", "")]
_CACHE_BYTES: Final = 64 << 20


@contextmanager
def bucket_objects(server: S3Server, folder: Path) -> Generator[DiskObjects]:
    """Have an empty bucket for the length of the block, with its scratch in a folder."""
    with pytest.MonkeyPatch.context() as patch, DiskObjects(folder) as scratch:
        for name, value in server.credentials.items():
            patch.setenv(name, value)
        store = S3Objects(server.new_bucket("media"), scratch, cache_bytes=_CACHE_BYTES)
        # Another class: the tests of these suites use what every store has.
        yield cast("DiskObjects", store)
