"""What was backed up is there again, in an empty place only, whatever kind of place it is."""

import asyncio
import subprocess
from pathlib import Path

import pytest

from headend.install.backup import make_backup
from headend.install.backup_place import Place
from headend.install.installation import DATABASE, catalog_location
from headend.install.restore import NotEmpty, restore
from media.no_op import do_nothing
from storage.backups.lock import BackupBusy
from storage.backups.manifest import BackupDamaged
from storage.backups.repository import NoBackup
from storage.backups.restoring import RestoreProgress
from storage.catalog import open_catalog
from storage.installation_key import UnfinishedCopy, check_store
from storage.objects.read_only import ReadOnlyObjects
from storage.objects.s3_bucket import S3Bucket, S3Location
from tests.support.headend.backed_up import HASH, KEEP, NEWER, BackedUpSite, add_video, media_of
from tests.support.postgres import PostgresServer
from tests.support.sql import run_sql
from tests.support.storage.s3_server import S3Server

# As docs/backups.md has it.
_SHELL = """
set -eu
mkdir -p objects
tab=$(printf '\\t')
while IFS="$tab" read -r digest bytes time address; do
    mkdir -p "objects/${address%/*}"
    cp "$1/data/$(printf %.2s "$digest")/$digest" "objects/$address"
done < "$1/backups/$2/objects.tsv"
cp "$1/backups/$2/catalog.sqlite" .
"""


@pytest.fixture
def site(tmp_path: Path) -> BackedUpSite:
    return BackedUpSite.installed(tmp_path)


async def test_a_restored_folder_is_as_it_was(site: BackedUpSite, tmp_path: Path) -> None:
    (site.data / "tls").mkdir()
    (site.data / "tls/ca.key").write_bytes(b"secret")
    (site.data / "owner.token").write_text("token\n")
    await site.backup()
    result = site.run("restore", str(site.place), data=tmp_path / "new")
    assert result.exit_code == 0, result.output
    assert media_of(tmp_path / "new") == media_of(site.data)
    for name in ("tls/ca.key", "owner.token"):
        path = tmp_path / "new" / name
        assert path.read_bytes() == (site.data / name).read_bytes()
        assert path.stat().st_mode & 0o777 == 0o600
    address = f"objects/sources/{HASH}/1"
    times = [(folder / address).stat().st_mtime for folder in (site.data, tmp_path / "new")]
    assert times[0] == pytest.approx(times[1], abs=1e-5), "ages are judged by it"
    doctor = site.run("doctor", data=tmp_path / "new").output.splitlines()
    unwell = [line for line in doctor if not line.startswith(("ok", " "))]
    assert [line.split(":")[0] for line in unwell] == ["ACT  jobs"], "no worker runs"
    site.data = tmp_path / "new"
    assert (await site.backup()).copied == 0, "it goes on where the former one was"


def test_it_can_be_restored_by_a_shell(site: BackedUpSite, tmp_path: Path) -> None:
    made = asyncio.run(site.backup())
    new = tmp_path / "new"
    new.mkdir()
    subprocess.run(
        ["sh", "-c", _SHELL, "sh", str(site.place), made.backup.name], cwd=new, check=True
    )
    assert media_of(new) == media_of(site.data)
    rows = "SELECT hash FROM videos"
    assert run_sql(new / DATABASE, rows) == run_sql(site.data / DATABASE, rows)


async def test_an_older_one_is_restored_by_its_name(site: BackedUpSite, tmp_path: Path) -> None:
    first = await site.backup()
    run = site.run("backup", str(site.place), "--keep-daily", "0", "--keep-weekly", "0",
                   "--keep-monthly", "0")  # fmt: skip
    assert run.exit_code == 0, run.output
    await add_video(site.data, NEWER)
    name = first.backup.name
    result = site.run("restore", str(site.place), "--at", name, data=tmp_path / "new")
    assert result.exit_code == 0, result.output
    assert not any(NEWER in address for address in media_of(tmp_path / "new"))
    with pytest.raises(NoBackup, match="no complete backup 20200101T000000Z in"):
        await restore(site.settings(tmp_path / "other"), site.place, "20200101T000000Z", do_nothing)


@pytest.mark.parametrize("there", ["catalog.sqlite", "objects/sources/x/1", "owner.token", "x"])
async def test_a_place_that_is_not_empty_is_refused(
    site: BackedUpSite, tmp_path: Path, there: str
) -> None:
    await site.backup()
    path = tmp_path / "new" / there
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x")
    result = site.run("restore", str(site.place), data=tmp_path / "new")
    assert result.exit_code == 1
    assert "is not empty: it has " in result.output and "nothing was changed" in result.output
    assert path.read_bytes() == b"x"
    assert media_of(tmp_path / "new").keys() <= {"sources/x/1"}


class Interrupted(Exception):
    """The process is gone."""


def interrupt(_: RestoreProgress) -> None:
    raise Interrupted


