"""The videos of a catalog (`catalog.videos`): found, listed, edited, published, deleted.

How their files arrive is `storage.catalog.videos.creation` and `replacement`, how they are
transcoded `storage.catalog.videos.transcoding`. A change locks the row first and sets only the
columns that change, so that concurrent changes do not overwrite each other.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import msgspec
from sqlalchemy import Row, or_, select

from media.stream_keys import PublicHash
from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.engine.database import Repository
from storage.catalog.events.announcement import announce
from storage.catalog.events.kinds import (
    RecordingKeptEvent,
    VideoEditedEvent,
    VideoEvent,
    VideoPublishedEvent,
    VideoQueuedAgainEvent,
    VideoUnpublishedEvent,
)
from storage.catalog.library import labels, players
from storage.catalog.library.details import columns_of
from storage.catalog.queries import counters, named_rows, project_lookup, removals
from storage.catalog.queries.row_reader import RowReader
from storage.catalog.records.common import Change, Page, ProjectRecord
from storage.catalog.records.details import Edit, VideoDetails
from storage.catalog.records.videos import (
    NewVideo,
    VideoFile,
    VideoQuery,
    VideoRecord,
    VideoStatus,
    WholeVideo,
)
from storage.catalog.schema.tables import jobs as jobs_table
from storage.catalog.schema.tables import videos as table
from storage.catalog.schema.upload_tables import imports as import_table
from storage.catalog.videos import creation as video_creation
from storage.catalog.videos import imports, jobs, replacement, rows
from storage.catalog.videos import queries as video_queries
from storage.catalog.videos.creation import UPLOADING
from storage.errors import VideoNotFailed
from storage.objects.addresses import video_folder

# A request waits for all of them, which takes a few seconds.
MOST_RETRIES: Final = 1000

_ROW: Final = table.c
_STATUS: Final = RowReader(
    VideoStatus, table, parsers={"warnings": partial(msgspec.json.decode, type=tuple[str, ...])}
)
_Values = dict[str, Any]  # Any: columns of every type


async def _announce(
    connection: AsyncConnection,
    row: Row[Any],  # Any: the row of a whole table has no static type
    event: VideoEvent,
    change: Change,
) -> None:
    await announce(connection, row.project_id, row.hash, event, change=change)


async def _retry(
    connection: AsyncConnection,
    row: Row[Any],  # Any: as above
    change: Change,
) -> None:
    """Queue a video again whose row is locked.

    Raises:
        VideoNotFailed: it has not failed, or its file is gone.
    """
    if row.state != "failed":
        raise VideoNotFailed(row.id, row.state)
    if row.source is not None:
        await jobs.enqueue(connection, row.id, change.now_us)
    elif not await imports.retry(connection, row.id, change.now_us):
        raise VideoNotFailed(row.id, row.state)
    values: _Values = {
        "state": "queued" if row.source is not None else UPLOADING,
        "phase": "inprogress",
        "progress": 0,
        "eta": 0,
        "reason": "",
        "warnings": "[]",
        "transcoding_us": None,
    }
    await rows.change(connection, row, change.now_us, values)
    await _announce(connection, row, VideoQueuedAgainEvent(), change)
    counters.move_video(connection, row.project_id, row.phase, "inprogress")


class Videos(Repository):
    """The videos (`catalog.videos`).

    Methods that change a video return None if there is none.
    """

    async def find(self, video: int) -> WholeVideo | None:
        """Return the video with that number."""
        async with self._database.reading() as connection:
            return await video_queries.find(connection, video)

    async def find_page(
        self, project: ProjectRecord, query: VideoQuery, page: int
    ) -> Page[VideoRecord]:
        """Return a page of a project's videos, newest first."""
        async with self._database.reading() as connection:
            return await video_queries.find_page(connection, project.id, project.key, query, page)

    async def find_status(self, video: int) -> VideoStatus | None:
        """Return the progress of transcoding a video."""
        query = select(*_STATUS.columns)
        query = query.where(_ROW.id == video, project_lookup.is_of_present(_ROW.project_id))
        # Attempts are numbered over all jobs of a video; the row holds the newest of those that are
        # over.
        attempt_query = select(jobs_table.c.attempt).where(jobs_table.c.video_id == video)
        if video > named_rows.MAX_ID:
            return None
        async with self._database.reading() as connection:
            status = await _STATUS.find(connection, query)
            attempt = (await connection.execute(attempt_query)).scalar_one_or_none()
        if status is None or attempt is None:
            return status
        return msgspec.structs.replace(status, attempt=attempt)

    async def free_hash(self) -> PublicHash:
        """Return a public name that no video, no recording and no stream has."""
        async with self._database.reading() as connection:
            return await video_queries.free_hash(connection)

    async def find_known(self, hashes: Sequence[PublicHash]) -> frozenset[PublicHash]:
        """Return those of some hashes that videos have, or are to have."""
        async with self._database.reading() as connection:
            return await video_queries.find_known(connection, hashes)

    async def find_numbers(
        self, project: int, hashes: Sequence[PublicHash]
    ) -> dict[PublicHash, int]:
        """Return the numbers of a project's videos that have some of these hashes, by hash."""
        query = select(_ROW.hash, _ROW.id).where(_ROW.project_id == project, _ROW.hash.in_(hashes))
        async with self._database.reading() as connection:
            return {row.hash: row.id for row in await connection.execute(query)}

    async def add(self, project: int, file: NewVideo, change: Change) -> WholeVideo:
        """Add a video for a file that is at its address, and queue its job (see `creation.add`).

        Raises:
            NoSuchProject: there is no such project.
            HashTaken: another video or stream has the hash by now.
        """
        async with self._database.writing() as connection:
            return await video_creation.add(connection, project, file, change)

    async def expect(self, project: int, file: NewVideo, now_us: int) -> int:
        """Add a video whose file has not arrived yet; return its number (see `creation.expect`).

        Raises:
            NoSuchProject: there is no such project.
            HashTaken: another video or stream has the hash by now.
        """
        async with self._database.writing() as connection:
            return await video_creation.expect(connection, project, file, now_us)

    async def replace(
        self, video: int, file: VideoFile, change: Change
    ) -> tuple[WholeVideo, str | None] | None:
        """Replace a video's file; return what to delete, too (see `replacement.replace`).

        Raises:
            UploadInProgress: its first file has not arrived yet.
        """
        async with self._database.writing() as connection:
            return await replacement.replace(connection, video, file, change)

    async def remove(self, video: int, change: Change) -> PublicHash | None:
        """Remove a video; return the hash whose media are to be removed."""
        async with self._database.writing() as connection:
            return await video_queries.remove(connection, video, change)

    async def edit(
        self,
        video: int,
        edit: Edit[VideoDetails],
        change: Change,
        *,
        check: Callable[[WholeVideo], None] | None = None,
    ) -> WholeVideo | None:
        """Make an edit.

        `check` may raise to keep the video as it is; it gets the record before the change, locked
        against other changes.

        Raises:
            NoSuchLabel: a tag or the category is not of the video's project.
        """
        async with self._database.writing() as connection:
            row = await rows.lock(connection, video)
            if row is None:
                return None
            if check is not None:
                check(await video_queries.read(connection, video))
            if not edit.keys:
                return await video_queries.read(connection, video)
            values = await columns_of(connection, row.project_id, edit, row.file_title)
            if "tags" in edit.keys:
                await labels.link_tags(
                    connection, row.project_id, "video", video, edit.details.tags, change.now_us
                )
            await rows.change(connection, row, change.now_us, values)
            await _announce(connection, row, VideoEditedEvent(keys=list(edit.keys)), change)
            return await video_queries.read(connection, video)

    async def set_player(self, video: int, player: int | None, change: Change) -> WholeVideo | None:
        """Show a video in a player of its project, or (None) in the standard one.

        Raises:
            NoSuchLabel: the player is not of the video's project.
        """
        async with self._database.writing() as connection:
            row = await rows.lock(connection, video)
            if row is None:
                return None
            if player is not None:
                await players.require(connection, row.project_id, player)
            await rows.change(connection, row, change.now_us, {"player_id": player})
            await _announce(connection, row, VideoEditedEvent(keys=["player"]), change)
            return await video_queries.read(connection, video)

    async def publish(self, video: int, change: Change) -> WholeVideo | None:
        """Show a video; one that does not play yet is shown as soon as it does."""
        async with self._database.writing() as connection:
            row = await rows.lock(connection, video)
            if row is None:
                return None
            published = row.media is not None
            if row.hidden or published != row.published:
                values: _Values = {"hidden": False, "published": published}
                if published and not row.published:
                    values["published_us"] = change.now_us
                await rows.change(connection, row, change.now_us, values)
                await _announce(connection, row, VideoPublishedEvent(plays=published), change)
            return await video_queries.read(connection, video)

    async def unpublish(self, video: int, change: Change) -> WholeVideo | None:
        """Hide a video until it is published again."""
        async with self._database.writing() as connection:
            row = await rows.lock(connection, video)
            if row is None:
                return None
            if row.published or not row.hidden:
                await rows.change(
                    connection, row, change.now_us, {"hidden": True, "published": False}
                )
                await _announce(connection, row, VideoUnpublishedEvent(), change)
            return await video_queries.read(connection, video)

    async def keep(self, video: int, change: Change) -> WholeVideo | None:
        """Make a recording never expire; a video that does not expire stays as it is."""
        async with self._database.writing() as connection:
            row = await rows.lock(connection, video)
            if row is None:
                return None
            if row.expires_us is not None:
                await rows.change(connection, row, change.now_us, {"expires_us": None})
                await _announce(connection, row, RecordingKeptEvent(), change)
            return await video_queries.read(connection, video)

    async def retry(self, video: int, change: Change) -> WholeVideo | None:
        """Queue a failed video again.

        Raises:
            VideoNotFailed: it has not failed, or its file is gone.
        """
        async with self._database.writing() as connection:
            row = await rows.lock(connection, video)
            if row is None:
                return None
            await _retry(connection, row, change)
            return await video_queries.read(connection, video)

    async def retry_failed(self, project: int, change: Change) -> int:
        """Queue failed videos of a project again, oldest first; return how many.

        At most `MOST_RETRIES` at a time, each in its own transaction. Those whose file is gone
        are left out.
        """
        importable = select(import_table.c.video_id).where(import_table.c.video_id == _ROW.id)
        failed = (
            select(_ROW.id)
            .where(_ROW.project_id == project, _ROW.phase == "failed")
            .where(or_(_ROW.source.is_not(None), importable.exists()))
            .order_by(_ROW.id)
            .limit(MOST_RETRIES)
        )
        async with self._database.reading() as connection:
            numbers = (await connection.execute(failed)).scalars().all()
        retried = 0
        for number in numbers:
            with suppress(VideoNotFailed):  # by now
                async with self._database.writing() as connection:
                    row = await rows.lock(connection, number)
                    if row is not None:
                        await _retry(connection, row, change)
                        retried += 1
        return retried

    async def set_posters(
        self, video: int, folder: str, labels: Sequence[str], change: Change
    ) -> tuple[WholeVideo, str | None] | None:
        """Show the posters of a folder; return the video and the folder that they replace.

        `folder` begins with `own-`: transcoding does not replace such posters.
        """
        values: _Values = {
            "posters": folder,
            "poster_labels": ",".join(labels),
            "image_us": change.now_us,
        }
        async with self._database.writing() as connection:
            row = await rows.lock(connection, video)
            if row is None:
                return None
            await rows.change(connection, row, change.now_us, values)
            if row.posters is not None:
                await removals.record(connection, folders=[video_folder(row.hash, row.posters)])
            await _announce(connection, row, VideoEditedEvent(keys=["poster"]), change)
            return await video_queries.read(connection, video), row.posters
