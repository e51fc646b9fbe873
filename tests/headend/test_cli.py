"""The commands on a real data folder: what each prints, and what it refuses."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headend.cli import main
from headend.install.installation import DATABASE, OWNER_TOKEN
from headend.install.media_store import OBJECTS
from storage.catalog import open_catalog
from tests.support.postgres import PostgresServer
from tests.support.sql import run_sql


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder as `headend migrate` makes it."""
    done = headend("migrate", data=tmp_path / "data")
    assert done.exit_code == 0, done.output
    assert done.output.splitlines() == [
        "the database is up to date",
        f"the owner's token is in {tmp_path / 'data' / OWNER_TOKEN}",
    ]
    return tmp_path / "data"


def headend(*arguments: str, data: Path | None = None) -> Result:
    options = () if data is None else ("--data", str(data))
    return CliRunner(env={"HEADEND_CONFIG": ""}).invoke(main, [*arguments, *options])


def fields(result: Result) -> list[list[str]]:
    assert result.exit_code == 0, result.output
    return [line.split("\t") for line in result.output.splitlines()]


def test_created_files_are_readable_by_their_owner_only(data: Path) -> None:
    mask = os.umask(0o022)
    os.umask(mask)
    modes = {path.name: path.stat().st_mode & 0o077 for path in (data, *data.iterdir())}
    assert modes[DATABASE] == modes[OWNER_TOKEN] == 0
    assert not any(modes.values()), modes
    assert mask != 0o077, "the command left its mask behind"


def test_a_token_is_shown_once_and_invalid_once_revoked(data: Path) -> None:
    ((number, secret),) = fields(headend("token", "create", "mine", "--write", data=data))
    listed = headend("token", "list", data=data)
    assert [number, "write", "all", "mine", "-"] in fields(listed)
    assert secret not in listed.output
    assert fields(headend("token", "revoke", number, data=data)) == [[number, "revoked", "mine"]]
    assert [number, "revoked", "all", "mine", "-"] in fields(headend("token", "list", data=data))
    missing = headend("token", "revoke", "99", data=data)
    assert (missing.exit_code, missing.output) == (1, "Error: there is no token 99\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("",), "The name is required."),
        ((" \u200b ",), "The name is required."),
        (("a\nb",), "The name must not contain control characters."),
        (("a\udcffb",), "The name must not contain control characters."),
        (("a" * 256,), "The name may have at most 255 characters."),
        (("a", "--project", "99"), "there is no project 99"),
        (("a", "--project", "0"), "there is no project 0"),
        (("a", "--project", str(1 << 31)), "there is no project 2147483648"),
        (("a", "--project", str(1 << 64)), "there is no project 18446744073709551616"),
    ],
)
def test_a_token_is_checked_as_in_the_api(
    data: Path, arguments: tuple[str, ...], message: str
) -> None:
    result = headend("token", "create", *arguments, data=data)
    assert result.exit_code != 0
    assert message in result.output
    assert len(fields(headend("token", "list", data=data))) == 1, "the owner's"


def test_a_name_is_trimmed_as_in_the_api(data: Path) -> None:
    headend("token", "create", " mine ", data=data)
    assert fields(headend("token", "list", data=data))[-1][3] == "mine"


def test_a_link_to_the_console_is_printed_for_the_owner_or_another_token(data: Path) -> None:
    ((first,),) = fields(headend("console-link", data=data))
    ((second,),) = fields(headend("console-link", "--token", "1", data=data))
    assert first != second
    for link in (first, second):
        assert link.startswith("http://127.0.0.1:8080/console/sign-in#link=")
    missing = headend("console-link", "--token", "99", data=data)
    assert missing.exit_code == 1
    assert "there is no token 99" in missing.output


def test_the_streams_and_the_broadcaster_are_those_of_the_installation(data: Path) -> None:
    ((number, hash_, key, title),) = fields(headend("streams", data=data))
    assert (number, title) == ("1", "My first stream")
    assert key.startswith(f"{hash_}_")
    names = [name for name, _ in fields(headend("broadcaster", data=data))]
    assert names == ["app", "key", "secret"]