async def test_one_that_was_interrupted_goes_on_and_nothing_starts_before(
    site: BackedUpSite, tmp_path: Path
) -> None:
    made = await site.backup()
    new = tmp_path / "new"
    with pytest.raises(Interrupted):
        await restore(site.settings(new), site.place, None, interrupt)
    async with open_catalog(site.data / DATABASE, migrate=False) as catalog:
        with pytest.raises(UnfinishedCopy, match="run `headend restore` again"):
            await check_store(catalog, ReadOnlyObjects(new / "objects"))
    serve = site.run("migrate", data=new)
    assert serve.exit_code == 1, serve.output
    assert "an unfinished copy: run `headend restore` again" in serve.output
    assert not (new / DATABASE).exists()
    await add_video(site.data, NEWER)
    run = site.run("backup", str(site.place), "--keep-daily", "0", "--keep-weekly", "0",
                   "--keep-monthly", "0")  # fmt: skip
    assert run.exit_code == 0, run.output
    with pytest.raises(NotEmpty, match=f"add --at {made.backup.name}"):
        await restore(site.settings(new), site.place, None, do_nothing)
    await restore(site.settings(new), site.place, made.backup.name, do_nothing)
    assert not (new / "objects/installation.restoring").exists()
    async with open_catalog(new / DATABASE, migrate=False) as catalog:
        assert await check_store(catalog, ReadOnlyObjects(new / "objects"))


async def test_damaged_bytes_are_not_restored(site: BackedUpSite, tmp_path: Path) -> None:
    await site.backup()
    for path in (site.place / "data").rglob("*"):
        if path.is_file():
            path.write_bytes(b"other bytes")
    with pytest.raises(BackupDamaged, match="is missing or not as it was written"):
        await site.restored(tmp_path / "new")


async def test_from_a_folder_to_a_bucket_and_back(
    site: BackedUpSite, tmp_path: Path, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3_server.credentials.items():
        monkeypatch.setenv(name, value)
    large = site.data / f"objects/videos/{HASH}/1-1/720p/1.m4s"
    large.write_bytes(bytes(17 << 20) + b"more than one piece")
    backups = s3_server.new_bucket("some/backups")
    assert (await site.backup(backups)).copied == 5
    assert (await site.backup(backups)).copied == 0
    there = backups.bucket, str(backups), backups.endpoint, backups.region
    check = site.run("backup", there[1], "--check", "--endpoint", there[2], "--region", there[3])
    assert check.exit_code == 0, check.output
    # Media that are in a bucket then, whose backup is in a folder.
    media = s3_server.new_bucket("the/media")
    in_bucket = BackedUpSite(
        tmp_path / "new",
        tmp_path / "other-backups",
        {
            "storage__url": str(media),
            "storage__endpoint": media.endpoint,
            "storage__region": media.region,
        },
    )
    await in_bucket.restored(in_bucket.data, backups)
    expected = media_of(site.data)
    assert await objects_in(media) == expected
    with pytest.raises(NotEmpty, match="is not empty"):
        await in_bucket.restored(tmp_path / "another", backups)
    assert (await in_bucket.backup()).backup.objects == len(expected)
    assert (await in_bucket.backup()).copied == 0
    back = BackedUpSite(tmp_path / "back", in_bucket.place)
    await back.restored(back.data)
    assert media_of(back.data) == expected


async def objects_in(place: S3Location) -> dict[str, bytes]:
    bucket = S3Bucket(place)
    tops = ("live", "slates", "sources", "videos")
    addresses = [each for top in tops for each in await bucket.addresses(top)]
    return {address: await bucket.get(address) for address in addresses}


async def test_another_backup_in_a_bucket_is_refused_until_its_lock_is_old(
    site: BackedUpSite, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3_server.credentials.items():
        monkeypatch.setenv(name, value)
    backups = s3_server.new_bucket("backups")
    await S3Bucket(backups).put("lock", b"a host that was killed just now")
    with pytest.raises(BackupBusy, match="killed less than two minutes ago"):
        await site.backup(backups)


@pytest.mark.parametrize("to_file", [False, True], ids=["to a server", "to a file"])
async def test_a_database_of_postgresql(
    site: BackedUpSite, tmp_path: Path, postgres_server: PostgresServer, to_file: bool
) -> None:
    with postgres_server.empty_database() as first, postgres_server.empty_database() as second:
        moved = site.run("migrate", "--to", first)
        assert moved.exit_code == 0, moved.output
        site.changed = {"database__url": first}
        await back_up(site, site.place)
        new = BackedUpSite(
            tmp_path / "new", site.place, {} if to_file else {"database__url": second}
        )
        await new.restored(new.data)
        rows = "SELECT id, hash, source FROM videos ORDER BY id"
        restored = catalog_location(new.settings())
        assert run_sql(restored, rows) == run_sql(first, rows) != []
        assert media_of(new.data) == media_of(site.data)
        async with open_catalog(restored, migrate=False) as catalog:
            assert await check_store(catalog, ReadOnlyObjects(new.data / "objects"))
            video = await catalog.videos.find_known([HASH])
            assert video == {HASH}
        if not to_file:
            with pytest.raises(NotEmpty, match="the database is not empty: it has rows"):
                await new.restored(tmp_path / "another")


async def back_up(site: BackedUpSite, place: Place) -> None:
    made = await make_backup(site.settings(), place, KEEP, do_nothing)
    assert made.missing == ()
