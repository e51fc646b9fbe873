"""`headend doctor` on real data folders: its findings, and that it changes nothing."""

import asyncio
import datetime
import json
import os
import shutil
import sqlite3
import subprocess
import time
from pathlib import Path
from typing import cast

import pytest
from click.testing import CliRunner

from headend.cli import main
from headend.config.settings import GeoSettings, HttpSettings, ServiceSettings
from headend.install.certificates import ensure_local_certificates
from headend.install.doctor import clean, examine
from headend.install.installation import DATABASE, create_data_folder, install
from media.ticks import DAY_US, MICROSECONDS
from storage.catalog import open_catalog
from storage.catalog.records.common import Change
from storage.cleanup.orphans import AGE_US
from storage.objects.disk import DiskObjects
from storage.wall_clock import wall_clock_us
from tests.support.headend.installed import settings_of
from tests.support.postgres import PostgresServer
from tests.support.sql import run_sql
from tests.support.storage.full_disk import MIB, small_disk
from tests.support.storage.new_videos import new_upload, new_video

HASH, STRAY = "AAAAAAAAAAAA", "BBBBBBBBBBBB"
TOPICS = [
    "versions", "box",
    "countries", "web server", "redis", "disk", "installation", "store", "database", "numbers",
    "restrictions", "jobs", "mail", "clock", "expiry", "removals", "backup", "files", "leftovers",
    "uploads", "trash",
]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder as `headend migrate` makes it."""
    data = tmp_path / "data"
    assert CliRunner().invoke(main, ["migrate", "--data", str(data)]).exit_code == 0
    return data


def doctor(
    folder: Path, *options: str, **settings: str
) -> tuple[int, dict[str, dict[str, object]]]:
    """Return the exit code, and the findings by topic."""
    environment = {"HEADEND_STORAGE__MIN_FREE_BYTES": "0", "HEADEND_RTMPS__LISTEN": "", **settings}
    result = CliRunner().invoke(
        main, ["doctor", "--json", "--data", str(folder), *options], env=environment
    )
    assert result.exit_code in (0, 1), result.output
    read = json.loads(result.stdout)
    assert read["healthy"] is (result.exit_code == 0)
    return result.exit_code, {each["topic"]: each for each in read["findings"]}


def stray(folder: Path) -> Path:
    """Add an old file that belongs to no video."""
    path = folder / "objects" / "sources" / STRAY / "1"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x" * 2048)
    old = time.time() - 2 * AGE_US / 1_000_000
    for each in (path, path.parent):
        os.utime(each, (old, old))
    return path


def tree(folder: Path) -> set[str]:
    return {each.relative_to(folder).as_posix() for each in folder.rglob("*")}


def test_a_new_installation_is_well(folder: Path) -> None:
    code, findings = doctor(folder)
    assert code == 0
    assert list(findings) == TOPICS
    assert {each["verdict"] for each in findings.values()} == {"well"}
    assert "FFmpeg" in str(findings["versions"]["text"])
    assert "Landlock" in str(findings["box"]["text"])


def test_examining_removes_nothing_and_cleaning_does(folder: Path) -> None:
    path = stray(folder)
    before = tree(folder)
    code, findings = doctor(folder)
    assert code == 0, "what goes by itself needs nobody"
    assert findings["leftovers"]["verdict"] == "tidy"
    assert findings["leftovers"]["things"] == [
        {"path": f"objects/sources/{STRAY}", "what": "file of no video", "bytes": 2048}
    ]
    # SQLite creates and removes two files next to the database.
    assert {each for each in tree(folder) ^ before if "sqlite" not in each} == set()
    code, findings = doctor(folder, "--clean")
    assert (code, findings["leftovers"]["verdict"]) == (0, "well")
    assert not path.exists()


@pytest.mark.parametrize(
    ("minutes", "causes", "verdict", "words"),
    [
        pytest.param(59, ("busy", "busy"), "well", "", id="not for long"),
        pytest.param(
            61, ("", "Read-only file system"), "act", ": Read-only file system", id="fails"
        ),
        pytest.param(61, ("", ""), "act", ": no process has tried", id="no process runs"),
    ],
)
def test_deletions_that_keep_failing_need_action(
    folder: Path, minutes: int, causes: tuple[str, str], verdict: str, words: str
) -> None:
    recorded_us = wall_clock_us() - minutes * 60 * MICROSECONDS
    for name, cause in zip(("1", "2"), causes, strict=True):
        change(
            folder,
            "INSERT INTO removals (address, is_folder, recorded_us, due_us, cause)"
            f" VALUES ('sources/{HASH}/{name}', false, {recorded_us}, {recorded_us}, '{cause}')",
        )
    code, findings = doctor(folder)
    removals = findings["removals"]
    assert (code, removals["verdict"]) == (int(verdict == "act"), verdict)
    assert words in str(removals["text"])
    if verdict == "act":
        since = datetime.datetime.fromtimestamp(recorded_us // MICROSECONDS, datetime.UTC)
        start = f"2 objects or folders are to be deleted since {since:%Y-%m-%d %H:%M} UTC or later"
        assert str(removals["text"]).startswith(start)
        whats = [each or "to be deleted" for each in causes]
        assert removals["things"] == [
            {"path": f"objects/sources/{HASH}/{name}", "what": what, "bytes": None}
            for name, what in zip(("1", "2"), whats, strict=True)
        ]


async def _film(folder: Path) -> None:
    now_us = time.time_ns() // 1000
    arrived = new_video(HASH)
    async with open_catalog(folder / "catalog.sqlite", migrate=False) as catalog:
        await catalog.videos.add(1, arrived, Change(now_us))
    with DiskObjects(folder / "objects") as objects:
        await objects.put(f"sources/{HASH}/1", b"x")
        await objects.put(f"videos/{HASH}/1-1/index.m3u8", b"#EXTM3U")


@pytest.fixture
def film(folder: Path) -> Path:
    """A data folder with one video that waits for its job."""
    asyncio.run(_film(folder))
    return folder


def change(folder: Path, statement: str) -> None:
    connection = sqlite3.connect(folder / "catalog.sqlite")
    with connection:
        connection.execute(statement)
    connection.close()


def test_rows_whose_files_are_missing_need_action(film: Path) -> None:
    change(film, "UPDATE videos SET media = '1-1'")
    assert doctor(film)[0] == 0
    (film / "objects/videos" / HASH / "1-1/index.m3u8").unlink()
    (film / "objects/sources" / HASH / "1").unlink()
    change(film, "UPDATE videos SET posters = 'poster-1-1'")
    code, findings = doctor(film)
    assert (code, findings["files"]["verdict"]) == (1, "act")
    assert findings["files"]["things"] == [
        {"path": f"objects/sources/{HASH}/1", "what": "uploaded file", "bytes": None},
        {"path": f"objects/videos/{HASH}/1-1/index.m3u8", "what": "playlist", "bytes": None},
        {"path": f"objects/videos/{HASH}/poster-1-1", "what": "posters", "bytes": None},
    ]


def test_workers_that_pause_need_action(folder: Path) -> None:
    async def pause() -> None:
        async with open_catalog(folder / "catalog.sqlite", migrate=False) as catalog:
            await catalog.installation.note_pause("transcoding pauses: two videos failed")

    asyncio.run(pause())
    code, findings = doctor(folder)
    assert (code, findings["jobs"]["verdict"]) == (1, "act")
    assert findings["jobs"]["text"] == "transcoding pauses: two videos failed"


def test_a_job_that_no_worker_takes_needs_action(film: Path) -> None:
    change(film, "UPDATE jobs SET run_after_us = 0")
    code, findings = doctor(film)
    assert (code, findings["jobs"]["verdict"]) == (1, "act")
    assert HASH in str(findings["jobs"]["things"])


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(2.5, "s ahead of the database's"), (-2.5, "s behind the database's"), (0, "")],
)
async def test_a_clock_that_differs_from_the_databases_needs_action(
    tmp_path: Path, postgres_server: PostgresServer, seconds: float, words: str
) -> None:
    def wall_us() -> int:
        return wall_clock_us() + round(seconds * 1_000_000)

    with postgres_server.fresh_database() as url:
        await install(tmp_path, url)
        settings = settings_of(tmp_path, database__url=url)
        findings = {
            each.topic: each for each in await examine(settings, wall_clock_us(), wall_us=wall_us)
        }
    clock = findings["clock"]
    assert (clock.verdict, words in clock.text) == ("act" if words else "well", True), clock


def test_a_clock_behind_the_newest_rows_needs_action(film: Path) -> None:
    change(film, "UPDATE videos SET created_us = created_us + 7200000000")
    code, findings = doctor(film)
    assert (code, findings["clock"]["verdict"]) == (1, "act")


def test_a_full_disk_needs_action(folder: Path) -> None:
    code, findings = doctor(folder, HEADEND_STORAGE__MIN_FREE_BYTES=str(1 << 60))
    assert (code, findings["disk"]["verdict"]) == (1, "act")


def test_a_folder_that_media_cannot_be_written_to_needs_action(film: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "other", MIB) as disk:
        (film / "objects" / "slates").symlink_to(disk.folder)
        code, findings = doctor(film)
    assert (code, findings["store"]["verdict"]) == (1, "act")
    assert "the folder slates of the store: it is a disk of its own" in str(findings["store"])


def test_a_disk_with_few_inodes_needs_action(folder: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "data-disk", 64 * MIB, inodes=500) as disk:
        shutil.copytree(folder, disk.folder, dirs_exist_ok=True)
        code, findings = doctor(disk.folder)
    assert (code, findings["disk"]["verdict"], findings["store"]["verdict"]) == (1, "act", "act")
    assert "no inodes are left" in str(findings["disk"])


def test_a_broken_database_needs_action(folder: Path) -> None:
    change(folder, "PRAGMA wal_checkpoint(TRUNCATE)")
    path = folder / "catalog.sqlite"
    whole = path.read_bytes()
    page = 4096
    # The first pages stay valid: the database opens, and the first queries work.
    path.write_bytes(whole[: 8 * page] + b"\xa5" * (len(whole) - 8 * page))
    code, findings = doctor(folder)
    assert code == 1
    assert "act" in {each["verdict"] for each in findings.values()}
    path.write_bytes(b"no database at all" * 100)
    code, findings = doctor(folder)
    assert (code, findings["database"]["verdict"]) == (1, "act")


def test_numbers_that_will_run_out_need_action(folder: Path) -> None:
    assert doctor(folder)[1]["numbers"]["verdict"] == "well"
    given = f"UPDATE sqlite_sequence SET seq = {(1 << 30) + 1} WHERE name = 'streams'"
    run_sql(folder / DATABASE, given)
    code, findings = doctor(folder)
    assert (code, findings["numbers"]["verdict"]) == (1, "act")
    assert str(findings["numbers"]["text"]).endswith(": streams")


def test_a_database_with_another_schema_needs_action(folder: Path) -> None:
    change(folder, "UPDATE alembic_version SET version_num = '9999'")
    code, findings = doctor(folder)
    assert (code, findings["database"]["verdict"]) == (1, "act")
    assert "leftovers" not in findings, "a catalog that is not understood names nothing for sure"
    result = CliRunner().invoke(main, ["doctor", "--clean", "--data", str(folder)])
    assert result.exit_code == 1
    assert "9999" in result.output


def test_without_a_data_folder_nothing_is_made(tmp_path: Path) -> None:
    code, findings = doctor(tmp_path / "data")
    assert (code, findings["data folder"]["verdict"]) == (1, "act")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("left", "verdict"), [(100, "well"), (13, "act"), (-1, "act")])
def test_expiring_certificates_are_reported_in_time(folder: Path, left: int, verdict: str) -> None:
    made = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=800 - left)
    ensure_local_certificates(folder / "tls", ["localhost"], made)
    code, findings = doctor(folder, HEADEND_RTMPS__LISTEN="127.0.0.1:0")
    assert findings["certificate rtmps.pem"]["verdict"] == verdict
    assert findings["certificate ca.pem"]["verdict"] == "well"
    assert code == (verdict == "act")


def test_an_unreadable_certificate_needs_action(folder: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.pem"
    own.write_text("no certificate")
    settings = {"HEADEND_RTMPS__LISTEN": "127.0.0.1:0", "HEADEND_RTMPS__CERTIFICATE": str(own)}
    code, findings = doctor(folder, **settings)
    assert (code, findings["certificate own.pem"]["verdict"]) == (1, "act")


def test_a_terminal_gets_lines_of_text(folder: Path) -> None:
    result = CliRunner().invoke(main, ["doctor", "--data", str(folder)])
    lines = result.output.splitlines()
    assert any(line.startswith("ok   database: SQLite ") for line in lines)


def test_what_was_cleaned_is_in_the_trash_and_can_be_put_back(folder: Path) -> None:
    path = stray(folder)
    assert doctor(folder)[1]["trash"]["text"] == "empty"
    findings = doctor(folder, "--clean")[1]["trash"]
    assert findings["text"] == "2.0 KiB, each deleted after 7 days"
    [thing] = cast("list[dict[str, object]]", findings["things"])
    trashed = folder / str(thing["path"])
    assert (trashed / "sources" / STRAY / "1").read_bytes() == b"x" * 2048
    # As docs/deploy.md has it.
    done = subprocess.run(["cp", "-al", f"{trashed}/.", folder / "objects"], check=False)
    assert done.returncode == 0
    assert path.read_bytes() == b"x" * 2048


def test_with_zero_trash_days_nothing_is_kept_in_the_trash(folder: Path) -> None:
    path = stray(folder)
    findings = doctor(folder, "--clean", HEADEND_STORAGE__TRASH_DAYS="0")[1]
    assert (findings["trash"]["text"], path.exists()) == ("empty", False)


def test_many_unknown_media_are_cleaned_only_if_an_operator_confirms_it(folder: Path) -> None:
    for number in range(11):
        path = folder / "objects" / "sources" / f"{number:012}" / "1"
        path.parent.mkdir(parents=True)
        path.write_bytes(b"x")
        os.utime(path.parent, (1, 1))
    code, findings = doctor(folder)
    assert (code, findings["leftovers"]["verdict"]) == (1, "act")
    words = "does not know 11 of the 11 videos and streams"
    assert words in str(findings["leftovers"]["text"])
    stopped = CliRunner().invoke(main, ["doctor", "--clean", "--data", str(folder)])
    assert (stopped.exit_code, words in stopped.output) == (1, True)
    assert len(list((folder / "objects" / "sources").iterdir())) == 11
    code, findings = doctor(folder, "--clean", "--confirm")
    assert (code, findings["leftovers"]["verdict"]) == (0, "well")
    assert list((folder / "objects" / "sources").iterdir()) == []


def test_confirming_without_cleaning_is_refused(folder: Path) -> None:
    result = CliRunner().invoke(main, ["doctor", "--confirm", "--data", str(folder)])
    assert (result.exit_code, "--confirm needs --clean" in result.output) == (2, True)


def test_media_of_another_installation_are_found_and_not_cleaned(film: Path) -> None:
    path = stray(film)
    (film / "objects" / "installation").write_text("another\n")
    code, findings = doctor(film)
    assert (code, findings["installation"]["verdict"]) == (1, "act")
    assert "do not belong to the catalog" in str(findings["installation"]["text"])
    stopped = CliRunner().invoke(main, ["doctor", "--clean", "--data", str(film)])
    assert (stopped.exit_code, path.exists()) == (1, True)
    assert "do not belong to the catalog" in stopped.output


def test_media_without_the_key_are_known_by_the_database_and_get_it(film: Path) -> None:
    key = film / "objects" / "installation"
    text = key.read_text()
    key.unlink()
    code, findings = doctor(film)
    assert (code, findings["installation"]["verdict"]) == (0, "tidy")
    assert "belong together" in str(findings["installation"]["text"])
    assert findings["store"]["verdict"] == "well"
    assert not key.exists()
    code, findings = doctor(film, "--clean")
    assert (code, findings["installation"]["verdict"]) == (0, "well")
    assert key.read_text() == text


def test_media_whose_disk_is_away_are_found_and_not_cleaned(film: Path) -> None:
    mount_point = film / "objects"
    mount_point.rename(film / "away")
    mount_point.mkdir()
    os.utime(mount_point, (1, 1))
    code, findings = doctor(film)
    assert (code, findings["installation"]["verdict"]) == (1, "act")
    assert "check that the disk is mounted" in str(findings["installation"]["text"])
    assert "not tried" in str(findings["store"]["text"])
    for command in (["doctor", "--clean"], ["take-over"], ["migrate", "--to", "postgresql://a/b"]):
        stopped = CliRunner().invoke(main, [*command, "--data", str(film)])
        assert stopped.exit_code == 1
        assert "check that the disk is mounted" in stopped.output
    assert mount_point.stat().st_mtime == 1, "nothing was written there, not even for a moment"


def test_restrictions_need_a_way_to_know_countries(film: Path) -> None:
    assert doctor(film)[1]["restrictions"]["verdict"] == "well", "nothing is restricted"
    change(film, "UPDATE videos SET countries = '642'")
    code, findings = doctor(film)
    assert (code, findings["restrictions"]["verdict"]) == (1, "act")
    assert "they play for nobody" in str(findings["restrictions"]["text"])
    known = {"HEADEND_GEO__DATABASE": "/var/lib/countries.mmdb"}
    assert doctor(film, **known)[1]["restrictions"]["verdict"] == "well"


@pytest.mark.parametrize(
    ("settings", "known"),
    [
        pytest.param(ServiceSettings(), False, id="as it comes"),
        pytest.param(ServiceSettings(geo=GeoSettings(database="x")), True, id="a database"),
        pytest.param(ServiceSettings(geo=GeoSettings(trusted_header="x")), False, id="no proxy"),
        pytest.param(
            ServiceSettings(
                geo=GeoSettings(trusted_header="x"), http=HttpSettings(trusted_proxies="::1")
            ),
            True,
            id="a proxy that says it",
        ),
        pytest.param(
            ServiceSettings(
                geo=GeoSettings(private_country="RO"), http=HttpSettings(public_url="http://x")
            ),
            False,
            id="an unnamed proxy",
        ),
        pytest.param(ServiceSettings(geo=GeoSettings(private_country="RO")), True, id="an office"),
    ],
)
def test_what_lets_a_service_know_countries(settings: ServiceSettings, known: bool) -> None:
    assert settings.knows_countries is known


@pytest.mark.parametrize(
    ("http", "verdict"),
    [
        pytest.param(HttpSettings(), "well", id="a local service"),
        pytest.param(HttpSettings(public_url="https://v.example"), "act", id="an unnamed proxy"),
        pytest.param(
            HttpSettings(public_url="https://v.example", trusted_proxies="127.0.0.1"),
            "well",
            id="a named proxy",
        ),
    ],
)
async def test_a_country_that_private_addresses_do_not_prove_needs_action(
    tmp_path: Path, http: HttpSettings, verdict: str
) -> None:
    settings = ServiceSettings(
        data=str(tmp_path / "none"), http=http, geo=GeoSettings(private_country="RO")
    )
    findings = await examine(settings, 0)
    assert [each.verdict for each in findings if each.topic == "countries"] == [verdict]


def test_what_expired_in_large_numbers_is_removed_only_if_an_operator_confirms_it(
    folder: Path,
) -> None:
    now_us = wall_clock_us()

    async def begin_uploads() -> None:
        async with open_catalog(folder / DATABASE, migrate=False) as catalog:
            for number in range(11):
                expires_us = now_us - MICROSECONDS
                await catalog.uploads.begin(
                    1, new_upload(f"u{number}", expires_us=expires_us), now_us
                )

    asyncio.run(begin_uploads())
    stray(folder)
    words = "the time of 11 of 11 uploads is over"
    code, findings = doctor(folder)
    assert (code, findings["expiry"]["verdict"]) == (1, "act")
    assert words in str(findings["expiry"]["text"])
    assert findings["uploads"]["verdict"] == "well", "no cleanup removes them yet"
    stopped = CliRunner().invoke(main, ["doctor", "--clean", "--data", str(folder)])
    assert (stopped.exit_code, words in stopped.output) == (1, True)
    assert doctor(folder)[1]["leftovers"]["text"] == "none", "what did not stop was done"
    code, findings = doctor(folder, "--clean", "--confirm")
    assert (code, findings["expiry"]["verdict"]) == (0, "well")


async def test_a_machine_whose_clock_is_a_month_ahead_cleans_by_that_of_the_database(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    with postgres_server.fresh_database() as url:
        create_data_folder(tmp_path)
        await install(tmp_path, url)
        settings = settings_of(tmp_path, database__url=url)
        ahead_us = wall_clock_us() + 30 * DAY_US
        async with open_catalog(url, migrate=False) as catalog:
            now_us = catalog.clock.now_us()
            upload = new_upload("one", expires_us=now_us + DAY_US)
            await catalog.uploads.begin(1, upload, now_us)
            assert await clean(settings, ahead_us) == 0
            findings = {each.topic: each for each in await examine(settings, ahead_us)}
            assert findings["uploads"].verdict == "well"
            assert await catalog.uploads.find("one") is not None
