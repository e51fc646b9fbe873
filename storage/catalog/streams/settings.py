"""What the owner set for a stream, and for all streams of a project that say nothing themselves.

Kept as a JSON object of sections with the keys that were set and no others, so that a default which
is changed later reaches every stream that keeps to it. The picture of the slate is no setting of
that object but a column (`storage.catalog.streams.slates`). Each function runs within the caller's
transaction.
"""

import json
from typing import Any

import msgspec
from sqlalchemy import Table, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from storage.catalog.events import log as event_log
from storage.catalog.queries.named_rows import MOST
from storage.catalog.records.settings import (
    DETECT_SECONDS,
    KEEP_DAYS,
    MAX_SECONDS,
    MODES,
    RETURN_SECONDS,
    Chosen,
    Failover,
    FailoverChange,
    Recording,
    RecordingChange,
    SettingsChange,
    StreamSettings,
    in_force,
    read,
)
from storage.catalog.schema.tables import projects, streams
from storage.objects.addresses import slate_picture

__all__ = [
    "DETECT_SECONDS",
    "KEEP_DAYS",
    "MAX_SECONDS",
    "MODES",
    "RETURN_SECONDS",
    "Chosen",
    "Failover",
    "FailoverChange",
    "Recording",
    "RecordingChange",
    "SettingsChange",
    "StreamSettings",
    "change_project",
    "change_stream",
    "find_project",
    "find_stream",
    "in_force",
    "own_slate",
    "project_slate",
]


def _changed(settings: str, change: SettingsChange) -> tuple[str, list[str]]:
    """Return the settings after a change, and which of them are others now."""
    tree = json.loads(settings)
    keys: list[str] = []
    for section in SettingsChange.__struct_fields__:
        before: dict[str, object] = tree.get(section, {})
        after = dict(before)
        wanted = msgspec.structs.asdict(getattr(change, section))
        for key, value in wanted.items():
            if value is None:
                after.pop(key, None)
            elif value is not msgspec.UNSET:
                after[key] = value
        tree[section] = after
        keys += [f"{section}.{key}" for key in wanted if before.get(key) != after.get(key)]
    return json.dumps(tree), sorted(keys)


def _chosen(settings: str, slate: str | None) -> Chosen:
    known = read(settings)
    return Chosen(failover=known.failover, recording=known.recording, slate=slate)


def own_slate(hash_: str, name: str | None) -> str | None:
    """Return the address of a stream's own picture, where it has one."""
    return None if name is None else slate_picture(f"s-{hash_}", name)


def project_slate(key: str, name: str | None) -> str | None:
    """Return the address of a project's picture, where it has one."""
    return None if name is None else slate_picture(f"p-{key}", name)


async def find_stream(connection: AsyncConnection, stream: int) -> Chosen | None:
    """Return what was set for a stream; None where there is no such stream."""
    if not 0 < stream <= MOST:
        return None
    table = streams.c
    asked = select(table.settings, table.hash, table.slate).where(table.id == stream)
    found = (await connection.execute(asked)).one_or_none()
    if found is None:
        return None
    return _chosen(found.settings, own_slate(found.hash, found.slate))


async def find_project(connection: AsyncConnection, project: int) -> Chosen | None:
    """Return what was set for a project; None where there is no such project."""
    table = projects.c
    asked = select(table.settings, table.key, table.slate).where(table.id == project)
    found = (await connection.execute(asked)).one_or_none()
    if found is None:
        return None
    return _chosen(found.settings, project_slate(found.key, found.slate))


async def change_stream(
    connection: AsyncConnection, stream: int, change: SettingsChange, now_us: int, by: int | None
) -> Chosen | None:
    """Set what a stream's runs do; returns what is set then, None where there is no such stream."""
    if not 0 < stream <= MOST:
        return None
    table = streams.c
    asked = select(table.settings, table.project_id, table.hash, table.slate)
    row = (
        await connection.execute(asked.where(table.id == stream).with_for_update())
    ).one_or_none()
    if row is None:
        return None
    settings, keys = _changed(row.settings, change)
    if keys:
        await _write(connection, streams, stream, settings, now_us)
        facts = {"keys": keys}
        kind = "stream settings changed"
        await event_log.record(
            connection, row.project_id, kind, facts, now_us, subject=row.hash, by=by
        )
    return _chosen(settings, own_slate(row.hash, row.slate))


async def change_project(
    connection: AsyncConnection, project: int, change: SettingsChange, now_us: int, by: int | None
) -> Chosen | None:
    """Set the defaults of a project's streams; as `change_stream`."""
    table = projects.c
    asked = select(table.settings, table.key, table.slate).where(table.id == project)
    row = (await connection.execute(asked.with_for_update())).one_or_none()
    if row is None:
        return None
    settings, keys = _changed(row.settings, change)
    if keys:
        await _write(connection, projects, project, settings, now_us)
        facts = {"keys": keys}
        await event_log.record(
            connection, project, "project settings changed", facts, now_us, by=by
        )
    return _chosen(settings, project_slate(row.key, row.slate))


async def _write(
    connection: AsyncConnection, table: Table, number: int, settings: str, now_us: int
) -> None:
    values: dict[str, Any] = {  # Any: a column of any type
        "settings": settings,
        "updated_us": now_us,
        "version": table.c.version + 1,
    }
    await connection.execute(update(table).where(table.c.id == number).values(values))
