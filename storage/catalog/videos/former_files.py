"""The file that a video had before its present one (`catalog.former_files`), for seven days.

`storage.catalog.videos.replacement` records it. A video has one at most: with the next replacement
the file before goes. Its object stays at its address until the row is removed.
"""

from typing import Final

import msgspec
from sqlalchemy import delete, select

from media.ticks import DAY_US
from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.engine.database import Repository
from storage.catalog.queries import removals
from storage.catalog.queries.due import Due, count_due
from storage.catalog.queries.row_reader import RowReader
from storage.catalog.records.common import Change
from storage.catalog.records.videos import VideoFile, WholeVideo
from storage.catalog.schema.tables import videos
from storage.catalog.schema.upload_tables import former_files
from storage.catalog.videos import replacement
from storage.errors import FileChanged, NoFormerFile

FORMER_DAYS: Final = 7  # a mistake of a Friday is noticed in the week after
_ROW: Final = former_files.c
_FILE: Final = RowReader(VideoFile, former_files)


class FormerFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that can be taken back until `until_us`."""

    file: VideoFile
    replaced_us: int

    @property
    def until_us(self) -> int:
        """The time from which on it is deleted."""
        return self.replaced_us + FORMER_DAYS * DAY_US


class FormerFiles(Repository):
    """Former files of videos; each method is one transaction."""

    async def find(self, video: int, now_us: int) -> FormerFile | None:
        """Return the file that a video can have back; None if there is none."""
        async with self._database.reading() as connection:
            return await _find(connection, video, now_us)

    async def take_back(
        self, video: int, change: Change, *, uploaded_us: int | None = None
    ) -> WholeVideo | None:
        """Give a video its former file again, as a replacement; the present one is the former then.

        With `uploaded_us`, only if the present file came at that time: who saw another one does not
        mean this one. Returns None if there is no such video.

        Raises:
            NoFormerFile: there is none, or it has been replaced for too long.
            FileChanged: the present file is another one.
        """
        async with self._database.writing() as connection:
            if await replacement.lock(connection, video) is None:
                return None
            if uploaded_us is not None:
                came = select(videos.c.uploaded_us).where(videos.c.id == video)
                if (await connection.execute(came)).scalar_one() != uploaded_us:
                    raise FileChanged(video)
            former = await _find(connection, video, change.now_us, locked=True)
            if former is None:
                raise NoFormerFile(video)
            replaced = await replacement.replace(
                connection, video, former.file, change, taken_back=True
            )
            return None if replaced is None else replaced[0]

    async def count_expired(self, now_us: int) -> Due:
        """Return of how many former files the time is over."""
        replaced = _ROW.replaced_us
        async with self._database.reading_all() as connection:
            return await count_due(connection, replaced <= _oldest(now_us), replaced.is_not(None))

    async def expire(self, now_us: int) -> str | None:
        """Forget the former file that was replaced first, if its time is over; return its address.

        The caller moves it to the trash; `storage.cleanup.removals` does if the caller cannot.
        None: there is none.
        """
        async with self._database.writing() as connection:
            expired = select(_ROW.video_id, _ROW.source).where(_ROW.replaced_us <= _oldest(now_us))
            oldest = expired.order_by(_ROW.replaced_us, _ROW.video_id).limit(1)
            # Locked: another process may do the same at this moment.
            row = (await connection.execute(oldest.with_for_update(skip_locked=True))).one_or_none()
            if row is None:
                return None
            await connection.execute(
                delete(former_files).where(_ROW.video_id == row.video_id, _ROW.source == row.source)
            )
            await removals.record(connection, objects=[row.source], to_trash=True)
            return str(row.source)


async def _find(
    connection: AsyncConnection, video: int, now_us: int, *, locked: bool = False
) -> FormerFile | None:
    query = select(*_FILE.columns, _ROW.replaced_us)
    query = query.where(_ROW.video_id == video, _ROW.replaced_us > _oldest(now_us))
    row = (await connection.execute(query.with_for_update() if locked else query)).one_or_none()
    return None if row is None else FormerFile(file=_FILE.read(row), replaced_us=row.replaced_us)


def _oldest(now_us: int) -> int:
    return now_us - FORMER_DAYS * DAY_US
