"""Both kinds of media store, for tests of their common interface."""

from collections.abc import Generator
from pathlib import Path

import pytest

from storage.objects.disk import DiskObjects
from storage.objects.s3 import S3Objects
from storage.objects.store import MediaStore
from tests.support.storage.s3_server import S3Server


@pytest.fixture(params=["disk", "bucket"])
def media_store(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[MediaStore]:
    """An empty store of either kind."""
    if request.param == "disk":
        with DiskObjects(tmp_path) as objects:
            yield objects
    else:
        yield request.getfixturevalue("bucket_store")


@pytest.fixture
def bucket_store(
    s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Generator[S3Objects]:
    """An empty bucket, with a scratch folder in `tmp_path` and 1 MB for copies."""
    for name, value in s3_server.credentials.items():
        monkeypatch.setenv(name, value)
    with DiskObjects(tmp_path / "scratch") as scratch:
        yield S3Objects(s3_server.new_bucket("some/prefix"), scratch, cache_bytes=1_000_000)
