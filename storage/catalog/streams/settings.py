"""What owners set for a stream, and for a project as the default of its streams.

The settings are stored as a JSON object that holds only the keys that were set, some of them in
sections, so that a default which changes later reaches every stream without a setting of its own.
The slate is a column beside it: the name of a picture, which is an object at an address made of its
owner and that name (`storage.objects.addresses.slate_picture`). Names are never reused, so an
address always shows the same picture. The values are `storage.catalog.records.settings`.
"""

import json
from collections.abc import Callable
from typing import Any, Final

import msgspec
from sqlalchemy import ColumnElement, Row, Select, Table, select, update

from media.stream_events import OwnerEvent
from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.engine.database import Database, Repository
from storage.catalog.events.announcement import announce
from storage.catalog.events.kinds import (
    ProjectSettingsChangedEvent,
    ProjectSlateChangedEvent,
    StreamSettingsChangedEvent,
    StreamSlateChangedEvent,
)
from storage.catalog.queries import project_lookup, removals
from storage.catalog.queries.named_rows import MAX_ID
from storage.catalog.records.common import Change
from storage.catalog.records.settings import (
    OwnerSettings,
    SettingsChange,
    SlateChange,
    parse_settings,
)
from storage.catalog.schema.tables import projects, streams
from storage.objects.addresses import slate_picture

Check = Callable[[OwnerSettings], None]


def _changed(settings: str, change: SettingsChange) -> tuple[str, list[str]]:
    """Return the settings after a change, and the sorted keys of those that differ."""
    tree: dict[str, Any] = json.loads(settings)  # Any: JSON
    keys = _apply(change, tree)
    return json.dumps(tree), sorted(keys)


def _apply(change: msgspec.Struct, tree: dict[str, Any]) -> list[str]:
    """Change a tree of settings, or a section of it; return the keys of those that differ."""
    keys: list[str] = []
    for key in change.__struct_fields__:
        wanted, before = getattr(change, key), tree.get(key)
        if isinstance(wanted, msgspec.Struct):
            keys += [f"{key}.{inner}" for inner in _apply(wanted, tree.setdefault(key, {}))]
        elif wanted is not msgspec.UNSET and wanted != before:
            keys.append(key)
            if wanted is None:
                del tree[key]
            else:
                tree[key] = wanted
    return keys


def _owner_settings(settings: str, slate: str | None) -> OwnerSettings:
    return OwnerSettings(**msgspec.structs.asdict(parse_settings(settings)), slate=slate)


def stream_slate(hash_: str, name: str | None) -> str | None:
    """Return the address of a stream's own slate; None if it has none."""
    return None if name is None else slate_picture(f"s-{hash_}", name)


def project_slate(key: str, name: str | None) -> str | None:
    """Return the address of a project's slate; None if it has none."""
    return None if name is None else slate_picture(f"p-{key}", name)


class SettingsTable(msgspec.Struct, frozen=True, kw_only=True):
    """The table whose rows have settings.

    `settings_changed` and `slate_changed` return the events of a change, the second one for the
    number of a row and whether it has a picture now. `name` is the
    hash or key that the address of a slate is made of, by `slate`; `is_present` is the condition of
    a row that is not of a deleted project.
    """

    table: Table
    name: ColumnElement[str]
    project: ColumnElement[int]
    is_present: ColumnElement[bool]
    slate: Callable[[str, str | None], str | None]
    settings_changed: Callable[[list[str]], OwnerEvent]
    slate_changed: Callable[[int, bool], OwnerEvent]


