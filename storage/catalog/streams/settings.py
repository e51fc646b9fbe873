"""What owners set for a stream, and for a project as the default of its streams.

The settings are stored as a JSON object that holds only the keys that were set, some of them in
sections, so that a default which changes later reaches every stream without a setting of its own.
The slate is a column beside it: the name of a picture, which is an object at an address made of its
owner and that name (`storage.objects.addresses.slate_picture`). Names are never reused, so an
address always shows the same picture. The values are `storage.catalog.records.settings`.
"""

import json
from collections.abc import Callable
from typing import Any

import msgspec
from sqlalchemy import Row, Table, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from media.stream_keys import PublicHash
from storage.catalog.engine.database import Database
from storage.catalog.events import log as event_log
from storage.catalog.queries import project_lookup
from storage.catalog.queries.named_rows import MAX_ID
from storage.catalog.records.settings import (
    OwnerSettings,
    SettingsChange,
    SlateChange,
    parse_settings,
)
from storage.catalog.schema.tables import projects, streams
from storage.objects.addresses import slate_picture

__all__ = ["SettingsRepository", "project_slate", "stream_slate"]

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


class SettingsRepository:
    """The settings of streams and projects (`catalog.settings`); each method is one transaction.

    `by` is the number of the token that made the request. None is returned if there is no such
    stream or project. `check` may raise to keep the settings as they are; it gets them as they are
    before the change, locked against other changes.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find_stream(self, stream: int) -> OwnerSettings | None:
        """Return what is set for a stream."""
        if not 0 < stream <= MAX_ID:
            return None
        table = streams.c
        statement = select(table.settings, table.hash, table.slate).where(table.id == stream)
        async with self._database.reading() as connection:
            row = (await connection.execute(statement)).one_or_none()
        if row is None:
            return None
        return _owner_settings(row.settings, stream_slate(row.hash, row.slate))

    async def find_project(self, project: int) -> OwnerSettings | None:
        """Return what is set for a project's streams."""
        table = projects.c
        statement = select(table.settings, table.key, table.slate).where(table.id == project)
        async with self._database.reading() as connection:
            row = (await connection.execute(statement)).one_or_none()
        if row is None:
            return None
        return _owner_settings(row.settings, project_slate(row.key, row.slate))

    async def change_stream(
        self,
        stream: int,
        change: SettingsChange,
        *,
        now_us: int,
        by: int | None,
        check: Check | None = None,
    ) -> OwnerSettings | None:
        """Change what a stream's runs do; returns what is set afterwards."""
        async with self._database.writing() as connection:
            row = await _lock_stream(connection, stream)
            if row is None:
                return None
            if check is not None:
                check(_owner_settings(row.settings, stream_slate(row.hash, row.slate)))
            settings, keys = _changed(row.settings, change)
            if keys:
                await _update(connection, streams, stream, {"settings": settings}, now_us)
                await event_log.record(
                    connection,
                    row.project_id,
                    "stream settings changed",
                    {"keys": keys},
                    now_us,
                    subject=row.hash,
                    by=by,
                )
            return _owner_settings(settings, stream_slate(row.hash, row.slate))

    async def change_project(
        self,
        project: int,
        change: SettingsChange,
        *,
        now_us: int,
        by: int | None,
        check: Check | None = None,
    ) -> OwnerSettings | None:
        """Change the defaults of a project's streams; returns what is set afterwards."""
        async with self._database.writing() as connection:
            row = await _lock_project(connection, project)
            if row is None:
                return None
            if check is not None:
                check(_owner_settings(row.settings, project_slate(row.key, row.slate)))
            settings, keys = _changed(row.settings, change)
            if keys:
                await _update(connection, projects, project, {"settings": settings}, now_us)
                facts = {"keys": keys}
                kind = "project settings changed"
                await event_log.record(connection, project, kind, facts, now_us, by=by)
            return _owner_settings(settings, project_slate(row.key, row.slate))

    async def set_stream_slate(
        self, stream: int, name: str | None, *, now_us: int, by: int | None
    ) -> SlateChange | None:
        """Make the picture of that name a stream's slate; None removes its own slate."""
        async with self._database.writing() as connection:
            row = await _lock_stream(connection, stream)
            if row is None:
                return None
            if row.slate != name:
                await _update(connection, streams, stream, {"slate": name}, now_us)
                await event_log.record(
                    connection,
                    row.project_id,
                    "stream slate changed",
                    {"stream": stream, "picture": name is not None},
                    now_us,
                    subject=row.hash,
                    by=by,
                )
            before, after = stream_slate(row.hash, row.slate), stream_slate(row.hash, name)
            return _slate_change(row.settings, before, after)

    async def set_project_slate(
        self, project: int, name: str | None, *, now_us: int, by: int | None
    ) -> SlateChange | None:
        """Make a picture the slate of a project's streams that have none of their own."""
        async with self._database.writing() as connection:
            row = await _lock_project(connection, project)
            if row is None:
                return None
            if row.slate != name:
                await _update(connection, projects, project, {"slate": name}, now_us)
                facts = {"picture": name is not None}
                kind = "project slate changed"
                await event_log.record(connection, project, kind, facts, now_us, by=by)
            before, after = project_slate(row.key, row.slate), project_slate(row.key, name)
            return _slate_change(row.settings, before, after)


def _slate_change(settings: str, before: str | None, after: str | None) -> SlateChange:
    unused = None if before == after else before
    return SlateChange(settings=_owner_settings(settings, after), unused=unused)


async def _lock_stream(
    connection: AsyncConnection, stream: int
) -> Row[str, int, PublicHash, str | None] | None:
    if not 0 < stream <= MAX_ID:
        return None
    table = streams.c
    statement = select(table.settings, table.project_id, table.hash, table.slate)
    present = project_lookup.is_of_present(table.project_id)
    locked = statement.where(table.id == stream, present).with_for_update()
    return (await connection.execute(locked)).one_or_none()


async def _lock_project(
    connection: AsyncConnection, project: int
) -> Row[str, str, str | None] | None:
    table = projects.c
    statement = select(table.settings, table.key, table.slate)
    statement = statement.where(table.id == project, project_lookup.IS_PRESENT)
    return (await connection.execute(statement.with_for_update())).one_or_none()


async def _update(
    connection: AsyncConnection, table: Table, number: int, values: dict[str, Any], now_us: int
) -> None:  # Any: a column of any type
    changed = {**values, "updated_us": now_us, "version": table.c.version + 1}
    await connection.execute(update(table).where(table.c.id == number).values(changed))
