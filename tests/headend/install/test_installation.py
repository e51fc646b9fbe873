"""Data folders: as `headend migrate` and `headend serve` create them, and how others open them."""

import shutil
import sqlite3
import stat
from pathlib import Path

import pytest

from headend.install.installation import (
    DATABASE,
    MOVED,
    OWNER_TOKEN,
    create_data_folder,
    install,
    move_catalog,
    own_store,
    read_installation,
    release_media,
)
from headend.install.locks import DataFolderError, schema_in_use
from headend.install.media_store import OBJECTS, open_store, read_store
from storage.catalog import open_catalog
from storage.catalog.records.common import FirstStart
from storage.errors import CatalogUnavailable, SchemaNewer
from storage.installation_key import EmptyStore, StoreMismatch
from storage.lease_verdict import NewStoreRefused
from storage.store_lease import LeaseTiming, StoreLease
from tests.support.postgres import PostgresServer
from tests.support.sql import make_tables_of_0_2, run_sql


async def first_start(folder: Path) -> FirstStart:
    async with open_catalog(folder / DATABASE, migrate=False) as catalog:
        return await read_installation(catalog)


async def test_an_empty_folder_gets_what_every_role_needs(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "data"
    create_data_folder(folder)
    assert await install(folder)
    first = await first_start(folder)
    assert first.stream is not None
    token = folder / OWNER_TOKEN
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    before = token.read_text()
    assert not await install(folder)
    assert await first_start(folder) == first
    assert token.read_text() == before


async def test_a_token_that_cannot_be_written_is_reported_with_the_way_to_another(
    tmp_path: Path,
) -> None:
    (tmp_path / OWNER_TOKEN).mkdir()
    with pytest.raises(DataFolderError, match="headend token create owner --write"):
        await install(tmp_path)
    assert not await install(tmp_path)  # the database is there
    assert (await first_start(tmp_path)).stream is not None


async def test_installing_an_up_to_date_folder_is_allowed_while_it_is_used(tmp_path: Path) -> None:
    await install(tmp_path)
    with schema_in_use(tmp_path):
        assert not await install(tmp_path)


async def test_a_database_in_use_is_not_migrated(tmp_path: Path) -> None:
    with schema_in_use(tmp_path), pytest.raises(DataFolderError, match="stop that first"):
        await install(tmp_path)
    assert not (tmp_path / DATABASE).exists()


async def test_a_catalog_without_a_first_start_gets_one_and_is_refused_until_then(
    tmp_path: Path,
) -> None:
    async def migrate_alone() -> None:
        async with open_catalog(tmp_path / DATABASE, migrate=True):
            pass

    await migrate_alone()
    with pytest.raises(CatalogUnavailable, match="run `headend migrate` first"):
        await first_start(tmp_path)
    assert await install(tmp_path)
    assert (await first_start(tmp_path)).stream is not None


async def test_a_newer_catalog_is_refused(tmp_path: Path) -> None:
    await install(tmp_path)
    with sqlite3.connect(tmp_path / DATABASE) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    with pytest.raises(SchemaNewer):
        await install(tmp_path)


def test_a_folder_that_cannot_be_created_is_reported_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataFolderError, match=r"cannot use .* for data: Not a directory"):
        create_data_folder(tmp_path / "file" / "below")


def media(folder: Path) -> Path:
    """Add a file of a video, as in an installation."""
    file = folder / OBJECTS / "sources" / "AAAAAAAAAAAA" / "1"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"x")
    return file


async def test_a_first_start_writes_the_same_key_to_database_and_media(tmp_path: Path) -> None:
    assert await install(tmp_path)
    [(key,)] = run_sql(tmp_path / DATABASE, "SELECT key FROM installation")
    assert (tmp_path / OBJECTS / "installation").read_text().strip() == key != ""


