"""Add and read streams within the caller's transaction; `Streams` in `repository` opens one."""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Row, Select, insert, select

from media.countries import decode_countries
from media.ladder import SELECTABLE_BOXES
from media.stream_keys import StreamKey, new_hash
from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.events.announcement import announce
from storage.catalog.events.kinds import StreamAddedEvent
from storage.catalog.library import labels
from storage.catalog.queries import counters, named_rows, project_lookup
from storage.catalog.queries.digest import digest
from storage.catalog.queries.row_reader import RowReader
from storage.catalog.queries.text_search import searchable
from storage.catalog.records.common import BackupRecord, Change, ResolutionChoice, StreamRecord
from storage.catalog.schema.tables import (
    categories,
    players,
    stream_backups,
    stream_resolutions,
    streams,
)


def _labels(text: str) -> tuple[str, ...]:
    return tuple(label for label in text.split(",") if label)


_READER: Final = RowReader(
    StreamRecord,
    streams,
    parsers={"countries": decode_countries, "poster_labels": _labels},
)
# What the records of streams are made of.
COLUMNS: Final = (
    *_READER.columns,
    streams.c.hash,
    streams.c.secret,
    streams.c.image_width,
    streams.c.image_height,
)


async def add(
    connection: AsyncConnection, project: int, title: str, change: Change
) -> StreamRecord:
    """Add a stream with a fresh key, one backup and the standard resolutions.

    Raises:
        NoSuchProject: There is no such project.
    """
    await project_lookup.require(connection, project)
    key = StreamKey.new(new_hash())
    statement = insert(streams).values(
        project_id=project,
        hash=key.hash,
        secret=key.secret,
        secret_digest=digest(key.secret),
        title=title,
        **searchable("title", title),
        description="",
        created_us=change.now_us,
        updated_us=change.now_us,
        published=False,
        hidden=False,
        live=False,
        processing=False,
        receiving_count=0,
        no_audio=False,
        next_backup=2,
        version=1,
    )
    rows = (await connection.execute(statement.returning(*COLUMNS))).all()
    stream = rows[0].id
    await connection.execute(insert(stream_backups).values(stream_id=stream, number=1, live=False))
    await connection.execute(
        insert(stream_resolutions),
        [
            {"stream_id": stream, "number": box.number, "active": box.standard}
            for box in SELECTABLE_BOXES
        ],
    )
    counters.add(connection, project, "streams", 1)
    event = StreamAddedEvent(stream=stream, title=title)
    await announce(connection, project, key.hash, event, change=change)
    (record,) = await to_records(connection, rows)
    return record


async def find(connection: AsyncConnection, stream: int) -> StreamRecord | None:
    """Return the stream with that number."""
    if not 0 < stream <= named_rows.MAX_ID:
        return None
    is_present = project_lookup.is_of_present(streams.c.project_id)
    return await _first(connection, select(*COLUMNS).where(streams.c.id == stream, is_present))


async def find_oldest(connection: AsyncConnection, project: int) -> StreamRecord | None:
    """Return the oldest stream that a project has."""
    query = select(*COLUMNS).where(streams.c.project_id == project)
    return await _first(connection, query.order_by(streams.c.id).limit(1))


async def _first(connection: AsyncConnection, statement: Select[Any]) -> StreamRecord | None:
    rows = (await connection.execute(statement)).all()
    return (await to_records(connection, rows))[0] if rows else None


async def to_records(
    connection: AsyncConnection,
    rows: Sequence[Row[Any]],  # Any: columns of every type
) -> tuple[StreamRecord, ...]:
    """Return the records of rows of `COLUMNS`, in the same order, with their labels and backups."""
    numbers = [row.id for row in rows]
    backups: dict[int, list[Row[int, int, int, bool]]] = {number: [] for number in numbers}
    query = select(
        stream_backups.c.stream_id,
        stream_backups.c.id,
        stream_backups.c.number,
        stream_backups.c.live,
    ).where(stream_backups.c.stream_id.in_(numbers))
    for backup in await connection.execute(query.order_by(stream_backups.c.number)):
        backups[backup[0]].append(backup)
    choices: dict[int, list[ResolutionChoice]] = {number: [] for number in numbers}
    tags = await labels.tags_of(connection, "stream", numbers)
    category = await named_rows.find_named(connection, categories, (row.category for row in rows))
    player = await named_rows.find_named(connection, players, (row.player for row in rows))
    table = stream_resolutions.c
    active_or_not = select(table.stream_id, table.number, table.active)
    for stream, number, active in await connection.execute(
        active_or_not.where(table.stream_id.in_(numbers)).order_by(table.number)
    ):
        choices[stream].append(ResolutionChoice(number=number, active=active))
    return tuple(
        _READER.read(
            row,
            key=StreamKey(hash=row.hash, secret=row.secret),
            backups=tuple(
                BackupRecord(id=number, number=slot, live=live, on_air=slot == row.on_air)
                for _, number, slot, live in backups[row.id]
            ),
            resolutions=tuple(choices[row.id]),
            picture=(row.image_width, row.image_height),
            tags=tags[row.id],
            category=category.get(row.category),
            player=player.get(row.player),
        )
        for row in rows
    )
