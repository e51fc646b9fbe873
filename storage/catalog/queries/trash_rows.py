"""The rows of the trash: what was deleted or replaced, and can be restored for some days.

A record is in the trash from the transaction that removes its own rows on. Its media stay where
they are, and belong to nothing that can be found: what may not touch them (cleanups, new names)
asks here. `storage.catalog.trash` restores, and removes for good. Each function runs within the
caller's transaction, which locks these rows after streams and videos, and before the project.
"""

from collections.abc import Collection, Sequence
from typing import Any, Final, Literal

import msgspec
from sqlalchemy import ColumnElement, Row, delete, insert, select

from media.stream_keys import PublicHash
from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.queries import snapshots
from storage.catalog.queries.snapshots import Snapshot
from storage.catalog.records.common import Change
from storage.catalog.schema.upload_tables import trash

Kind = Literal["stream", "video", "file", "project"]
_ROW: Final = trash.c


class DeletedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What goes to the trash: a record, or a file that a video had (see the table)."""

    kind: Kind
    project: int
    record: int
    hash: str
    title: str
    size: int
    rows: Snapshot
    source: str | None = None
    secret_digest: str | None = None


async def add(connection: AsyncConnection, deleted: DeletedRecord, change: Change) -> None:
    """Add what a change deletes, to be kept for as long as it says."""
    values: dict[str, object] = {
        **msgspec.structs.asdict(deleted),
        "rows": snapshots.encode(deleted.rows),
        "deleted_us": change.now_us,
        "until_us": change.now_us + change.keep_us,
    }
    values["project_id"] = values.pop("project")
    await connection.execute(insert(trash).values(values))


async def find_hashes(
    connection: AsyncConnection, hashes: Sequence[PublicHash], *kinds: Kind
) -> frozenset[PublicHash]:
    """Return those of some hashes that streams or videos in the trash have."""
    query = select(_ROW.hash).where(_ROW.hash.in_(hashes), _ROW.kind.in_(kinds))
    return frozenset((await connection.execute(query)).scalars())


def has_record(kind: Kind, number: ColumnElement[int]) -> ColumnElement[bool]:
    """Return the condition that the record with the number in a column is in the trash."""
    return select(_ROW.id).where(_ROW.kind == kind, _ROW.record == number).exists()


def files_of(video: int | ColumnElement[int]) -> ColumnElement[bool]:
    """Return the condition of the files that a video had."""
    return (_ROW.kind == "file") & (_ROW.record == video)


async def lock(
    connection: AsyncConnection, number: int
) -> Row[Any] | None:  # Any: the row of a whole table has no static type
    """Lock a row and return it; None if there is none (any more)."""
    query = select(trash).where(_ROW.id == number).with_for_update()
    return (await connection.execute(query)).one_or_none()


async def remove(connection: AsyncConnection, numbers: Collection[int]) -> None:
    """Remove rows that were restored, or are removed for good."""
    await connection.execute(delete(trash).where(_ROW.id.in_(numbers)))
