"""A catalog's database for tests: migrated, of version 0.2, and plain SQL on either engine."""

import asyncio
import functools
import sqlite3
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Final

import psycopg
from psycopg import sql

from storage.catalog import open_catalog

Row = tuple[object, ...]

WAITING: Final = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock'"""
"""Asks PostgreSQL how many sessions of the database wait for a lock."""


def run_sql(location: str | Path, *statements: str) -> list[Row]:
    """Execute each statement in its own transaction; return the rows of the last, if any."""
    rows: list[Row] = []
    if isinstance(location, Path):
        with closing(sqlite3.connect(location, isolation_level=None)) as connection:
            connection.execute("PRAGMA foreign_keys=ON")
            for statement in statements:
                rows = connection.execute(statement).fetchall()
        return rows
    with psycopg.connect(location, autocommit=True) as served:
        for statement in statements:
            # The text is a constant of a test, not user input.
            done = served.execute(sql.SQL(statement))  # pyright: ignore[reportArgumentType]
            rows = done.fetchall() if done.description else []
    return rows


def make_tables_of_0_2(location: str | Path) -> None:
    """Make the tables as version 0.2 made them, with the statements that it executed."""
    engine = "sqlite" if isinstance(location, Path) else "postgresql"
    script = (Path(__file__).parent / "tables_of_0_2" / f"{engine}.sql").read_text()
    run_sql(location, *script.split(";\n")[:-1])


def migrated(location: Path) -> Path:
    """Create an SQLite file with the catalog's empty tables, unless it exists.

    Writing a copy takes a tenth of the CPU of `migrate=True`.
    """
    if not location.exists():
        location.parent.mkdir(parents=True, exist_ok=True)
        location.write_bytes(_empty_file())
    return location


@functools.cache
def _empty_file() -> bytes:
    async def make(location: Path) -> None:
        async with open_catalog(location, migrate=True):
            pass

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as aside:
        location = Path(folder) / "catalog.db"
        # In its own thread: the caller may run in an event loop.
        aside.submit(asyncio.run, make(location)).result()
        return location.read_bytes()
