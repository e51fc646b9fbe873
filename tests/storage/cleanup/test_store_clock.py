"""An object is old only if both the store's clock and the catalog's say so."""

from pathlib import Path

import pytest

from storage.cleanup.store_clock import store_now_us
from storage.objects.disk import DiskObjects
from storage.objects.s3_bucket import S3Bucket
from storage.wall_clock import wall_clock_us
from tests.support.storage.s3_server import S3Server

pytestmark = pytest.mark.anyio

MONTH_US = 30 * 86_400_000_000
SECOND_US = 1_000_000


async def test_a_clock_that_is_ahead_of_the_disk_does_not_count(tmp_path: Path) -> None:
    with DiskObjects(tmp_path) as objects:
        before_us = wall_clock_us()
        # The kernel dates files by its last tick.
        store_us = await store_now_us(objects, before_us + MONTH_US)
        assert before_us - SECOND_US <= store_us <= wall_clock_us()
        assert await store_now_us(objects, before_us - MONTH_US) == before_us - MONTH_US
        assert await objects.addresses("checks") == []


async def test_a_clock_that_is_ahead_of_the_bucket_does_not_count(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3_server.credentials.items():
        monkeypatch.setenv(name, value)
    bucket = S3Bucket(s3_server.new_bucket())
    before_us = wall_clock_us()  # the server is on this host, and counts seconds
    store_us = await store_now_us(bucket, before_us + MONTH_US)
    assert before_us - 2 * SECOND_US <= store_us <= wall_clock_us() + SECOND_US
    assert await bucket.addresses("checks") == []
