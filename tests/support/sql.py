"""A catalog's database: a file of SQLite to begin with, and SQL that a test says itself."""

import asyncio
import functools
import sqlite3
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psycopg
from psycopg import sql

from storage.catalog import open_catalog

__all__ = ["Row", "migrated", "run_sql"]

Row = tuple[object, ...]


def run_sql(place: str | Path, *statements: str) -> list[Row]:
    """Run statements, each for itself; return the rows of the last, if it has any."""
    rows: list[Row] = []
    if isinstance(place, Path):
        with closing(sqlite3.connect(place, isolation_level=None)) as connection:
            connection.execute("PRAGMA foreign_keys=ON")
            for statement in statements:
                rows = connection.execute(statement).fetchall()
        return rows
    with psycopg.connect(place, autocommit=True) as served:
        for statement in statements:
            # A test's own text, not a stranger's.
            done = served.execute(sql.SQL(statement))  # pyright: ignore[reportArgumentType]
            rows = done.fetchall() if done.description else []
    return rows


def migrated(place: Path) -> Path:
    """Have a file of SQLite with the catalog's tables at a place, all empty if it is a new one.

    To write one down takes a tenth of the CPU that making it with `migrate=True` does.
    """
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(_made())
    return place


@functools.cache
def _made() -> bytes:
    async def make(place: Path) -> None:
        async with open_catalog(place, migrate=True):
            pass

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as aside:
        place = Path(folder) / "catalog.db"
        # A thread of its own: who asks may be within an event loop.
        aside.submit(asyncio.run, make(place)).result()
        return place.read_bytes()
