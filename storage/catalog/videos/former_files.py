"""The files that videos had before their present ones (`catalog.former_files`).

`storage.catalog.videos.replacement` puts them into the trash, from which any can be restored. The
newest is the one that a video can have back without its number there. Its object stays at its
address until the row is removed.
"""

from typing import Any, Final

import msgspec
from sqlalchemy import Row, select

from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.engine.database import Repository
from storage.catalog.queries import snapshots, trash_rows
from storage.catalog.records.common import Change
from storage.catalog.records.videos import VideoFile, WholeVideo
from storage.catalog.schema.tables import videos
from storage.catalog.schema.upload_tables import trash
from storage.catalog.videos import replacement
from storage.errors import FileChanged, NoFormerFile

_ROW: Final = trash.c


class FormerFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that can be taken back until `until_us`."""

    file: VideoFile
    replaced_us: int
    until_us: int


class FormerFiles(Repository):
    """Former files of videos; each method is one transaction."""

    async def find(
        self, video: int, now_us: int, *, number: int | None = None
    ) -> FormerFile | None:
        """Return a file that a video can have back: the newest, or that with a number in the trash.

        None if there is none.
        """
        async with self._database.reading() as connection:
            return await _find(connection, video, now_us, number)

    async def take_back(
        self,
        video: int,
        change: Change,
        *,
        uploaded_us: int | None = None,
        number: int | None = None,
    ) -> WholeVideo | None:
        """Give a video a former file again, as a replacement; the present one is in the trash then.

        It is the newest, or that with a number in the trash. With `uploaded_us`, only if the
        present file came at that time: who saw another one does not mean this one. Returns None if
        there is no such video.

        Raises:
            NoFormerFile: there is none, or it has been replaced for too long.
            FileChanged: the present file is another one.
            UploadInProgress: the video has no file yet.
        """
        async with self._database.writing() as connection:
            if await replacement.lock(connection, video) is None:
                return None
            if uploaded_us is not None:
                came = select(videos.c.uploaded_us).where(videos.c.id == video)
                if (await connection.execute(came)).scalar_one() != uploaded_us:
                    raise FileChanged(video)
            former = await _find(connection, video, change.now_us, number, locked=True)
            if former is None:
                raise NoFormerFile(video)
            replaced = await replacement.replace(
                connection, video, former.file, change, taken_back=True
            )
            return None if replaced is None else replaced[0]


async def _find(
    connection: AsyncConnection,
    video: int,
    now_us: int,
    number: int | None,
    *,
    locked: bool = False,
) -> FormerFile | None:
    query = select(trash).where(trash_rows.files_of(video), _ROW.until_us > now_us)
    if number is not None:
        query = query.where(_ROW.id == number)
    query = query.order_by(_ROW.id.desc()).limit(1)
    row = (await connection.execute(query.with_for_update() if locked else query)).one_or_none()
    return None if row is None else _read(row)


def _read(row: Row[Any]) -> FormerFile:  # Any: the row of a whole table has no static type
    (file,) = snapshots.decode(row.rows)[replacement.FILES]
    return FormerFile(
        file=msgspec.convert(file, VideoFile), replaced_us=row.deleted_us, until_us=row.until_us
    )
