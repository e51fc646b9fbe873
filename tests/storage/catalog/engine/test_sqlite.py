"""The database in a file of SQLite: its modes, its locks, its errors."""

import asyncio
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import insert, select, text

from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.engine.database import database_url, open_database
from storage.catalog.migrations import migrate
from storage.catalog.schema.tables import projects
from storage.errors import CatalogBusy, CatalogUnavailable


async def _pragma(connection: AsyncConnection, name: str) -> object:
    return (await connection.execute(text(f"PRAGMA {name}"))).scalar_one()


async def test_both_kinds_of_transactions_run_under_wal_with_foreign_keys(file: Path) -> None:
    async with open_database(database_url(file), create=True) as database:
        async with database.reading() as connection:
            assert await _pragma(connection, "journal_mode") == "wal"
            assert await _pragma(connection, "foreign_keys") == 1
            assert await _pragma(connection, "query_only") == 1
        async with database.writing() as connection:
            # The engine waits itself, so that a cancelled caller can stop waiting.
            assert await _pragma(connection, "busy_timeout") == 0
            assert await _pragma(connection, "foreign_keys") == 1
            assert await _pragma(connection, "synchronous") == 1


async def test_a_lock_that_another_process_keeps_is_reported_as_busy(file: Path) -> None:
    url = database_url(file)
    async with open_database(url, create=True, busy_ms=50) as database:
        await migrate(database)
        other = sqlite3.connect(file, isolation_level=None)
        try:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(CatalogBusy):
                async with database.writing():
                    pass
            async with database.reading() as connection:
                assert (await connection.execute(select(projects.c.name))).all() == []
        finally:
            other.close()
        async with database.writing():
            pass


async def test_a_file_that_is_no_database_is_reported_as_unavailable(file: Path) -> None:
    junk = b"not a database, but long enough to be taken for one\n" * 100
    await asyncio.to_thread(file.write_bytes, junk)
    async with open_database(database_url(file), create=True) as database:
        with pytest.raises(CatalogUnavailable, match="SQLITE_NOTADB"):
            async with database.reading() as connection:
                await connection.execute(text("SELECT 1"))


async def test_a_full_disk_is_reported_as_unavailable(file: Path) -> None:
    async with open_database(database_url(file), create=True) as database:
        await migrate(database)
        with pytest.raises(CatalogUnavailable, match="SQLITE_FULL"):
            async with database.writing() as connection:
                # SQLite's own stand-in for a disk with no room for another page.
                pages = await _pragma(connection, "page_count")
                await connection.execute(text(f"PRAGMA max_page_count={pages}"))
                row = {"key": "a", "name": "n" * 200_000, "created_us": 1}
                await connection.execute(insert(projects).values(row))