async def test_no_database_is_made_for_media_that_belong_to_another(tmp_path: Path) -> None:
    await install(tmp_path)
    file, token = media(tmp_path), (tmp_path / OWNER_TOKEN).read_text()
    (tmp_path / DATABASE).rename(tmp_path / "elsewhere")
    with pytest.raises(StoreMismatch, match="use the database that they belong to"):
        await install(tmp_path)
    assert file.exists()
    assert not (tmp_path / DATABASE).exists()
    assert (tmp_path / OWNER_TOKEN).read_text() == token
    (tmp_path / "elsewhere").rename(tmp_path / DATABASE)
    assert not await install(tmp_path)


async def test_an_empty_database_is_not_filled_for_media_that_belong_to_another(
    tmp_path: Path,
) -> None:
    file = media(tmp_path)
    (tmp_path / DATABASE).touch()
    with pytest.raises(StoreMismatch):
        await install(tmp_path)
    assert file.exists()
    assert run_sql(tmp_path / DATABASE, "SELECT name FROM sqlite_master") == []


async def test_an_empty_postgresql_database_is_not_filled_for_used_media(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    file = media(tmp_path)
    with postgres_server.empty_database() as url:
        with pytest.raises(StoreMismatch, match=r"catalog at postgresql://postgres@/"):
            await install(tmp_path, url)
        name = url.partition("@/")[2].partition("?")[0]
        [(tables,)] = postgres_server.execute(
            "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'", name
        )
    assert (file.exists(), tables) == (True, 0)


async def test_a_used_postgresql_database_is_not_joined_with_an_empty_folder(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    """As a second machine has one, of which the first one reads nothing."""
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        create_data_folder(folder)
    with postgres_server.fresh_database() as url:
        assert await install(first, url)
        with pytest.raises(EmptyStore, match=rf"^{second}.* at postgresql://postgres@/"):
            await install(second, url)
        assert not (second / OBJECTS).exists()
        assert not await install(first, url)
        media(first)
        assert not await install(first, url, new_store=True)
        assert not await install(second, url, new_store=True)
        key = (first / OBJECTS / "installation").read_text()
        assert (second / OBJECTS / "installation").read_text() == key


async def test_a_new_store_is_not_confirmed_beside_processes_that_have_theirs(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        create_data_folder(folder)
    with postgres_server.fresh_database() as url:
        await install(first, url)
        await use(first, url)
        with pytest.raises(NewStoreRefused, match="needs the folder or bucket that they have"):
            await install(second, url, new_store=True)
        assert not (second / OBJECTS).exists()
        await install(first, url, new_store=True)
        run_sql(url, "UPDATE store_claims SET confirmed_us = 1")
        await install(second, url, new_store=True)


async def test_media_restored_without_the_key_get_it(tmp_path: Path) -> None:
    without_keys(tmp_path, "AAAAAAAAAAAA")
    await install(tmp_path)
    (tmp_path / OBJECTS).rename(tmp_path / "backup")
    with pytest.raises(EmptyStore):
        await install(tmp_path)
    (tmp_path / OBJECTS).mkdir()
    for name in ("sources", "videos"):
        if (tmp_path / "backup" / name).exists():
            (tmp_path / "backup" / name).rename(tmp_path / OBJECTS / name)
    async with open_catalog(tmp_path / DATABASE, migrate=False) as catalog:
        store = open_store(tmp_path, None)
        async with own_store(catalog, read_store(tmp_path, None), store) as objects:
            assert (
                await objects.get("installation")
                == (tmp_path / "backup" / "installation").read_bytes()
            )


def without_keys(folder: Path, hash_: str) -> Path:
    """Make an installation of 0.2 that never started, with one video and one file, but no key."""
    make_tables_of_0_2(folder / DATABASE)
    nothing = dict.fromkeys(
        ("size", "length_us", "width", "height", "progress", "eta", "created_us", "updated_us",
         "published", "hidden", "storage_size"), "0",
    )  # fmt: skip
    texts = dict.fromkeys(
        ("file_title", "title_fold", "description", "name", "reason", "warnings", "countries",
         "poster_labels"), "''",
    )  # fmt: skip
    video = {
        "project_id": "1", "hash": f"'{hash_}'", "state": "'failed'", "phase": "'failed'",
        "generation": "1", "version": "1", **nothing, **texts,
    }  # fmt: skip
    run_sql(
        folder / DATABASE,
        "INSERT INTO installation (id, broadcaster_key, created_us) VALUES (1, 'key', 1)",
        "INSERT INTO projects (id, key, name, created_us) VALUES (1, 'abcdefabcdef', 'first', 1)",
        f"INSERT INTO videos ({', '.join(video)}) VALUES ({', '.join(video.values())})",
    )
    return media(folder)


async def test_an_installation_without_a_key_is_upgraded(tmp_path: Path) -> None:
    file = without_keys(tmp_path, "AAAAAAAAAAAA")
    assert await install(tmp_path)
    [(key,)] = run_sql(tmp_path / DATABASE, "SELECT key FROM installation")
    assert (tmp_path / OBJECTS / "installation").read_text().strip() == key != ""
    assert file.exists()


async def test_a_foreign_database_without_a_key_is_refused(tmp_path: Path) -> None:
    file = without_keys(tmp_path, "BBBBBBBBBBBB")
    with pytest.raises(StoreMismatch):
        await install(tmp_path)
    assert file.exists()
    assert not (tmp_path / OBJECTS / "installation").exists()


async def use(folder: Path, location: str | Path) -> None:
    """Start on the media of a folder, which may not need a wait, and renew their lease."""

    def no_wait(reason: str) -> None:
        raise AssertionError(reason)

    async with open_catalog(location, migrate=False) as catalog:
        with open_store(folder, None) as objects:
            timing = LeaseTiming(renew_seconds=0)
            lease = StoreLease(objects, catalog, timing=timing)
            await lease.acquire(no_wait)


async def test_a_backup_that_is_restored_after_a_clean_stop_starts_at_once(tmp_path: Path) -> None:
    """Of a file of SQLite the last process is known; another one still has the lease."""
    await install(tmp_path)
    await use(tmp_path, tmp_path / DATABASE)
    await use(tmp_path, tmp_path / DATABASE)
    shutil.copy(tmp_path / DATABASE, tmp_path / "backup")
    run_sql(tmp_path / "backup", "UPDATE store_claims SET confirmed_us = 0, turn = 'old'")
    await use(tmp_path, tmp_path / DATABASE)
    with schema_in_use(tmp_path), pytest.raises(DataFolderError):
        await release_media(tmp_path, None)
    with pytest.raises(AssertionError, match="waiting for up to 90 s"):
        await use(tmp_path, tmp_path / "backup")
    assert await release_media(tmp_path, None)
    await use(tmp_path, tmp_path / DATABASE)
    with pytest.raises(AssertionError, match="waiting for up to 90 s"):
        await use(tmp_path, tmp_path / "backup")  # it was started again, and killed
    assert await release_media(tmp_path, None)
    await use(tmp_path, tmp_path / "backup")
    assert not await release_media(tmp_path, None), "the original does not have it any more"
    with pytest.raises(AssertionError, match="waiting for up to 90 s"):
        await use(tmp_path, tmp_path / DATABASE)


@pytest.mark.parametrize("used", ["neither", "the file", "the copy"])
async def test_a_move_that_is_finished_later_has_handed_the_media_over(
    tmp_path: Path, postgres_server: PostgresServer, used: str
) -> None:
    await install(tmp_path)
    await use(tmp_path, tmp_path / DATABASE)
    with postgres_server.empty_database() as url:
        assert not (await move_catalog(tmp_path, url)).was_there
        # As if it was killed before that.
        (tmp_path / MOVED).rename(tmp_path / DATABASE)
        if used != "neither":
            await use(tmp_path, url if used == "the copy" else tmp_path / DATABASE)
        assert (await move_catalog(tmp_path, url)).was_there
        await use(tmp_path, url)
