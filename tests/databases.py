"""SQL that a test says itself, to a catalog's database on either engine."""

import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
from psycopg import sql

__all__ = ["Row", "run_sql"]

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
