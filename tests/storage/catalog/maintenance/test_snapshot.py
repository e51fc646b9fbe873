"""A copy of a catalog as it is at one moment, while others write."""

import sqlite3
from contextlib import closing
from pathlib import Path

from storage.catalog import open_catalog
from storage.catalog.maintenance.snapshot import check_file, snapshot_catalog
from storage.catalog.records.common import Change
from tests.support.shared_engines import ON_BOTH
from tests.support.sql import run_sql
from tests.support.storage.new_videos import new_video

HASHES = [f"{letter}" * 12 for letter in "ABC"]


@ON_BOTH
async def test_a_snapshot_has_every_row_and_numbers_go_on(
    either_database: str | Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.sqlite"
    async with open_catalog(either_database, migrate=True) as catalog:
        await catalog.installation.first_start(1)
        numbers: list[int] = []
        for hash_ in HASHES:
            whole = await catalog.videos.add(1, new_video(hash_), Change(1))
            numbers.append(whole.video.id)
        await catalog.videos.remove(numbers[-1], Change(1))
        await snapshot_catalog(either_database, copy)
        await catalog.videos.remove(numbers[0], Change(1))
    rows = "SELECT id, hash, title FROM videos ORDER BY id"
    assert [row[1] for row in run_sql(copy, rows)] == HASHES[:2]
    assert check_file(copy) == []
    assert not copy.with_name("copy.sqlite-wal").exists(), "one file has all of it"
    async with open_catalog(copy, migrate=False) as restored:
        whole = await restored.videos.add(1, new_video("D" * 12), Change(1))
        assert whole.video.id == numbers[-1] + 1, "a number that was given is not given again"


async def test_a_writer_is_not_held_up(tmp_path: Path) -> None:
    location, copy = tmp_path / "catalog.db", tmp_path / "copy.sqlite"
    async with open_catalog(location, migrate=True) as catalog:
        await catalog.installation.first_start(1)
        with closing(sqlite3.connect(location, isolation_level=None)) as writer:
            writer.execute("BEGIN IMMEDIATE")
            writer.execute("UPDATE installation SET pause = 'not committed'")
            await snapshot_catalog(location, copy)
            writer.execute("COMMIT")
    assert run_sql(copy, "SELECT pause FROM installation") == [(None,)]


def test_damage_is_found(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"no database" * 1000)
    assert check_file(path) != []
