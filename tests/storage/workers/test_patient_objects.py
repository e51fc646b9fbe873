"""Writes to a store that is away wait until it is back; reads and removals do not."""

import asyncio
import shutil
from pathlib import Path

import pytest

from storage.objects.base import StoreFailed
from storage.objects.disk import DiskObjects
from storage.workers.patient_objects import PatientObjects
from storage.workers.store_health import StoreHealth
from tests.support.waiting import until

pytestmark = pytest.mark.anyio


async def test_a_write_waits_for_a_disk_that_is_away(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root, away = tmp_path / "objects", tmp_path / "away"
    with DiskObjects(root) as disk:
        health = StoreHealth(disk.check, poll_seconds=0.01, steady_seconds=0)
        objects = PatientObjects(disk, health)
        await objects.put("a/b", b"1")
        shutil.move(root, away)
        root.mkdir()  # a folder without its disk
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(objects.put("a/c", b"2"))
            tasks.create_task(objects.link("a/b", "a/d"))
            await until(lambda: bool(caplog.records))
            for read in (objects.stat, objects.get):
                with pytest.raises(StoreFailed, match="is its disk mounted"):
                    await read("a/b")
            root.rmdir()
            shutil.move(away, root)
        assert await objects.addresses("a") == ["a/b", "a/c", "a/d"]
        assert await objects.folder_names("a") == set()
        version = await objects.put_if("a/e", b"3", None)
        assert await objects.version("a/e") == version
        await objects.delete("a/c")
        await objects.delete_tree("a")
        assert await objects.addresses("a") == []
    assert [record.message for record in caplog.records] == ["jobs not leased"]