def test_titles_names_and_errors_write_nothing_else_to_the_terminal(data: Path) -> None:
    run_sql(data / DATABASE, "UPDATE streams SET title = 'a' || char(9, 10, 27) || '[2J'")
    ((_, _, _, title),) = fields(headend("streams", data=data))
    assert title == "a\\u0009\\u000a\\u001b[2J"
    ((number, _),) = fields(headend("token", "create", "mine", data=data))
    # From a version that did not check names here.
    named = f"name = 'b' || char(155) || '2J' || char(8238) WHERE id = {number}"
    run_sql(data / DATABASE, f"UPDATE tokens SET {named}")
    assert fields(headend("token", "list", data=data))[-1][3] == "b\\u009b2J\\u202e"
    assert fields(headend("token", "revoke", number, data=data))[0][2] == "b\\u009b2J\\u202e"
    refused = headend("streams", data=data.parent / "none\x1b[2J")
    assert refused.exit_code == 1
    assert "none\\u001b[2J" in refused.output
    assert "\x1b" not in refused.output


def test_with_sqlite_there_are_no_hosts(data: Path) -> None:
    result = headend("hosts", data=data)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "one process receives streams" in result.stderr


def test_hosts_are_shown_with_what_they_own(
    tmp_path: Path, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fill(url: str) -> int:
        async with open_catalog(url, migrate=False) as catalog:
            alive = await catalog.hosts.register("a", "ingest", "10.0.0.1:1937", "1.0", 8)
            await catalog.owners.claim(1, alive, dead_seconds=60)
            return await catalog.hosts.register("b", "serve", None, "2.0")

    with postgres_server.fresh_database() as url:
        monkeypatch.setenv("HEADEND_DATABASE__URL", url)
        monkeypatch.setenv("HEADEND_HOSTS__DEAD_SECONDS", "60")
        dead_host = asyncio.run(fill(url))
        run_sql(url, f"UPDATE hosts SET seen_us = seen_us - 3600000000 WHERE id = {dead_host}")
        first, second = fields(headend("hosts", data=tmp_path))
    assert (first[:3], first[4:]) == (
        ["a", "ingest", "1.0"],
        ["alive", "1", "10.0.0.1:1937", "8"],
    )
    assert 0 <= float(first[3]) < 60
    assert (second[:3], second[4:]) == (["b", "serve", "2.0"], ["gone", "0", "-", "-"])
    assert 3600 <= float(second[3]) < 3700


@pytest.mark.parametrize(
    "command",
    [
        ("migrate",),
        ("migrate", "--media-to", "s3://media/there", "--media-endpoint", "http://127.0.0.1:1"),
        ("doctor", "--clean"),
    ],
    ids=" ".join,
)
def test_a_store_that_is_not_mounted_is_taken_by_no_command(
    data: Path, command: tuple[str, ...]
) -> None:
    objects, disk = data / OBJECTS, data / "unmounted"
    objects.rename(disk)
    objects.mkdir()
    refused = headend(*command, data=data)
    assert (refused.exit_code, refused.stderr) == (1, (
        f"Error: {objects} has no media and no key, though the catalog at {data / DATABASE} has had"
        " a store: check that the disk is mounted, and that data and storage.url (bucket and"
        " prefix) name the store that all processes use; if a new, empty one is meant, `headend"
        " migrate --new-store` confirms it\n"
    ))  # fmt: skip
    assert list(objects.iterdir()) == []


def test_a_link_to_a_disk_that_is_away_is_reported_in_one_sentence(data: Path) -> None:
    place = data / OBJECTS
    shutil.rmtree(place)
    place.symlink_to(data / "away" / OBJECTS)
    done = headend("migrate", "--new-store", data=data)
    assert (done.exit_code, done.output) == (1, f"Error: {place}: File exists\n")


def test_a_new_store_is_confirmed_once(data: Path) -> None:
    key = data / OBJECTS / "installation"
    before = key.read_text()
    shutil.rmtree(data / OBJECTS)
    assert headend("migrate", data=data).exit_code == 1
    confirmed = headend("migrate", "--new-store", data=data)
    assert (confirmed.exit_code, key.read_text()) == (0, before), confirmed.output
    assert headend("migrate", data=data).exit_code == 0


@pytest.mark.parametrize("command", ["streams", "broadcaster", "hosts"])
def test_without_an_installation_a_command_names_the_one_that_makes_it(
    tmp_path: Path, command: str
) -> None:
    refused = headend(command, data=tmp_path / "none")
    assert refused.exit_code == 1
    assert "run `headend migrate` first" in refused.output
    assert not (tmp_path / "none").exists()


def test_options_win_over_the_file_and_each_setting_names_its_source(tmp_path: Path) -> None:
    (tmp_path / "headend.toml").write_text('data = "there"\n[http]\nlisten = "127.0.0.1:1"\n')
    result = headend(
        "settings", "--json", "--config", str(tmp_path / "headend.toml"), "--http", "127.0.0.1:2"
    )
    lines = {line["name"]: line for line in json.loads(result.output)}
    assert (lines["http.listen"]["value"], lines["http.listen"]["source"]) == (
        "127.0.0.1:2",
        "command line",
    )
    assert lines["data"]["value"] == "there"
    assert lines["rtmp.listen"]["source"] == "default"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("settings", "--config", "/none.toml"), 1, "/none.toml"),
        (("doctor", "--confirm"), 2, "--confirm needs --clean"),
        (("migrate", "--media-region", "x"), 2, "--media-region need --media-to"),
        (("migrate", "--to", "postgresql:///x", "--new-store"), 2, "with neither --to nor"),
        (("migrate", "--media-to", "/x"), 1, "the media are in a folder already"),
        (("migrate", "--media-to", "s3://media", "--data", "/none"), 1, "/none does not exist"),
        (("pattern", "rtmp://127.0.0.1:1/live/x", "--size", "huge"), 2, "WIDTHxHEIGHT"),
    ],
)
def test_invalid_arguments_are_refused_with_one_sentence(
    arguments: tuple[str, ...], code: int, words: str
) -> None:
    refused = headend(*arguments)
    assert (refused.exit_code, words in refused.output) == (code, True), refused.output
    assert "Traceback" not in refused.output


