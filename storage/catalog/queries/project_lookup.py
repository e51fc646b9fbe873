"""Find a project by its number or its key, and lock it against deletion.

A deleted project is not found any more, nor is what it holds, although their rows remain: for as
long as it can be restored (`storage.catalog.queries.trash_rows`), and for a while after that
(`storage.catalog.projects.removal`). Each function runs within the caller's transaction.
"""

import re
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, bindparam, func, select

from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.queries.named_rows import MAX_ID
from storage.catalog.queries.row_reader import RowReader
from storage.catalog.records.common import ProjectRecord
from storage.catalog.schema.tables import projects
from storage.catalog.schema.upload_tables import trash
from storage.errors import NoSuchProject

IS_PRESENT: Final = projects.c.removed_us.is_(None)
"""The condition of a project that is not deleted."""
IN_TRASH: Final = select(trash.c.project_id).where(trash.c.kind == "project")
"""Selects the numbers of the deleted projects that can be restored."""
# Its own name, so that a statement that reads projects itself may use the condition too.
_OWNER: Final = projects.alias("owner")

# Canonical numbers of 32-bit ids; anything else can only be a key.
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,8}")


def words(text: str) -> tuple[str, ...]:
    """Return the words of a text."""
    return tuple(text.split())


# Run at nearly each API call: built once, as building them costs more than running them.
READER: Final = RowReader(ProjectRecord, projects, parsers={"origins": words})
_BY_NUMBER: Final = select(*READER.columns).where(projects.c.id == bindparam("of"), IS_PRESENT)
_BY_KEY: Final = select(*READER.columns).where(projects.c.key == bindparam("of"), IS_PRESENT)


def select_named(name: str) -> tuple[Select[Any], dict[str, object]]:
    """Return the statement, and its parameters, that selects a project by number or key."""
    is_number = _NUMBER.fullmatch(name) is not None
    return (_BY_NUMBER, {"of": int(name)}) if is_number else (_BY_KEY, {"of": name})


def is_of_present(project: ColumnElement[int]) -> ColumnElement[bool]:
    """Return the condition that a row's project, in that column, is not deleted."""
    present = select(_OWNER.c.id).where(_OWNER.c.id == project, _OWNER.c.removed_us.is_(None))
    return present.exists()


async def find(connection: AsyncConnection, name: str) -> ProjectRecord | None:
    """Return the project whose number or key is `name`; None if there is none."""
    row = (await connection.execute(*select_named(name))).one_or_none()
    return None if row is None else READER.read(row)


async def find_first(connection: AsyncConnection) -> int | None:
    """Return the number of the oldest project, the installation's own, which cannot be deleted.

    None if there is no project at all, as before the first start.
    """
    return (await connection.execute(select(func.min(projects.c.id)))).scalar_one()


async def require(connection: AsyncConnection, project: int, *, or_in_trash: bool = False) -> None:
    """Check that a project exists, and lock it against deletion until the transaction ends.

    With `or_in_trash` it may be in the trash: it is locked against removal for good.

    Raises:
        NoSuchProject: There is no project with that number.
    """
    exists = IS_PRESENT | projects.c.id.in_(IN_TRASH) if or_in_trash else IS_PRESENT
    statement = select(projects.c.id).where(projects.c.id == project, exists)
    locked = statement.with_for_update(read=True, key_share=True)
    if not 0 < project <= MAX_ID or (await connection.execute(locked)).one_or_none() is None:
        raise NoSuchProject(project)
