"""Withdrawn copies are deleted after a minute, whatever process is killed meanwhile."""

import asyncio
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from media.no_op import do_nothing_async
from storage.catalog import Catalog, open_catalog
from storage.catalog.records.common import Change
from storage.cleanup.withdrawn_copies import (
    FORGET_US,
    GRACE_SECONDS,
    CopyWithdrawal,
    delete_unknown_copies,
    keep_deleting_withdrawn_copies,
)
from storage.errors import StorageError
from storage.objects.addresses import cdn_folder
from storage.objects.disk import DiskObjects
from storage.wall_clock import wall_clock_us
from tests.support.sql import migrated
from tests.support.storage.s3_server import S3Server
from tests.support.storage.undeletable_disk import UndeletableDisk
from tests.support.waiting import until

NOW_US = 1_700_000_000_000_000
GRACE_US = GRACE_SECONDS * 1_000_000

MOVER = """
import asyncio, sys
from pathlib import Path
from storage.catalog import open_catalog
from storage.cleanup.withdrawn_copies import CopyWithdrawal
from storage.objects.disk import DiskObjects
from storage.objects.s3 import S3Objects
from storage.objects.s3_bucket import S3Location

async def main(place, folder, name, endpoint, now_us):
    bucket = S3Location(bucket=name, prefix="p", endpoint=endpoint, region="us-east-1")
    with DiskObjects(Path(folder)) as scratch:
        objects = S3Objects(bucket, scratch, cache_bytes=0, has_cdn_copies=True)
        async with open_catalog(place, migrate=False) as catalog:
            await CopyWithdrawal(objects, catalog.cdn_folders).run(int(now_us))

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
async def catalog(tmp_path: Path) -> AsyncGenerator[Catalog]:
    async with open_catalog(migrated(tmp_path / "catalog.db"), migrate=False) as opened:
        yield opened


async def add_stream(catalog: Catalog, number: int = 1) -> tuple[int, str, str]:
    """Add a public stream, and return its number, its hash and its folder."""
    if number == 1:
        await catalog.projects.add("films", Change(NOW_US))
    stream = await catalog.streams.add(1, f"Stream {number}", Change(NOW_US))
    await catalog.streams.publish(stream.id, Change(NOW_US))
    await catalog.cdn_folders.open(stream.hash)
    record = await catalog.visibility.find(stream.hash)
    assert record is not None
    assert record.cdn_token is not None
    return stream.id, stream.hash, cdn_folder(stream.hash, record.cdn_token)


async def test_a_withdrawn_folder_is_deleted_when_no_cache_leads_to_it(
    catalog: Catalog, tmp_path: Path
) -> None:
    with DiskObjects(tmp_path / "objects") as objects:
        number, _, folder = await add_stream(catalog)
        _, _, other = await add_stream(catalog, 2)
        await objects.put_all({f"{each}/run/720p/1.m4s": b"x" for each in (folder, other)})
        withdrawal = CopyWithdrawal(objects, catalog.cdn_folders)
        assert await withdrawal.run(NOW_US) == 0
        await catalog.streams.unpublish(number, Change(NOW_US))
        assert await withdrawal.run(NOW_US) == 1
        assert await withdrawal.run(NOW_US + GRACE_US - 1) == 0
        assert await objects.addresses(folder) == [f"{folder}/run/720p/1.m4s"]
        await withdrawal.run(NOW_US + GRACE_US)
        assert await objects.addresses("cdn") == [f"{other}/run/720p/1.m4s"]
        # A process that still believed it was public adds another one.
        await objects.put(f"{folder}/run/720p/2.m4s", b"x")
        await withdrawal.run(NOW_US + FORGET_US - 1)
        assert await catalog.cdn_folders.count() == 2
        await withdrawal.run(NOW_US + FORGET_US)
        assert await objects.addresses("cdn") == [f"{other}/run/720p/1.m4s"]
        assert await catalog.cdn_folders.count() == 1


async def test_what_cannot_be_deleted_stays_known(catalog: Catalog, tmp_path: Path) -> None:
    with UndeletableDisk(tmp_path / "objects", "cdn/") as objects:
        number, _, folder = await add_stream(catalog)
        await objects.put(f"{folder}/run/720p/1.m4s", b"x")
        await catalog.streams.remove(number, Change(NOW_US))
        withdrawal = CopyWithdrawal(objects, catalog.cdn_folders)
        await withdrawal.run(NOW_US)
        with pytest.raises(StorageError) as failure:
            await withdrawal.run(NOW_US + FORGET_US)
        assert folder.rpartition("/")[2] not in str(failure.value)
        assert await catalog.cdn_folders.count() == 1
    with DiskObjects(tmp_path / "objects") as objects:
        await CopyWithdrawal(objects, catalog.cdn_folders).run(NOW_US + FORGET_US)
        assert await objects.addresses("cdn") == []
        assert await catalog.cdn_folders.count() == 0


async def test_several_processes_withdraw_at_once(catalog: Catalog, tmp_path: Path) -> None:
    with DiskObjects(tmp_path / "objects") as objects:
        folders = [(await add_stream(catalog, number))[2] for number in range(1, 6)]
        await objects.put_all({f"{each}/run/720p/1.m4s": b"x" for each in folders})
        hosts = [CopyWithdrawal(objects, catalog.cdn_folders) for _ in range(4)]
        for number in (1, 2, 3):
            await catalog.streams.unpublish(number, Change(NOW_US))
        for now_us in (NOW_US, NOW_US + GRACE_US, NOW_US + FORGET_US):
            async with asyncio.TaskGroup() as tasks:
                for host in hosts:
                    tasks.create_task(host.run(now_us))
        expected = sorted(f"{each}/run/720p/1.m4s" for each in folders[3:])
        assert await objects.addresses("cdn") == expected
        assert await catalog.cdn_folders.count() == 2


async def test_folders_that_no_row_names_are_deleted(catalog: Catalog, tmp_path: Path) -> None:
    with DiskObjects(tmp_path / "objects") as objects:
        number, hash_, folder = await add_stream(catalog)
        newer = cdn_folder(hash_, "f" * 32)  # of before the database was restored
        stranger = cdn_folder("ZZZZZZZZZZZZ", "e" * 32)
        await objects.put_all({f"{each}/1-1/a/1.m4s": b"x" for each in (folder, newer, stranger)})
        assert await delete_unknown_copies(objects, catalog.cdn_folders) == 2
        assert await objects.addresses("cdn") == [f"{folder}/1-1/a/1.m4s"]
        await catalog.streams.unpublish(number, Change(NOW_US))
        await catalog.cdn_folders.withdraw(NOW_US)  # it is known for as long as it is to be deleted
        assert await delete_unknown_copies(objects, catalog.cdn_folders) == 0


async def test_without_a_cdn_all_copies_go_and_the_task_ends(
    catalog: Catalog, tmp_path: Path
) -> None:
    times = iter([NOW_US, NOW_US + GRACE_US, NOW_US + FORGET_US])
    with DiskObjects(tmp_path / "objects") as objects:
        _, _, folder = await add_stream(catalog)
        await objects.put(f"{folder}/1-1/a/1.m4s", b"x")
        withdrawal = CopyWithdrawal(objects, catalog.cdn_folders, all_folders=True)
        for now_us in times:
            await withdrawal.run(now_us)
        assert await objects.addresses("cdn") == []
        async with asyncio.timeout(10):
            await keep_deleting_withdrawn_copies(
                objects, catalog.cdn_folders, wall_clock_us, do_nothing_async, is_in_use=False
            )


async def test_the_task_withdraws_and_deletes_at_its_start(
    catalog: Catalog, tmp_path: Path
) -> None:
    with DiskObjects(tmp_path / "objects") as objects:
        number, hash_, folder = await add_stream(catalog)
        unknown = cdn_folder(hash_, "f" * 32)
        await objects.put_all({f"{each}/1-1/a/1.m4s": b"x" for each in (folder, unknown)})
        await catalog.streams.unpublish(number, Change(NOW_US))
        await catalog.cdn_folders.withdraw(wall_clock_us() - GRACE_US)
        task = keep_deleting_withdrawn_copies(
            objects, catalog.cdn_folders, wall_clock_us, do_nothing_async, is_in_use=True
        )
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(task)

            async def is_empty() -> bool:
                return not await objects.addresses("cdn")

            await until(is_empty)
            running.cancel()


async def test_a_killed_process_leaves_the_rest_to_the_next(
    catalog: Catalog, tmp_path: Path, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes are killed while they delete, until one has nothing left to do."""
    for name, value in s3_server.credentials.items():
        monkeypatch.setenv(name, value)
    bucket = s3_server.new_bucket("p")
    client = s3_server.client(bucket.bucket)
    public, total, partly, code = "", 120, 0, None
    for number in range(1, total + 1):
        stream, _, public = await add_stream(catalog, number)
        await client.put_async(f"p/{public}/run/720p/1.m4s", b"x")
        if number < total:
            await catalog.streams.unpublish(stream, Change(NOW_US))
    await catalog.cdn_folders.withdraw(NOW_US)

    def remaining() -> int:
        return len(s3_server.keys(bucket.bucket, "p/cdn"))

    def is_begun(before: int) -> bool:
        return remaining() < before or before == 1

    for attempt in range(4):
        before = remaining()
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", MOVER, str(tmp_path / "catalog.db"), str(tmp_path / "scratch"),
            bucket.bucket, bucket.endpoint, str(NOW_US + GRACE_US),
        )  # fmt: skip
        if attempt < 3:
            await until(partial(is_begun, before), within=30)
            with suppress(ProcessLookupError):
                child.send_signal(signal.SIGKILL)
        code = await child.wait()
        partly += 1 < remaining() < before
    assert partly, "no process was killed midway"
    assert code == 0
    assert s3_server.keys(bucket.bucket, "p/cdn") == [f"p/{public}/run/720p/1.m4s"]
    assert await catalog.cdn_folders.count() == total  # forgotten once no copy can come
