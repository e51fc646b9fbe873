"""Add, edit, list and delete projects (`catalog.projects`).

Finding one within a transaction is `storage.catalog.queries.project_lookup`.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Row, delete, insert, select, update

from media.stream_keys import new_hash
from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.engine.database import Repository
from storage.catalog.events.announcement import announce
from storage.catalog.events.kinds import ProjectAddedEvent, ProjectDeletedEvent, ProjectEditedEvent
from storage.catalog.queries import counters, named_rows, project_lookup, snapshots, trash_rows
from storage.catalog.queries.trash_rows import DeletedRecord
from storage.catalog.records.common import Change, Page, ProjectRecord
from storage.catalog.schema.tables import projects, streams, tokens
from storage.catalog.streams import commands
from storage.errors import ProjectNotDeletable

_READER: Final = project_lookup.READER
_ORDER: Final = (projects.c.id.desc(),)


def _new_key() -> str:
    """Return a random key; it begins with a letter, so that it is never mistaken for a number."""
    while (key := new_hash())[0].isdigit():
        pass
    return key


async def add(connection: AsyncConnection, name: str, now_us: int) -> ProjectRecord:
    """Add a project, within the caller's transaction and without an event."""
    statement = insert(projects).values(
        key=_new_key(), name=name, created_us=now_us, updated_us=now_us
    )
    row = (await connection.execute(statement.returning(*_READER.columns))).one()
    await counters.begin(connection, row.id)
    return _READER.read(row)


class Projects(Repository):
    """The projects of a catalog; each method is one transaction."""

    async def add(self, name: str, change: Change) -> ProjectRecord:
        """Add a project."""
        async with self._database.writing() as connection:
            record = await add(connection, name, change.now_us)
            event = ProjectAddedEvent(project=record.id, name=name)
            await announce(connection, record.id, "", event, change=change)
            return record

    async def find(self, name: str) -> ProjectRecord | None:
        """Return the project whose number or key is `name`; None if there is none."""
        row = await self._database.row(*project_lookup.select_named(name))
        return None if row is None else _READER.read(row)

    async def find_page(self, *, reach: int | None = None, page: int = 1) -> Page[ProjectRecord]:
        """Return a page of projects, newest first; `reach` limits it to one project."""
        conditions: list[ColumnElement[bool]] = [project_lookup.IS_PRESENT]
        if reach is not None:
            conditions.append(projects.c.id == reach)
        async with self._database.reading() as connection:
            return await named_rows.page_of(
                connection,
                projects,
                conditions,
                _ORDER,
                _READER,
                total=None,
                page=page,
            )

    async def edit(
        self,
        project: int,
        change: Change,
        *,
        name: str | None = None,
        origins: Sequence[str] | None = None,
        check: Callable[[ProjectRecord], None] | None = None,
    ) -> ProjectRecord | None:
        """Change a project's name, its upload origins or both; None if there is no such project.

        `check` may raise to keep the project as it is; it gets the record before the change, locked
        against other changes.
        """
        values: dict[str, str] = {} if name is None else {"name": name}
        if origins is not None:
            values["origins"] = " ".join(origins)
        statement = (
            update(projects)
            .where(projects.c.id == project, project_lookup.IS_PRESENT)
            .values(version=projects.c.version + 1, updated_us=change.now_us, **values)
        )
        present = select(*_READER.columns)
        present = present.where(projects.c.id == project, project_lookup.IS_PRESENT)
        async with self._database.writing() as connection:
            if check is not None:
                before = await _READER.find(connection, present.with_for_update())
                if before is not None:
                    check(before)
            after = await _READER.find(connection, statement.returning(*_READER.columns))
            if after is None:
                return None
            event = ProjectEditedEvent(project=project, keys=list(values))
            await announce(connection, project, "", event, change=change)
            return after

    async def remove(self, project: int, change: Change) -> bool:
        """Delete a project and everything in it; return False if there is no such project.

        From now on neither is found. The rows remain until `catalog.removed_projects` removes them,
        a few at a time: removing 20,000 videos at once would hold SQLite's write lock, which every
        live stream needs, for seconds. If the change keeps what it deletes, the project is in the
        trash, with its tokens, and its rows are removed when it is removed from there.

        Raises:
            ProjectNotDeletable: It is the first project, or one of its streams is on air.
        """
        own_streams = select(streams).where(streams.c.project_id == project).order_by(streams.c.id)
        own_tokens = select(tokens.c.id).where(tokens.c.project_id == project)
        own_tokens = own_tokens.order_by(tokens.c.id).with_for_update()
        present = select(projects).where(projects.c.id == project, project_lookup.IS_PRESENT)
        async with self._database.writing() as connection:
            # Streams are locked before the project, so that none goes on air: a change to one holds
            # its row when it writes an event, which waits for the project.
            of_streams = (await connection.execute(own_streams.with_for_update())).all()
            # So are tokens: a request that adds something holds its token, too.
            await connection.execute(own_tokens)
            row = (await connection.execute(present.with_for_update())).one_or_none()
            if row is None:
                return False
            first = await project_lookup.find_first(connection)
            if first is None or project == first:
                raise ProjectNotDeletable("The first project cannot be deleted.")
            for stream in of_streams:
                if stream.live or stream.processing or stream.receiving_count:
                    raise ProjectNotDeletable("A stream of this project is on air: end it first.")
            # An encoder may have been admitted already, and not be on record yet.
            keeps = change.keep_us > 0
            hashes = [(row.id, row.hash) for row in of_streams]
            await commands.forget(connection, hashes, change.now_us, keeps_media=keeps)
            if keeps:
                await _keep(connection, row, change)
            await connection.execute(delete(tokens).where(tokens.c.project_id == project))
            statement = update(projects).where(projects.c.id == project)
            await connection.execute(statement.values(removed_us=change.now_us))
            # The project's own events are deleted with it: this one is the first project's.
            event = ProjectDeletedEvent(project=project, key=row.key, name=row.name)
            await announce(connection, first, "", event, change=change)
            return True


async def _keep(
    connection: AsyncConnection,
    row: Row[Any],  # Any: the row of a whole table has no static type
    change: Change,
) -> None:
    """Put a project into the trash; its tokens go there, so that none of them is valid."""
    deleted = DeletedRecord(
        kind="project",
        project=row.id,
        record=row.id,
        hash=row.key,
        title=row.name,
        size=0,
        rows=await snapshots.take(connection, [(tokens, tokens.c.project_id == row.id)]),
    )
    await trash_rows.add(connection, deleted, change)
