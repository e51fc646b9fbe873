"""What `headend migrate` and `headend serve` make of a data folder, and what others find."""

import asyncio
import sqlite3
import stat
from pathlib import Path

import pytest

from headend.install.installation import (
    DATABASE,
    OWNER_TOKEN,
    create_data_folder,
    install,
    read_installation,
)
from headend.install.locks import DataFolderError, schema_in_use
from storage.catalog import open_catalog
from storage.catalog.records.common import FirstStart
from storage.errors import CatalogUnavailable, SchemaNewer


async def first_start(folder: Path) -> FirstStart:
    async with open_catalog(folder / DATABASE, migrate=False) as catalog:
        return await read_installation(catalog)


def test_an_empty_folder_gets_what_every_role_needs(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "data"
    create_data_folder(folder)
    assert asyncio.run(install(folder))
    first = asyncio.run(first_start(folder))
    assert first.stream is not None
    token = folder / OWNER_TOKEN
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    before = token.read_text()
    assert not asyncio.run(install(folder))
    assert asyncio.run(first_start(folder)) == first
    assert token.read_text() == before


def test_what_is_as_it_should_be_may_be_asked_for_while_it_is_used(tmp_path: Path) -> None:
    asyncio.run(install(tmp_path))
    with schema_in_use(tmp_path):
        assert not asyncio.run(install(tmp_path))


def test_a_database_in_use_is_not_migrated(tmp_path: Path) -> None:
    with schema_in_use(tmp_path), pytest.raises(DataFolderError, match="stop that first"):
        asyncio.run(install(tmp_path))
    assert not (tmp_path / DATABASE).exists()


def test_a_catalog_without_a_first_start_gets_one_and_is_refused_until_then(
    tmp_path: Path,
) -> None:
    async def migrate_alone() -> None:
        async with open_catalog(tmp_path / DATABASE, migrate=True):
            pass

    asyncio.run(migrate_alone())
    with pytest.raises(CatalogUnavailable, match="run `headend migrate` first"):
        asyncio.run(first_start(tmp_path))
    assert asyncio.run(install(tmp_path))
    assert asyncio.run(first_start(tmp_path)).stream is not None


def test_a_newer_catalog_is_refused(tmp_path: Path) -> None:
    asyncio.run(install(tmp_path))
    with sqlite3.connect(tmp_path / DATABASE) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    with pytest.raises(SchemaNewer):
        asyncio.run(install(tmp_path))


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataFolderError, match=r"cannot use .* for data: Not a directory"):
        create_data_folder(tmp_path / "file" / "below")
