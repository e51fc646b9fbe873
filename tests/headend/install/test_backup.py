"""A backup has all that its catalog names, whatever is deleted meanwhile; a check finds damage."""

import asyncio
import shutil
from pathlib import Path

import pytest

from headend.config.settings import ServiceSettings
from headend.duties.media_remover import StoredMedia
from headend.install.backup import make_backup
from headend.install.backup_place import BackupRefused
from headend.install.installation import DATABASE
from media.no_op import do_nothing_async
from media.ticks import DAY_US, MICROSECONDS
from notify.words import sentence
from storage.backups.media_pass import PassProgress
from storage.backups.repository import DATA, ForeignBackups
from storage.catalog import open_catalog
from storage.catalog.alerts.mailings import GATHER_US
from storage.catalog.queries.removals import FIRST_US
from storage.catalog.records.alerts import INSTALLATION, AlertEdit
from storage.catalog.records.common import Change
from storage.cleanup.removals import remove_due
from storage.objects.disk import DiskObjects
from storage.wall_clock import wall_clock_us
from tests.support.headend.backed_up import (
    HASH,
    KEEP,
    NEWER,
    BackedUpSite,
    add_video,
    in_loop_of_its_own,
    media_of,
)
from tests.support.sql import run_sql

HOUR_US = 3600 * MICROSECONDS


@pytest.fixture
def site(tmp_path: Path) -> BackedUpSite:
    return BackedUpSite.installed(tmp_path)


def condition_of(site: BackedUpSite) -> str:
    """Return what operators are, or will be, told of the backups; "" for nothing."""
    rows = run_sql(site.data / DATABASE, "SELECT text FROM alert_conditions WHERE kind = 'backup'")
    return str(rows[0][0]) if rows else ""


async def told_at(site: BackedUpSite, now_us: int) -> list[str]:
    """Return what the mail says that is due at a time, and let it be sent."""
    async with open_catalog(site.data / DATABASE, migrate=False) as catalog:
        await catalog.conditions.tell_due(now_us)
        bundle = await catalog.mailings.lease_due(str(now_us), now_us + GATHER_US)
        if bundle is None:
            return []
        assert await catalog.mailings.finish(bundle, now_us)
        return [sentence(each) for each in bundle.alerts]


def number_of(data: Path, hash_: str) -> int:
    number = run_sql(data / DATABASE, f"SELECT id FROM videos WHERE hash = '{hash_}'")[0][0]
    assert isinstance(number, int)
    return number


async def delete_video(settings: ServiceSettings, hash_: str, *, knows_holds: bool = True) -> None:
    """Delete a video as the API does, or as a process does that knows nothing of holds."""
    data = Path(settings.data)
    async with open_catalog(data / DATABASE, migrate=False) as catalog:
        await catalog.videos.remove(number_of(data, hash_), Change(1))
        with DiskObjects(data / "objects") as objects:
            are_held = (catalog.removals.are_held,) if knows_holds else ()
            await StoredMedia(objects, do_nothing_async, *are_held).remove([hash_])


class Meanwhile:
    """Adds a video once most media are copied, and deletes it once the catalog is."""

    def __init__(self, settings: ServiceSettings, *, knows_holds: bool) -> None:
        self._settings = settings
        self._knows_holds = knows_holds
        self.added = self.deleted = False

    def __call__(self, now: PassProgress) -> None:
        if not self.added and now.folders == now.of_folders:
            self.added = True
            in_loop_of_its_own(lambda: asyncio.run(add_video(Path(self._settings.data), NEWER)))
        elif self.added and not self.deleted:  # the first folder of the second pass
            self.deleted = True
            in_loop_of_its_own(
                lambda: asyncio.run(
                    delete_video(self._settings, NEWER, knows_holds=self._knows_holds)
                )
            )


async def test_what_is_deleted_after_the_catalog_was_copied_is_still_there_for_the_copy(
    site: BackedUpSite, tmp_path: Path
) -> None:
    settings = site.settings()
    meanwhile = Meanwhile(settings, knows_holds=True)
    made = await make_backup(settings, site.place, KEEP, meanwhile)
    assert meanwhile.deleted and made.missing == ()
    restored = await site.restored(tmp_path / "new")
    assert f"sources/{NEWER}/1" in media_of(restored), "the catalog of the backup names it"
    async with open_catalog(site.data / DATABASE, migrate=False) as catalog:
        with DiskObjects(site.data / "objects") as objects:
            assert f"sources/{NEWER}/1" in await objects.addresses("sources"), "it is held"
            run_sql(site.data / DATABASE, "UPDATE installation SET removals_held_us = 0")
            later_us = catalog.clock.now_us() + FIRST_US + 60_000_000
            await remove_due(objects, do_nothing_async, catalog.removals, later_us)
            assert f"sources/{NEWER}/1" not in await objects.addresses("sources")


async def test_what_is_deleted_by_a_process_that_knows_no_holds_costs_another_pass(
    site: BackedUpSite, tmp_path: Path
) -> None:
    settings = site.settings()
    meanwhile = Meanwhile(settings, knows_holds=False)
    made = await make_backup(settings, site.place, KEEP, meanwhile)
    assert meanwhile.deleted and made.missing == ()
    restored = await site.restored(tmp_path / "new")
    assert f"sources/{NEWER}/1" not in media_of(restored)
    async with open_catalog(restored / DATABASE, migrate=False) as catalog:
        assert await catalog.videos.find_known([NEWER]) == frozenset(), "the second one is used"


