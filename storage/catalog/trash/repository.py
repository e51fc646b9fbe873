"""The trash of projects, and of the installation: listed, restored, removed for good.

A project's trash has its streams, its videos and the files that its videos had. What a deleted
project has is not listed: the project is in the trash as a whole, beside other projects, and its
own trash is there again once it is restored.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec
from sqlalchemy import ColumnElement, Row, func, select

from media.stream_events import OwnerEvent
from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.engine.database import Repository
from storage.catalog.events.announcement import announce
from storage.catalog.events.kinds import (
    ProjectRemovedForGoodEvent,
    StreamRemovedForGoodEvent,
    VideoFileRemovedForGoodEvent,
    VideoRemovedForGoodEvent,
)
from storage.catalog.queries import named_rows, project_lookup, removals, trash_rows
from storage.catalog.queries.row_reader import RowReader
from storage.catalog.queries.trash_rows import Kind
from storage.catalog.records.common import Change, Page
from storage.catalog.schema.upload_tables import trash
from storage.catalog.trash import restoring

PAGE_SIZE: Final = 30
# Removed in one transaction, which holds the lock of writers of SQLite for some milliseconds.
_AT_ONCE: Final = 50
_ROW: Final = trash.c
_OF_PROJECT: Final = _ROW.kind != "project"
_IN_TIME: Final = project_lookup.is_of_present(_ROW.project_id) | (_ROW.kind == "project")


class TrashRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What can be restored until `until_us`; `record` is its number outside, `size` in bytes.

    A file has the number, the hash and the title of its video.
    """

    id: int
    project: int
    kind: Kind
    record: int
    hash: str
    title: str
    size: int
    deleted_us: int
    until_us: int


_READER: Final = RowReader(TrashRecord, trash)


class Trash(Repository):
    """The trash of a catalog; each method is one transaction."""

    async def find_page(self, project: int, page: int, now_us: int) -> Page[TrashRecord]:
        """Return a page of what a project can restore, what was deleted last first."""
        return await self._find_page(page, now_us, _OF_PROJECT & (_ROW.project_id == project))

    async def find_projects(self, page: int, now_us: int) -> Page[TrashRecord]:
        """Return a page of the deleted projects that can be restored."""
        return await self._find_page(page, now_us, _ROW.kind == "project")

    async def _find_page(
        self, page: int, now_us: int, which: ColumnElement[bool]
    ) -> Page[TrashRecord]:
        conditions = (which, _ROW.until_us > now_us)
        async with self._database.reading() as connection:
            return await named_rows.page_of(
                connection, trash, conditions, (_ROW.id.desc(),), _READER,
                total=None, page=page, size=PAGE_SIZE,
            )  # fmt: skip

    async def find(self, number: int, now_us: int) -> TrashRecord | None:
        """Return what can be restored by that number; nothing that a deleted project has."""
        if not 0 < number <= named_rows.MAX_ID:
            return None
        query = select(*_READER.columns).where(_ROW.id == number, _ROW.until_us > now_us, _IN_TIME)
        async with self._database.reading() as connection:
            return await _READER.find(connection, query)

    async def restore(self, number: int, change: Change) -> TrashRecord | None:
        """Restore a stream, a video or a project; None if it is not in the trash (any more).

        A file is restored by `catalog.former_files`.

        Raises:
            NoSuchProject: its project was deleted meanwhile.
        """
        async with self._database.writing() as connection:
            row = await trash_rows.lock(connection, number)
            if row is None or row.kind == "file" or row.until_us <= change.now_us:
                return None
            await trash_rows.remove(connection, [number])
            match row.kind:
                case "stream":
                    await restoring.restore_stream(connection, row, change)
                case "video":
                    await restoring.restore_video(connection, row, change)
                case _:
                    await restoring.restore_project(connection, row, change)
            return _record(row)

    async def remove(self, number: int, change: Change) -> TrashRecord | None:
        """Remove something for good: its media are deleted soon; None if it is not in the trash.

        A project is removed by `catalog.removed_projects` then.
        """
        async with self._database.writing() as connection:
            row = await trash_rows.lock(connection, number)
            if row is None:
                return None
            await _remove(connection, row, change, expired=False)
            return _record(row)

    async def expire(self, now_us: int) -> int:
        """Remove some of that whose time is over; return how many, 0 once there is none.

        What a clock ends goes to the trash of the store, as all media do that no row names.
        """
        expired = select(trash).where(_ROW.until_us <= now_us).order_by(_ROW.until_us, _ROW.id)
        async with self._database.writing() as connection:
            locked = expired.limit(_AT_ONCE).with_for_update(skip_locked=True)
            rows = (await connection.execute(locked)).all()
            for row in sorted(rows, key=lambda each: each.project_id):
                await _remove(connection, row, Change(now_us), expired=True)
            return len(rows)

    async def count(self) -> int:
        """Return how much there is in the trash of all projects."""
        async with self._database.reading_all() as connection:
            return (await connection.execute(select(func.count()).select_from(trash))).scalar_one()


def _record(row: Row[Any]) -> TrashRecord:  # Any: the row of a whole table has no static type
    return _READER.read([getattr(row, column.name) for column in _COLUMNS])


async def _remove(
    connection: AsyncConnection,
    row: Row[Any],  # Any: as above
    change: Change,
    *,
    expired: bool,
) -> None:
    await trash_rows.remove(connection, [row.id])
    match row.kind:
        case "stream":
            await removals.of_streams(connection, [row.hash], to_trash=expired)
        case "video":
            await removals.of_videos(connection, [row.hash], to_trash=expired)
        case "file":
            await removals.record(connection, objects=[row.source], to_trash=expired)
        case _:
            pass
    project: int | None = row.project_id
    if row.kind == "project":  # its own events are removed with it
        project = await project_lookup.find_first(connection)
    if project is not None:
        event = _EVENTS[row.kind](row, expired)
        subject = "" if row.kind == "project" else row.hash
        await announce(connection, project, subject, event, change=change)


_COLUMNS: Final = tuple(
    _ROW[name if name in _ROW else f"{name}_id"] for name in TrashRecord.__struct_fields__
)
_EVENTS: Final[dict[str, Callable[[Row[Any], bool], OwnerEvent]]] = {  # Any: as above
    "stream": lambda row, expired: StreamRemovedForGoodEvent(
        stream=row.record, title=row.title, expired=expired
    ),
    "video": lambda row, expired: VideoRemovedForGoodEvent(title=row.title, expired=expired),
    "file": lambda row, expired: VideoFileRemovedForGoodEvent(size=row.size, expired=expired),
    "project": lambda row, expired: ProjectRemovedForGoodEvent(
        project=row.record, key=row.hash, name=row.title, expired=expired
    ),
}
