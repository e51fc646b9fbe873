"""Who gets mail of alerts, and of which kinds (`catalog.recipients`).

A scope is the number of a project, or that of the installation (`storage.catalog.records.alerts`).
"""

from collections.abc import Callable

import msgspec
from sqlalchemy import Select, delete, or_, select, update

from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.engine.database import Repository
from storage.catalog.events.announcement import announce
from storage.catalog.events.kinds import InstallationMailChangedEvent, ProjectMailChangedEvent
from storage.catalog.queries import project_lookup
from storage.catalog.queries.alerts import parse_settings
from storage.catalog.queries.named_rows import MAX_ID
from storage.catalog.records.alerts import INSTALLATION, AlertEdit, AlertSettings
from storage.catalog.records.common import Change
from storage.catalog.schema.alert_tables import alerts, mailings
from storage.catalog.schema.tables import installation, projects


class AlertRecipients(Repository):
    """The recipients of alerts; each method is one transaction."""

    async def find(self, scope: int) -> AlertSettings | None:
        """Return the settings of a scope; None if there is no such project."""
        if not INSTALLATION <= scope <= MAX_ID:
            return None
        async with self._database.reading() as connection:
            text = (await connection.execute(_select(scope))).scalar_one_or_none()
        return None if text is None else parse_settings(text)

    async def is_any(self) -> bool:
        """Return whether anyone is to get mail."""
        nobody = msgspec.json.encode(AlertSettings()).decode()
        of_projects = select(projects.c.mail).where(
            projects.c.mail != nobody, project_lookup.IS_PRESENT
        )
        async with self._database.reading() as connection:
            texts = [
                *(await connection.execute(select(installation.c.mail))).scalars(),
                *(await connection.execute(of_projects)).scalars(),
            ]
        return any(parse_settings(each).to for each in texts)

    async def change(
        self,
        scope: int,
        edit: AlertEdit,
        change: Change,
        *,
        check: Callable[[AlertSettings], None] | None = None,
    ) -> AlertSettings | None:
        """Change the settings of a scope, and return them; None if there is no such project.

        What waits for those who do not want it any more is dropped. `check` may raise to keep the
        settings as they are; it gets them as they are before, locked against other changes.
        """
        async with self._database.writing() as connection:
            query = _select(scope).with_for_update()
            text = (await connection.execute(query)).scalar_one_or_none()
            if text is None:
                return None
            before = parse_settings(text)
            if check is not None:
                check(before)
            after, keys = _changed(before, edit)
            if keys:
                await _write(connection, scope, after, keys, change)
            return after


def _select(scope: int) -> Select[str]:
    if scope == INSTALLATION:
        return select(installation.c.mail)
    return select(projects.c.mail).where(projects.c.id == scope, project_lookup.IS_PRESENT)


def _changed(before: AlertSettings, edit: AlertEdit) -> tuple[AlertSettings, list[str]]:
    """Return the settings after an edit, and the keys of those that differ."""
    keys = [kind.value for kind, on in edit.kinds.items() if on == (kind in before.off)]
    off = tuple(sorted({*before.off, *edit.kinds} - {k for k, on in edit.kinds.items() if on}))
    to = before.to if edit.to is msgspec.UNSET else edit.to
    return AlertSettings(to=to, off=off), [*(["to"] if to != before.to else []), *sorted(keys)]


async def _write(
    connection: AsyncConnection, scope: int, after: AlertSettings, keys: list[str], change: Change
) -> None:
    values = {"mail": msgspec.json.encode(after).decode()}
    if scope == INSTALLATION:
        project = await project_lookup.find_first(connection)
        await connection.execute(update(installation).values(values))
        event = InstallationMailChangedEvent(keys=keys)
    else:
        project = scope
        await connection.execute(update(projects).where(projects.c.id == scope).values(values))
        event = ProjectMailChangedEvent(keys=keys)
    for table in (alerts, mailings):
        unwanted = or_(
            table.c.address.not_in(after.to), table.c.kind.in_([each.value for each in after.off])
        )
        await connection.execute(delete(table).where(table.c.scope == scope, unwanted))
    if project is not None:
        await announce(connection, project, "", event, change=change)
