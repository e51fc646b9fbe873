"""A cleanup of a bucket costs what is unknown to the catalog, however much is stored."""

import time
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest

from storage.catalog import open_catalog
from storage.catalog.records.common import Change
from storage.cleanup.orphans import AGE_US, find_unknown, remove_orphans
from storage.objects.disk import DiskObjects
from storage.objects.s3 import S3Objects
from tests.support.sql import migrated
from tests.support.storage.failing_front import failing_front
from tests.support.storage.new_videos import complete_video, new_video
from tests.support.storage.s3_server import S3Server

KEPT, GONE, NEW = "AAAAAAAAAAAA", "BBBBBBBBBBBB", "CCCCCCCCCCCC"
PAGE = 1000  # objects in an answer of the server


async def test_the_media_of_known_videos_are_not_listed(
    tmp_path: Path, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3_server.credentials.items():
        monkeypatch.setenv(name, value)
    with ExitStack() as stack:
        front = stack.enter_context(failing_front(tmp_path / "front", s3_server.endpoint))
        scratch = stack.enter_context(DiskObjects(tmp_path / "scratch"))
        location = msgspec.structs.replace(s3_server.new_bucket(), endpoint=front.endpoint)
        bucket = S3Objects(location, scratch, cache_bytes=0)
        now_us = time.time_ns() // 1000
        async with open_catalog(migrated(tmp_path / "catalog.db"), migrate=True) as catalog:
            project = await catalog.projects.add("films", Change(1))
            await catalog.videos.add(project.id, new_video(KEPT), Change(now_us))
            await complete_video(catalog, now_us)
            await bucket.put_all({f"sources/{KEPT}/1": b"", f"videos/{KEPT}/1-1/360p/0.m4s": b""})
            requests: list[int] = []
            for count in (1, PAGE + 1):
                await bucket.put_all(
                    {f"videos/{KEPT}/1-1/360p/{number}.m4s": b"" for number in range(count)}
                )
                before = front.requests()
                found = await find_unknown(bucket, catalog.references, now_us + 2 * AGE_US)
                assert (found.orphans, found.total) == ((), 1)
                assert await remove_orphans(bucket, catalog.references, now_us + 2 * AGE_US) == 0
                requests.append(front.requests() - before)
            assert requests[0] == requests[1]
            # Of what is unknown, the newest object decides.
            await bucket.put_all({f"live/{GONE}/run/1.m4s": b"", f"videos/{GONE}/1-1/1.m4s": b""})
            assert await remove_orphans(bucket, catalog.references, now_us) == 0
            assert await remove_orphans(bucket, catalog.references, now_us + 2 * AGE_US) == 2
            assert await bucket.folder_names("live") == set()
            assert await bucket.folder_names("videos") == {KEPT}