OF_STREAMS: Final = SettingsTable(
    table=streams,
    name=streams.c.hash,
    project=streams.c.project_id,
    is_present=project_lookup.is_of_present(streams.c.project_id),
    slate=stream_slate,
    settings_changed=lambda keys: StreamSettingsChangedEvent(keys=keys),
    slate_changed=lambda stream, picture: StreamSlateChangedEvent(stream=stream, picture=picture),
)
OF_PROJECTS: Final = SettingsTable(
    table=projects,
    name=projects.c.key,
    project=projects.c.id,
    is_present=project_lookup.IS_PRESENT,
    slate=project_slate,
    settings_changed=lambda keys: ProjectSettingsChangedEvent(keys=keys),
    slate_changed=lambda _, picture: ProjectSlateChangedEvent(picture=picture),
)


class SettingsRepository(Repository):
    """The settings of streams (`catalog.stream_settings`), or of projects as the defaults of their
    streams (`catalog.project_settings`); each method is one transaction.

    None is returned if there is no such stream or project. `check` may raise to keep the settings
    as they are; it gets them as they are before the change, locked against other changes.
    """

    def __init__(self, database: Database, of: SettingsTable) -> None:
        super().__init__(database)
        self._of = of

    async def find(self, number: int) -> OwnerSettings | None:
        """Return what is set for a stream or project."""
        if not 0 < number <= MAX_ID:
            return None
        async with self._database.reading() as connection:
            row = (await connection.execute(self._select(number))).one_or_none()
        return None if row is None else self._settings(row)

    async def change(
        self, number: int, edit: SettingsChange, change: Change, *, check: Check | None = None
    ) -> OwnerSettings | None:
        """Change what runs do; return what is set afterwards."""
        async with self._database.writing() as connection:
            row = await self._lock(connection, number)
            if row is None:
                return None
            if check is not None:
                check(self._settings(row))
            settings, keys = _changed(row.settings, edit)
            if keys:
                await self._update(connection, number, {"settings": settings}, change.now_us)
                await self._announce(connection, row, self._of.settings_changed(keys), change)
            return _owner_settings(settings, self._of.slate(row.name, row.slate))

    async def set_slate(self, number: int, name: str | None, change: Change) -> SlateChange | None:
        """Make the picture of that name the slate; None removes it.

        A stream without a slate shows that of its project. The picture before is to be deleted.
        """
        async with self._database.writing() as connection:
            row = await self._lock(connection, number)
            if row is None:
                return None
            if row.slate != name:
                await self._update(connection, number, {"slate": name}, change.now_us)
                event = self._of.slate_changed(number, name is not None)
                await self._announce(connection, row, event, change)
            before, after = self._of.slate(row.name, row.slate), self._of.slate(row.name, name)
            unused = None if before == after else before
            if unused is not None:
                await removals.record(connection, objects=[unused])
            return SlateChange(settings=_owner_settings(row.settings, after), unused=unused)

    def _select(self, number: int) -> Select[str, str | None, str, int]:
        table, of = self._of.table.c, self._of
        columns = (table.settings, table.slate, of.name.label("name"), of.project.label("project"))
        return select(*columns).where(table.id == number)

    async def _lock(
        self, connection: AsyncConnection, number: int
    ) -> Row[str, str | None, str, int] | None:
        if not 0 < number <= MAX_ID:
            return None
        statement = self._select(number).where(self._of.is_present).with_for_update()
        return (await connection.execute(statement)).one_or_none()

    def _settings(self, row: Row[str, str | None, str, int]) -> OwnerSettings:
        return _owner_settings(row.settings, self._of.slate(row.name, row.slate))

    async def _update(
        self, connection: AsyncConnection, number: int, values: dict[str, Any], now_us: int
    ) -> None:  # Any: a column of any type
        table = self._of.table
        changed = {**values, "updated_us": now_us, "version": table.c.version + 1}
        await connection.execute(update(table).where(table.c.id == number).values(changed))

    async def _announce(
        self,
        connection: AsyncConnection,
        row: Row[str, str | None, str, int],
        event: OwnerEvent,
        change: Change,
    ) -> None:
        subject = row.name if self._of is OF_STREAMS else ""
        await announce(connection, row.project, subject, event, change=change)
