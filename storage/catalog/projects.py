"""Questions about projects. Each function runs within the caller's transaction."""

import re
from typing import Final

from sqlalchemy import Row, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from media.keys import new_hash
from storage.catalog import totals
from storage.catalog.records import ProjectRecord
from storage.catalog.tables import projects
from storage.errors import NoSuchProject

__all__ = ["add", "find", "require"]

# Canonical numbers of 32-bit ids; anything else can only be a key.
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,8}")
_COLUMNS: Final = (projects.c.id, projects.c.key, projects.c.name, projects.c.created_us)


def _record(row: Row[int, str, str, int]) -> ProjectRecord:
    number, key, name, created_us = row
    return ProjectRecord(id=number, key=key, name=name, created_us=created_us)


def _new_key() -> str:
    """Return a short string that no number can be taken for: it begins with a letter."""
    while (key := new_hash())[0].isdigit():
        pass
    return key


async def add(connection: AsyncConnection, name: str, now_us: int) -> ProjectRecord:
    """Make a project."""
    statement = insert(projects).values(
        key=_new_key(), name=name, created_us=now_us, updated_us=now_us
    )
    record = _record((await connection.execute(statement.returning(*_COLUMNS))).one())
    await totals.begin(connection, record.id)
    return record


async def find(connection: AsyncConnection, name: str) -> ProjectRecord | None:
    """Return the project whose number or key `name` is, as paths take either."""
    is_number = _NUMBER.fullmatch(name) is not None
    same = projects.c.id == int(name) if is_number else projects.c.key == name
    row = (await connection.execute(select(*_COLUMNS).where(same))).one_or_none()
    return None if row is None else _record(row)


async def require(connection: AsyncConnection, project: int) -> None:
    """See that there is a project with that number.

    Raises:
        NoSuchProject: there is none.
    """
    asked = select(projects.c.id).where(projects.c.id == project)
    if (await connection.execute(asked)).one_or_none() is None:
        raise NoSuchProject(project)
