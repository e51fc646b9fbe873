"""The files that a project had: their minutes count for its quota after they are gone, too.

Without that, who deletes or replaces a video after it was transcoded could have any number of
minutes transcoded. A row is the length of one file, kept for `PAST_DAYS` after it was added. The
functions run within the caller's transaction.
"""

from typing import Any, Final

from sqlalchemy import Row, delete, select, tuple_

from media.ticks import DAY_US
from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.queries.insert_missing import insert_missing
from storage.catalog.schema.upload_tables import past_files

PAST_DAYS: Final = 30
_PAST: Final = past_files.c
_AT_ONCE: Final = 100  # more than one comes at a time, so old ones do not add up


async def record(
    connection: AsyncConnection,
    row: Row[Any],  # Any: the row of a whole table has no static type
    now_us: int,
) -> None:
    """Record the file of a video's row, which is locked, before another is there or none.

    A recording has no file. One whose length is not known was not transcoded.
    """
    if row.source is None or not row.length_us:
        return
    values = {
        "hash": row.hash,
        "generation": row.generation,
        "project_id": row.project_id,
        "added_us": row.created_us if row.uploaded_us is None else row.uploaded_us,
        "length_us": row.length_us,
    }
    await connection.execute(insert_missing(connection, past_files, values))
    await _forget(connection, row.project_id, now_us - PAST_DAYS * DAY_US)


async def _forget(connection: AsyncConnection, project: int, until_us: int) -> None:
    """Remove rows that do not count any more, but for those that another transaction removes."""
    key = _PAST.hash, _PAST.generation
    old = select(*key).where(_PAST.project_id == project, _PAST.added_us < until_us)
    some = old.order_by(*key).limit(_AT_ONCE).with_for_update(skip_locked=True)
    keys = [tuple(each) for each in await connection.execute(some)]
    if keys:
        await connection.execute(delete(past_files).where(tuple_(*key).in_(keys)))