# In a separate process, since other tests have loaded everything.
# What a process needs with PostgreSQL and with Redis alone, and what others load with it.
UNUSED = {
    "psycopg", "redis",
    "sqlalchemy.ext.asyncio", "sqlalchemy.orm",
}  # fmt: skip
LOADED = """
import sys
from headend.cli import main
try:
    main(sys.argv[1:])
finally:
    print(*sys.modules, file=sys.stderr)
"""


def test_a_former_setting_is_warned_about_beside_the_output() -> None:
    runner = CliRunner(env={"HEADEND_CONFIG": "", "HEADEND_LIMITS__AMF_DEPTH": "3"})
    result = runner.invoke(main, ["settings", "--json"])
    assert result.exit_code == 0
    assert "limits.amf_depth" not in {line["name"] for line in json.loads(result.stdout)}
    assert result.stderr.startswith("Warning: HEADEND_LIMITS__AMF_DEPTH: limits.amf_depth has no")


@pytest.mark.parametrize("arguments", [("settings",), ("migrate",), ("token", "create", "mine")])
def test_a_command_that_serves_no_clients_loads_no_server(
    data: Path, arguments: tuple[str, ...]
) -> None:
    command = [sys.executable, "-c", LOADED, *arguments, "--data", str(data)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded = done.stderr.split()
    assert "sqlalchemy" in loaded
    forbidden = {"alembic", "cryptography", "litestar", "structlog", "uvicorn", "uvloop"}
    assert not (forbidden | UNUSED) & set(loaded)


# The role ends as soon as it is run.
SERVING = """
import gc
import sys
from headend import cli, run

def ran(role, settings, *, demo, new_store):
    print(role.name, demo, new_store, gc.isenabled(), gc.get_freeze_count() > 100_000)
    print(*sys.modules)

run.run = ran
cli.main()
"""


@pytest.mark.parametrize(("command", "role", "demo"), [("api", "api", None), ("demo", "serve", 20)])
def test_a_role_is_run_with_its_modules_frozen(command: str, role: str, demo: float | None) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SERVING, command], capture_output=True, text=True, check=True
    )
    ran, loaded = done.stdout.splitlines()
    assert ran.split() == [role, str(demo and float(demo)), "False", "True", "True"]
    assert not UNUSED & set(loaded.split())
