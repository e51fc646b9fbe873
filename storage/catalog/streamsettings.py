"""What the owner set for a stream, and for all streams of a project that say nothing themselves.

Kept as a JSON object with the keys that were set and no others, so that a default which is changed
later reaches every stream that keeps to it. Each function runs within the caller's transaction.
"""

import json
from typing import Final

import msgspec
from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from storage.catalog import events
from storage.catalog.named import MOST
from storage.catalog.tables import projects, streams

__all__ = [
    "MAX_SECONDS",
    "Failover",
    "FailoverChange",
    "change_project",
    "change_stream",
    "find_project",
    "find_stream",
    "in_force",
]

# A day: a run that waits longer for its encoder is one that nobody waits for.
MAX_SECONDS: Final = 86_400.0
_FAILOVER: Final = "failover"


class Failover(msgspec.Struct, frozen=True, kw_only=True):
    """How long a run waits for its encoder, in seconds; None: what stands behind it says.

    `goodbye_seconds` is for an encoder that took its leave, `reconnect_seconds` for one that was
    lost.
    """

    reconnect_seconds: float | None = None
    goodbye_seconds: float | None = None


class FailoverChange(msgspec.Struct, frozen=True, kw_only=True):
    """What is to change; None takes back what was set."""

    reconnect_seconds: float | msgspec.UnsetType | None = msgspec.UNSET
    goodbye_seconds: float | msgspec.UnsetType | None = msgspec.UNSET


def _failover(settings: str) -> Failover:
    return msgspec.convert(json.loads(settings).get(_FAILOVER, {}), Failover)


def in_force(settings: str, defaults: str) -> Failover:
    """Return what holds for a stream: its own settings before those of its project."""
    own, behind = _failover(settings), _failover(defaults)
    return Failover(
        reconnect_seconds=_first(own.reconnect_seconds, behind.reconnect_seconds),
        goodbye_seconds=_first(own.goodbye_seconds, behind.goodbye_seconds),
    )


def _first(own: float | None, behind: float | None) -> float | None:
    return behind if own is None else own


def _changed(settings: str, change: FailoverChange) -> tuple[str, list[str]]:
    """Return the settings after a change, and which of them are others now."""
    tree = json.loads(settings)
    before: dict[str, float] = tree.get(_FAILOVER, {})
    after = dict(before)
    for field in msgspec.structs.fields(FailoverChange):
        wanted: float | msgspec.UnsetType | None = getattr(change, field.name)
        if wanted is None:
            after.pop(field.name, None)
        elif wanted is not msgspec.UNSET:
            after[field.name] = wanted
    tree[_FAILOVER] = after
    keys = [key for key in (*before, *after) if before.get(key) != after.get(key)]
    return json.dumps(tree), sorted({f"{_FAILOVER}.{key}" for key in keys})


async def find_stream(connection: AsyncConnection, stream: int) -> Failover | None:
    """Return what was set for a stream; None where there is no such stream."""
    if not 0 < stream <= MOST:
        return None
    asked = select(streams.c.settings).where(streams.c.id == stream)
    found = (await connection.execute(asked)).scalar_one_or_none()
    return None if found is None else _failover(found)


async def find_project(connection: AsyncConnection, project: int) -> Failover | None:
    """Return what was set for a project; None where there is no such project."""
    asked = select(projects.c.settings).where(projects.c.id == project)
    found = (await connection.execute(asked)).scalar_one_or_none()
    return None if found is None else _failover(found)


async def change_stream(
    connection: AsyncConnection, stream: int, change: FailoverChange, now_us: int, by: int | None
) -> Failover | None:
    """Set what a stream's runs do; returns what is set then, None where there is no such stream."""
    if not 0 < stream <= MOST:
        return None
    asked = select(streams.c.settings, streams.c.project_id, streams.c.hash)
    row = (
        await connection.execute(asked.where(streams.c.id == stream).with_for_update())
    ).one_or_none()
    if row is None:
        return None
    settings, keys = _changed(row.settings, change)
    if keys:
        await connection.execute(
            update(streams)
            .where(streams.c.id == stream)
            .values(settings=settings, updated_us=now_us, version=streams.c.version + 1)
        )
        facts = {"keys": keys}
        await events.record(
            connection,
            row.project_id,
            "stream settings changed",
            facts,
            now_us,
            subject=row.hash,
            by=by,
        )
    return _failover(settings)


async def change_project(
    connection: AsyncConnection, project: int, change: FailoverChange, now_us: int, by: int | None
) -> Failover | None:
    """Set the defaults of a project's streams; as `change_stream`."""
    asked = select(projects.c.settings).where(projects.c.id == project).with_for_update()
    before = (await connection.execute(asked)).scalar_one_or_none()
    if before is None:
        return None
    settings, keys = _changed(before, change)
    if keys:
        await connection.execute(
            update(projects)
            .where(projects.c.id == project)
            .values(settings=settings, updated_us=now_us, version=projects.c.version + 1)
        )
        facts = {"keys": keys}
        await events.record(connection, project, "project settings changed", facts, now_us, by=by)
    return _failover(settings)
