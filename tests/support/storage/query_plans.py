"""Captures the catalog's statements, and explains them with the database's query planner."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, event


@contextmanager
def caught_statements() -> Generator[list[tuple[str, Any]]]:  # Any: parameters, in a driver's form
    """List the statements executed during the block, with their parameters.

    One that SQLite's reader repeats on a thread is listed once.
    """
    caught: list[tuple[str, Any]] = []

    def catch(_c: object, _cursor: object, statement: str, parameters: Any, *_: object) -> None:
        if caught[-1:] != [(statement, parameters)]:
            caught.append((statement, parameters))

    event.listen(Engine, "before_cursor_execute", catch)
    try:
        yield caught
    finally:
        event.remove(Engine, "before_cursor_execute", catch)


def plan_of(connection: Connection, statement: str, parameters: Any) -> list[str]:
    """Return the steps of a statement's query plan."""
    if connection.dialect.name == "sqlite":
        rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
        return [row.detail for row in rows]
    rows = connection.exec_driver_sql(f"EXPLAIN {statement}", parameters)
    return [row[0].strip() for row in rows]
