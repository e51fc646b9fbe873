"""A copy of a running service made by hand: what its doctor finds missing. And old backups."""

import shutil
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from headend.install.doctor import examine, examine_briefly
from headend.install.installation import DATABASE
from headend.install.media_store import OBJECTS
from storage.catalog import Catalog, open_catalog
from storage.catalog.records.common import Change
from storage.objects.disk import DiskObjects
from storage.wall_clock import wall_clock_us
from tests.support.headend.installed import installed, settings_of
from tests.support.sql import run_sql
from tests.support.storage.new_videos import new_video

HASH = "AAAAAAAAAAAA"


class RunningSite(msgspec.Struct, frozen=True):
    """An installation with one video, and the place of its backup."""

    folder: Path
    copy: Path
    objects: DiskObjects
    catalog: Catalog

    def copy_media(self) -> None:
        """Copy what the backup does not have, and remove nothing there."""
        shutil.copytree(self.folder / OBJECTS, self.copy / OBJECTS, dirs_exist_ok=True)

    def copy_database(self) -> None:
        self.copy.mkdir(exist_ok=True)
        with (
            closing(sqlite3.connect(self.folder / DATABASE)) as old,
            closing(sqlite3.connect(self.copy / DATABASE)) as new,
        ):
            old.backup(new)

    async def replace_file(self, generation: int) -> None:
        """Give the video another file, and delete the one before."""
        before, after = (f"sources/{HASH}/{each}" for each in (generation - 1, generation))
        await self.objects.put(after, b"x")
        statement = f"UPDATE videos SET source = '{after}' WHERE hash = '{HASH}'"
        run_sql(self.folder / DATABASE, statement)
        await self.objects.delete(before)

    async def missing(self) -> list[str]:
        """Return the files that the backup's database names and the backup does not have."""
        findings = await examine(settings_of(self.copy), wall_clock_us())
        (files,) = [each for each in findings if each.topic == "files"]
        assert (files.verdict == "act") is bool(files.items)
        return [each.path for each in files.items]


@pytest.fixture
async def site(tmp_path: Path) -> AsyncGenerator[RunningSite]:
    folder = tmp_path / "data"
    await installed(folder)
    async with open_catalog(folder / DATABASE, migrate=False) as catalog:
        await catalog.videos.add(1, new_video(HASH), Change(wall_clock_us()))
        with DiskObjects(folder / OBJECTS) as objects:
            await objects.put(f"sources/{HASH}/1", b"x")
            yield RunningSite(folder, tmp_path / "copy", objects, catalog)


async def test_media_copied_only_after_the_database_lack_what_was_replaced(
    site: RunningSite,
) -> None:
    site.copy_database()
    await site.replace_file(2)
    site.copy_media()
    assert await site.missing() == [f"objects/sources/{HASH}/1"]


@pytest.mark.parametrize("moment", range(4))
async def test_media_copied_before_and_after_the_database_lack_nothing(
    site: RunningSite, moment: int
) -> None:
    """The file is replaced at each moment."""
    for number, step in enumerate((site.copy_media, site.copy_database, site.copy_media)):
        if number == moment:
            await site.replace_file(2)
        step()
    if moment == 3:
        await site.replace_file(2)
    assert await site.missing() == []


async def test_a_file_that_came_and_went_in_the_meantime_is_named_and_a_repetition_heals_it(
    site: RunningSite,
) -> None:
    site.copy_media()
    await site.replace_file(2)
    site.copy_database()
    await site.replace_file(3)
    site.copy_media()
    assert await site.missing() == [f"objects/sources/{HASH}/2"]
    site.copy_database()
    site.copy_media()
    assert await site.missing() == []


@pytest.mark.parametrize(
    ("days", "place", "verdict", "text"),
    [
        pytest.param(None, "", "well", "none was made, and none is to be", id="never"),
        pytest.param(None, "/mnt/x", "act", "none was made to /mnt/x yet", id="not yet"),
        pytest.param(6, "", "well", "the last was begun on", id="lately"),
        pytest.param(8, "", "act", "more than a week ago", id="long ago"),
    ],
)
async def test_an_old_backup_is_said(
    tmp_path: Path, days: int | None, place: str, verdict: str, text: str
) -> None:
    settings = await installed(tmp_path / "data", backup__to=place)
    now_us = wall_clock_us()
    async with open_catalog(tmp_path / "data" / DATABASE, migrate=False) as catalog:
        if days is not None:
            await catalog.installation.note_backup(now_us - days * 86_400_000_000)
        findings = await examine_briefly(settings, catalog, now_us)
    (finding,) = [each for each in findings if each.topic == "backup"]
    assert (finding.verdict, text in finding.text) == (verdict, True), finding.text
