"""What a project uses (`catalog.usage`): streams, stored bytes, and the length of its files."""

import msgspec
from sqlalchemy import case, func, or_, select

from storage.catalog.engine.database import Repository
from storage.catalog.schema.tables import streams, videos
from storage.catalog.schema.upload_tables import former_files, past_files, uploads

_UPLOADING, _OPEN = "uploading", "open"


class ProjectUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What a project uses.

    `stored_bytes` are its files, those that can be taken back, what was made of them, its
    recordings, and what its unfinished uploads announced, or may have if they announced no length.
    `file_us` is the length, in microseconds, of the files that it added from a given time on, those
    included that it has no more; recordings are no files.
    """

    streams: int
    stored_bytes: int
    file_us: int


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
        of_former_files = (
            select(func.coalesce(func.sum(former_files.c.size), 0))
            .join(videos, table.id == former_files.c.video_id)
            .where(table.project_id == project)
        )
        of_past_files = select(func.coalesce(func.sum(past_files.c.length_us), 0)).where(
            past_files.c.project_id == project, past_files.c.added_us >= since_us
        )
        of_streams = select(func.count()).where(streams.c.project_id == project)
        async with self._database.reading() as connection:
            past_us = (await connection.execute(of_past_files)).scalar_one()
            former_bytes = (await connection.execute(of_former_files)).scalar_one()
            stored_bytes, length_us = (await connection.execute(of_videos)).one()
            announced_bytes = (await connection.execute(of_uploads)).scalar_one()
            count = (await connection.execute(of_streams)).scalar_one()
        return ProjectUsage(
            streams=count,
            stored_bytes=int(stored_bytes) + int(former_bytes) + int(announced_bytes),
            file_us=int(length_us) + int(past_us),
        )
