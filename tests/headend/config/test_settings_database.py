"""The setting `database.url`: the database it selects, and that its password is never shown."""

import asyncio
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

from headend.config.section import explain
from headend.config.settings import ServiceSettings, SettingsError, load
from headend.install.installation import (
    DATABASE,
    OWNER_TOKEN,
    catalog_location,
    install,
    read_installation,
)
from storage.catalog import open_catalog
from storage.catalog.records.common import FirstStart
from storage.errors import CatalogUnavailable
from tests.support.e2e.service import run_headend
from tests.support.postgres import PASSWORD, PostgresServer

VARIABLE = "HEADEND_DATABASE__URL"


@pytest.fixture
def url(postgres_server: PostgresServer) -> Generator[str]:
    """The address of an empty database whose user needs a password."""
    with postgres_server.empty_database() as address:
        name = address.partition("@/")[2].partition("?")[0]
        yield postgres_server.url(name, "guarded", PASSWORD)


def settings_of(url: str, **more: str) -> ServiceSettings:
    return load(file=None, environment={VARIABLE: url, **more}, options={})[0]


def headend(url: str, *command: str) -> subprocess.CompletedProcess[str]:
    return run_headend(*command, environment={VARIABLE: url})


async def first_start(location: str | Path) -> FirstStart:
    async with open_catalog(location, migrate=False) as catalog:
        return await read_installation(catalog)


def test_without_it_the_catalog_is_a_file_in_the_folder() -> None:
    assert catalog_location(settings_of("", HEADEND_DATA="/srv/x")) == Path("/srv/x") / DATABASE


def test_no_text_of_the_settings_has_the_password() -> None:
    settings = settings_of(f"postgresql://me:{PASSWORD}@host/db")
    text = repr(settings) + repr(settings.database) + repr(explain(settings, {}))
    assert PASSWORD not in text
    assert "me" not in {line.value for line in explain(settings, {})}
    assert "database.url='(set)'" in repr(settings)
    assert "database.url=''" in repr(ServiceSettings())


def test_no_refusal_of_a_value_has_the_password(tmp_path: Path) -> None:
    file = tmp_path / "headend.toml"
    file.write_text(f"[database]\nurl = ['{PASSWORD}']\n")
    with pytest.raises(SettingsError, match=r"database\.url") as caught:
        load(file=file, environment={}, options={})
    assert PASSWORD not in str(caught.value)


def test_an_empty_database_gets_what_every_role_needs(url: str, tmp_path: Path) -> None:
    assert asyncio.run(install(tmp_path, url))
    first = asyncio.run(first_start(url))
    assert first.stream is not None
    token = (tmp_path / OWNER_TOKEN).read_text()
    assert not (tmp_path / DATABASE).exists()
    assert not asyncio.run(install(tmp_path, url))
    assert (tmp_path / OWNER_TOKEN).read_text() == token


def test_another_folder_finds_the_same_catalog_and_gets_no_token(url: str, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    assert asyncio.run(install(tmp_path / "one", url))
    assert not asyncio.run(install(tmp_path / "two", url, new_store=True))
    assert not (tmp_path / "two" / OWNER_TOKEN).exists()


def test_a_missing_server_is_reported_in_one_sentence(url: str, tmp_path: Path) -> None:
    with pytest.raises(CatalogUnavailable, match="no server at that socket"):
        asyncio.run(install(tmp_path, url.replace("?host=/", "?host=/none/")))
    assert list(tmp_path.glob("*.token")) == []


def test_the_commands_use_it_and_never_print_the_password(url: str, tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "data"))
    early = headend(url, "api", *data)
    assert early.returncode == 1
    migration = headend(url, "migrate", *data)
    assert migration.returncode == 0, migration.stderr
    assert "owner.token" in migration.stdout
    second_migration = headend(url, "migrate", *data)
    assert "up to date" in second_migration.stdout
    streams = headend(url, "streams", *data)
    assert "My first stream" in streams.stdout
    token = headend(url, "token", "create", "player", *data)
    assert "headend_" in token.stdout
    assert "player" in headend(url, "token", "list", *data).stdout
    listed = headend(url, "settings", *data)
    assert "database.url" in listed.stdout
    wrong = headend(url.replace(PASSWORD, PASSWORD[1:]), "streams", *data)
    assert "wrong user or password" in wrong.stderr
    for answer in (early, migration, second_migration, streams, token, listed, wrong):
        assert PASSWORD[1:] not in answer.stdout + answer.stderr
        assert "Traceback" not in answer.stderr
