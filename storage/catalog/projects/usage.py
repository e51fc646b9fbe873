"""What a project uses (`catalog.usage`): streams, stored bytes, and the length of its files."""

import msgspec
from sqlalchemy import case, func, or_, select

from storage.catalog.engine.database import Repository
from storage.catalog.schema.tables import streams, videos
from storage.catalog.schema.upload_tables import past_files, trash, uploads

_UPLOADING, _OPEN = "uploading", "open"


class ProjectUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What a project uses.

    `stored_bytes` are its files, what was made of them, its recordings, what its unfinished uploads
    announced, or may have if they announced no length, and what is in the trash. `streams` include
    those there. `file_us` is the length, in microseconds, of the files that it added from a given
    time on, those included that it has no more; recordings are no files. `trash_bytes` and
    `trash_streams` are how much of it is in the trash.
    """

    streams: int
    stored_bytes: int
    file_us: int
    trash_bytes: int = 0
    trash_streams: int = 0


class Usage(Repository):
    """Counts what projects use; each call takes time in proportion to the project's videos."""

    async def find(self, project: int, since_us: int) -> ProjectUsage:
        """Return what a project uses; the length is of files that were added from `since_us` on.

        Files that were deleted or replaced are known for 30 days.
        """
        table = videos.c
        has_file = or_(table.source.is_not(None), table.state == _UPLOADING)
        # A recording's file is what was made of it.
        file_bytes = case((has_file, table.size), else_=0)
        is_new = func.coalesce(table.uploaded_us, table.created_us) >= since_us
        file_us = case((has_file & is_new, table.length_us), else_=0)
        of_videos = select(
            func.coalesce(func.sum(file_bytes + table.storage_size), 0),
            func.coalesce(func.sum(file_us), 0),
        ).where(table.project_id == project)
        # The announced length of all other uploads is the size of their video.
        of_uploads = select(
            func.coalesce(func.sum(func.coalesce(uploads.c.length, uploads.c.most_bytes)), 0)
        ).where(
            uploads.c.project_id == project,
            uploads.c.state == _OPEN,
            or_(uploads.c.replaces, uploads.c.length.is_(None)),
        )
        of_trash = select(
            func.coalesce(func.sum(trash.c.size), 0),
            func.coalesce(func.sum(case((trash.c.kind == "stream", 1), else_=0)), 0),
        ).where(trash.c.project_id == project)
        of_past_files = select(func.coalesce(func.sum(past_files.c.length_us), 0)).where(
            past_files.c.project_id == project, past_files.c.added_us >= since_us
        )
        of_streams = select(func.count()).where(streams.c.project_id == project)
        async with self._database.reading() as connection:
            past_us = (await connection.execute(of_past_files)).scalar_one()
            trash_bytes, deleted = map(int, (await connection.execute(of_trash)).one())
            stored_bytes, length_us = (await connection.execute(of_videos)).one()
            announced_bytes = (await connection.execute(of_uploads)).scalar_one()
            count = (await connection.execute(of_streams)).scalar_one()
        return ProjectUsage(
            streams=count + deleted,
            stored_bytes=int(stored_bytes) + trash_bytes + int(announced_bytes),
            file_us=int(length_us) + int(past_us),
            trash_bytes=trash_bytes,
            trash_streams=deleted,
        )