async def test_the_next_backup_copies_what_is_new_and_keeps_a_newest_a_day(
    site: BackedUpSite,
) -> None:
    first = await site.backup()
    assert (first.backup.objects, first.copied) == (len(media_of(site.data)), 4)
    again = await site.backup()
    assert (again.copied, again.pruned, again.removed) == (0, 1, 0)
    await delete_video(site.settings(), HASH)
    await add_video(site.data, NEWER)
    last = await site.backup()
    # Made within one second, too, the newest has the last name, and is kept.
    assert last.backup.name > again.backup.name
    # Both videos have the same file.
    assert (last.copied, last.pruned, last.removed) == (1, 1, 1)
    assert site.names == [last.backup.name]


async def test_files_lost_before_are_said_and_no_older_backup_is_removed(
    site: BackedUpSite,
) -> None:
    await site.backup()
    (site.data / f"objects/sources/{HASH}/1").unlink()
    made = await site.backup()
    assert [each.address for each in made.missing] == [f"sources/{HASH}/1"]
    assert (made.backup.missing, len(site.names)) == (1, 2)
    result = site.run("backup", str(site.place))
    assert result.exit_code == 1
    assert f"sources/{HASH}/1: uploaded file" in result.output
    assert " lacks 1 files that the store lost" in condition_of(site)


async def test_no_password_of_the_settings_is_in_a_backup(site: BackedUpSite) -> None:
    secrets = {
        "mail__server": "mail.example.org",
        "mail__sender": "headend@example.org",
        "mail__user": "headend",
        "mail__password": "of-mail-90210",
        "redis__url": "redis://:of-redis-90210@127.0.0.1:1/0",
    }
    assert site.run("backup", str(site.place), data=None, **secrets).exit_code == 0
    files = [path for path in site.place.rglob("*") if path.is_file()]
    assert [path for path in files if b"90210" in path.read_bytes()] == []
    shown = next(path for path in files if path.name == "settings.json").read_bytes()
    assert b'"mail.server": "mail.example.org' in shown
    assert shown.count(b'"(set)"') == 2


async def test_a_check_names_damage_and_the_next_backup_mends_it(site: BackedUpSite) -> None:
    made = await site.backup()
    assert site.run("backup", str(site.place), "--check").exit_code == 0
    files = sorted(path for path in (site.place / DATA).rglob("*") if path.is_file())
    files[0].write_bytes(files[0].read_bytes()[:-1] + b"?")
    files[1].unlink()
    result = site.run("backup", str(site.place), "--check")
    assert result.exit_code == 1
    assert "2 are missing or not as they were written" in result.output
    assert f"  {made.backup.name}: " in result.output
    assert (await site.backup()).copied == 2
    result = site.run("backup", str(site.place), "--check")
    assert (result.exit_code, result.output.splitlines()[-1]) == (0, "all are as they were written")


@pytest.mark.parametrize("part", ["catalog.sqlite", "objects.tsv"])
async def test_a_check_finds_a_damaged_part(site: BackedUpSite, part: str) -> None:
    made = await site.backup()
    (site.place / "backups" / made.backup.name / part).write_bytes(b"other bytes")
    result = site.run("backup", str(site.place), "--check")
    assert (result.exit_code, f"{made.backup.name}: {part}" in result.output) == (1, True)


async def test_places_of_others_are_refused(site: BackedUpSite, tmp_path: Path) -> None:
    (site.place / "videos" / "x").mkdir(parents=True)
    with pytest.raises(ForeignBackups, match="has other files"):
        await site.backup()
    inside = site.run("backup", str(site.data / "backups"))
    assert (inside.exit_code, "is in the data folder" in inside.output) == (1, True)
    other = BackedUpSite.installed(tmp_path / "other")
    await other.backup()
    other.data = site.data
    with pytest.raises(ForeignBackups, match="another installation"):
        await other.backup()


async def test_a_second_backup_at_the_same_time_is_refused(site: BackedUpSite) -> None:
    results: list[str] = []

    def try_another(now: PassProgress) -> None:
        if not results:
            results.append(site.run("backup", str(site.place)).output)
            assert condition_of(site) == "", "that is no failure"

    await make_backup(site.settings(), site.place, KEEP, try_another)
    assert "another `headend backup` is at work on" in results[0]
    assert condition_of(site).startswith("No backup for a week: ")


async def test_operators_are_told_of_a_failure_and_of_a_week_without_a_backup(
    site: BackedUpSite,
) -> None:
    began_us = wall_clock_us()
    async with open_catalog(site.data / DATABASE, migrate=False) as catalog:
        await catalog.recipients.change(INSTALLATION, AlertEdit(to=("ops@a.example",)), Change(1))
    assert await told_at(site, began_us + 30 * DAY_US) == [], "so far none was wanted"
    foreign = site.place / "videos"
    (foreign / "x").mkdir(parents=True)
    failed = [f"The backup to {site.place} failed: {site.place} has other files: "]
    for hours, expected in ((1, failed), (2, []), (26, failed)):
        with pytest.raises(ForeignBackups):
            await site.backup()
        told = await told_at(site, began_us + hours * HOUR_US)
        assert [text[: len(failed[0])] for text in told] == expected
    shutil.rmtree(foreign)
    name = (await site.backup()).backup.name
    assert await told_at(site, began_us + 7 * DAY_US) == []
    expected = [f"No backup for a week: the last is backup {name} in {site.place}."]
    assert await told_at(site, wall_clock_us() + 7 * DAY_US) == expected


async def test_a_backup_before_the_first_start_is_refused(tmp_path: Path) -> None:
    site = BackedUpSite(tmp_path / "data", tmp_path / "backups")
    with pytest.raises(BackupRefused, match="does not exist"):
        await site.backup()
    result = site.run("backup")
    assert (result.exit_code, "or set backup.to" in result.output) == (1, True)
