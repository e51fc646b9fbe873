"""Resumable uploads: how much of each is safe, its writer, and the video that it becomes.

An upload and its video, in the state `uploading`, begin and end together; one that replaces the
file of a video leaves that one as it is until the last byte. A writer claims the upload before it
appends: from then on the writer before it can change nothing, in this process and in any other.
`received` is written after the bytes are on the disk, so it is true after any crash.

Each function runs within the caller's transaction; `Uploads` opens them.
"""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import delete, func, insert, or_, select, update

from media.ticks import MICROSECONDS
from storage.catalog.engine.clock import now_in
from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.engine.database import Repository
from storage.catalog.events.announcement import announce
from storage.catalog.events.kinds import UploadDeletedEvent, UploadEnd, UploadLinkDeletedEvent
from storage.catalog.queries import named_rows, project_lookup, removals
from storage.catalog.queries.due import Due, count_due
from storage.catalog.queries.row_reader import RowReader
from storage.catalog.records.common import Change
from storage.catalog.records.uploads import NewUpload, UploadRecord
from storage.catalog.records.videos import NewVideo, VideoFile, WholeVideo
from storage.catalog.schema.tables import videos as videos_table
from storage.catalog.schema.upload_tables import upload_links, upload_pieces, uploads
from storage.catalog.uploads import links as uploadlinks
from storage.catalog.videos import creation as video_creation
from storage.catalog.videos import queries as video_queries
from storage.catalog.videos import replacement
from storage.errors import TooManyUploads, UploadHeld, UploadLost
from storage.objects.addresses import upload as bytes_of
from storage.objects.addresses import upload_pieces as pieces_folder
from storage.objects.upload_pieces import UploadPiece

# Of a project: each is a row, a video in the lists and a file. No client needs a thousand at once.
MAX_OPEN_UPLOADS: Final = 1000
_TABLE: Final = uploads.c
_OPEN, _DONE = "open", "done"
_LONGEST_HOLD_US: Final = 60 * MICROSECONDS
_READER: Final = RowReader(UploadRecord, uploads, metadata=_TABLE.facts, hash=videos_table.c.hash)
_ROW: Final = (
    select(*_READER.columns)
    # The upload of a deleted video does not exist any more, whatever its row holds.
    .join_from(uploads, videos_table, videos_table.c.id == _TABLE.video_id)
    .where(project_lookup.is_of_present(_TABLE.project_id))
)


async def _find(connection: AsyncConnection, name: str) -> UploadRecord | None:
    return await _READER.find(connection, _ROW.where(_TABLE.name == name))


async def _lock_video(connection: AsyncConnection, name: str) -> None:
    """Lock an upload's video: both rows are always locked in this order, as by a deletion."""
    video = select(_TABLE.video_id).where(_TABLE.name == name).scalar_subquery()
    query = select(videos_table.c.id).where(videos_table.c.id == video)
    await connection.execute(query.with_for_update())


async def _change(
    connection: AsyncConnection, name: str, writer: str, values: dict[str, object]
) -> int | None:
    """Change an open upload of this writer; return its video, or None if the writer is another."""
    statement = (
        update(uploads)
        .where(
            _TABLE.name == name,
            _TABLE.state == _OPEN,
            _TABLE.writer == writer,
            _TABLE.video_id.is_not(None),
        )
        .values(values)
    )
    return (await connection.execute(statement.returning(_TABLE.video_id))).scalar_one_or_none()


async def _add_pieces(
    connection: AsyncConnection, name: str, received: int, pieces: Sequence[UploadPiece]
) -> None:
    """Add pieces that end at `received` bytes; whatever was after that is gone."""
    upload = (await connection.execute(select(_TABLE.id).where(_TABLE.name == name))).scalar_one()
    is_replaced = upload_pieces.c.upload_id == upload, upload_pieces.c.start >= received
    await connection.execute(delete(upload_pieces).where(*is_replaced))
    if pieces:
        rows = [
            {"upload_id": upload, "start": each.start, "size": each.size, "token": each.token}
            for each in pieces
        ]
        await connection.execute(insert(upload_pieces), rows)


async def _remove_pieces(connection: AsyncConnection, name: str) -> None:
    """Remove the rows of an upload's pieces, if it has any; these are to be deleted."""
    upload = select(_TABLE.id).where(_TABLE.name == name).scalar_subquery()
    removed = delete(upload_pieces).where(upload_pieces.c.upload_id == upload)
    if (await connection.execute(removed)).rowcount:
        await removals.record(connection, folders=[pieces_folder(name)])


async def _remove(
    connection: AsyncConnection,
    name: str,
    end: UploadEnd,
    change: Change,
    *,
    before_us: int | None = None,
) -> bool:
    """Remove an upload, and its video unless that has a file.

    Its bytes are to be deleted, but for those of one that has expired (`before_us`: only if it had
    by then, or if its video was deleted): a clock may be wrong, so the caller moves them to the
    trash.
    """
    conditions = [_TABLE.name == name]
    if before_us is not None:
        conditions.append(or_(_TABLE.expires_us <= before_us, _TABLE.video_id.is_(None)))
    await _lock_video(connection, name)
    statement = delete(uploads).where(*conditions)
    statement = statement.returning(_TABLE.state, _TABLE.video_id, _TABLE.replaces)
    row = (await connection.execute(statement)).one_or_none()
    if row is None:
        return False
    state, video, replaces = row
    if before_us is None or video is None:
        await removals.of_uploads(connection, [name])
    if state != _OPEN or video is None:
        return True
    if not replaces:
        await video_queries.remove(connection, video, change, event=end())
    elif (row := await replacement.lock(connection, video)) is not None:
        event = end(replacing=True)
        await announce(connection, row.project_id, row.hash, event, change=change)
    return True


class Uploads(Repository):
    """The resumable uploads of an open catalog (`catalog.uploads`).

    `writer` is the random name of a writer.
    """

    async def begin(self, project: int, new: NewUpload, now_us: int) -> UploadRecord:
        """Add an upload of which nothing has arrived yet, and its video.

        Raises:
            NoSuchProject: there is no such project.
            NoSuchLabel: a tag or the category is not of the project.
            HashTaken: another video or stream has the hash by now.
            UploadLinkSpent: the link was used, or its time is over.
            TooManyUploads: the project has too many under way.
            NoSuchVideo: the video whose file it replaces is not in the project.
            UploadInProgress: the first file of that video has not arrived yet.
        """
        async with self._database.writing() as connection:
            if isinstance(new.video, NewVideo):
                await project_lookup.require(connection, project)
            else:
                await replacement.require(connection, project, new.video)
            count = select(func.count()).select_from(uploads)
            count = count.where(_TABLE.project_id == project, _TABLE.state == _OPEN)
            if (await connection.execute(count)).scalar_one() >= MAX_OPEN_UPLOADS:
                raise TooManyUploads(MAX_OPEN_UPLOADS)
            if new.link is not None:
                await uploadlinks.use(connection, new.link, now_us)
            if isinstance(new.video, NewVideo):  # whose labels are locked after the link
                video = await video_creation.expect(connection, project, new.video, now_us)
            else:
                video = new.video
            await connection.execute(
                insert(uploads).values(
                    project_id=project,
                    link_id=new.link,
                    name=new.name,
                    length=new.length,
                    received=0,
                    most_bytes=new.most_bytes,
                    facts=new.metadata,
                    state=_OPEN,
                    video_id=video,
                    created_us=now_us,
                    expires_us=new.expires_us,
                    replaces=not isinstance(new.video, NewVideo),
                )
            )
            added = await connection.execute(_ROW.where(_TABLE.name == new.name))
            return _READER.read(added.one())

    async def add(self, project: int, link: int, file: NewVideo, now_us: int) -> WholeVideo:
        """Add a video for a file that arrived whole through a link (see `creation.add`).

        Raises:
            UploadLinkSpent: the link was used, or its time is over.
            NoSuchProject, NoSuchLabel, HashTaken: as in `begin`.
        """
        async with self._database.writing() as connection:
            await project_lookup.require(connection, project)
            await uploadlinks.use(connection, link, now_us)
            return await video_creation.add(connection, project, file, Change(now_us))

    async def replace_through(
        self, link: int, video: int, file: VideoFile, now_us: int
    ) -> tuple[WholeVideo, str | None] | None:
        """Replace a video's file by one that arrived through a link (see `replacement.replace`).

        Raises:
            UploadLinkSpent: the link was used, or its time is over.
            UploadInProgress: as in `begin`.
        """
        async with self._database.writing() as connection:
            if await replacement.lock(connection, video) is None:
                return None
            await uploadlinks.use(connection, link, now_us)
            return await replacement.replace(connection, video, file, Change(now_us))

    async def find(self, name: str) -> UploadRecord | None:
        """Return the upload of that name."""
        async with self._database.reading() as connection:
            return await _find(connection, name)

    async def claim(self, name: str, writer: str) -> UploadRecord | None:
        """Become the writer of an upload in place of the last one; None if there is no such upload.

        One that is done is returned as it is.

        Raises:
            UploadHeld: the writer before is making a file of it (`hold`).
        """
        async with self._database.writing() as connection:
            now, held = now_in(connection), _TABLE.held_until_us
            # Held for longer: the database's clock was set back.
            is_free = or_(held.is_(None), held <= now, held > now + _LONGEST_HOLD_US)
            claimed = update(uploads).where(_TABLE.name == name, _TABLE.state == _OPEN, is_free)
            result = await connection.execute(claimed.values(writer=writer, held_until_us=None))
            record = await _find(connection, name)
            if record is not None and not record.done and not result.rowcount:
                raise UploadHeld
            return record

    async def hold(self, name: str, writer: str, seconds: float) -> bool:
        """Prevent claims of an upload for `seconds`; return False if the writer is another.

        At most a minute; 0 allows claims again.
        """
        async with self._database.writing() as connection:
            until = now_in(connection) + round(seconds * MICROSECONDS) if seconds else None
            return await _change(connection, name, writer, {"held_until_us": until}) is not None

    async def find_claimed(self, name: str, writer: str) -> UploadRecord | None:
        """Return the upload if `writer` is its writer, or if it is done; else None."""
        async with self._database.reading() as connection:
            query = _ROW.where(_TABLE.name == name)
            query = query.where(or_(_TABLE.writer == writer, _TABLE.state == _DONE))
            return await _READER.find(connection, query)

    async def extend(self, name: str, writer: str, expires_us: int) -> bool:
        """Keep an upload until `expires_us`; return False if the writer is another."""
        async with self._database.writing() as connection:
            return await _change(connection, name, writer, {"expires_us": expires_us}) is not None

    async def set_length(self, name: str, writer: str, length: int, now_us: int) -> bool:
        """Record the length of an upload; return False if the writer is another."""
        async with self._database.writing() as connection:
            await _lock_video(connection, name)
            video = await _change(connection, name, writer, {"length": length})
            if video is None:
                return False
            # A video that has a file keeps its size until the new file has arrived.
            sized = update(videos_table).where(
                videos_table.c.id == video, videos_table.c.state == video_creation.UPLOADING
            )
            await connection.execute(sized.values(size=length, updated_us=now_us))
            return True

    async def record_received(
        self,
        record: UploadRecord,
        writer: str,
        received: int,
        expires_us: int,
        now_us: int,
        pieces: Sequence[UploadPiece] = (),
    ) -> bool:
        """Record and broadcast how much is safe; return False if the writer is another.

        `pieces` have the bytes from what was safe before up to `received`, where several hosts may
        receive them. A file that replaces another is not broadcast before it has arrived, since its
        video is about the other one until then.
        """
        async with self._database.writing() as connection:
            await _lock_video(connection, record.name)
            values: dict[str, object] = {"received": received, "expires_us": expires_us}
            video = await _change(connection, record.name, writer, values)
            if video is not None and (pieces or received < record.received):
                await _add_pieces(connection, record.name, received, pieces)
            if video is not None and received != record.received and not record.replaces:
                await video_creation.report_received(
                    connection, video, received, record.length, now_us
                )
            return video is not None

    async def finish(
        self, name: str, writer: str, file: VideoFile, change: Change
    ) -> WholeVideo | None:
        """Attach the file, which is at its address, to the upload's video.

        None if the writer is another, or if there is no such video any more.
        """
        async with self._database.writing() as connection:
            await _lock_video(connection, name)
            values: dict[str, object] = {"state": _DONE, "received": file.size}
            video = await _change(connection, name, writer, values)
            if video is None:
                return None
            await _remove_pieces(connection, name)
            return await video_creation.attach_file(connection, video, file, change)

    async def replace(
        self, record: UploadRecord, writer: str, file: VideoFile, change: Change
    ) -> tuple[WholeVideo, str | None] | None:
        """Replace a video's file by that of an upload (see `replacement.replace`).

        Raises:
            UploadLost: the writer is another, or the upload was removed.
            UploadInProgress: as in `begin`.
        """
        async with self._database.writing() as connection:
            if await replacement.lock(connection, record.video) is None:
                return None
            values: dict[str, object] = {"state": _DONE, "received": file.size}
            if await _change(connection, record.name, writer, values) is None:
                raise UploadLost
            await _remove_pieces(connection, record.name)
            return await replacement.replace(connection, record.video, file, change)

    async def find_pieces(self, name: str) -> tuple[UploadPiece, ...]:
        """Return the pieces of an upload in their order."""
        async with self._database.reading() as connection:
            table = upload_pieces.c
            query = select(table.start, table.size, table.token).where(_TABLE.name == name)
            query = query.join_from(upload_pieces, uploads).order_by(table.start)
            rows = (await connection.execute(query)).all()
            return tuple(UploadPiece(start, size, token) for start, size, token in rows)

    async def count_stored(self, name: str) -> int:
        """Return how many bytes of an upload are in pieces."""
        async with self._database.reading() as connection:
            query = select(func.coalesce(func.sum(upload_pieces.c.size), 0))
            query = query.join_from(upload_pieces, uploads).where(_TABLE.name == name)
            return int((await connection.execute(query)).scalar_one())

    async def remove(
        self, name: str, end: UploadEnd, change: Change, *, expired: bool = False
    ) -> bool:
        """Remove an upload, and its video if that has no file; return False if there is none.

        An upload that was to replace a file has an event, too, and its video stays.

        `expired`: only if its time is over, or its video is gone.
        """
        async with self._database.writing() as connection:
            before_us = change.now_us if expired else None
            return await _remove(connection, name, end, change, before_us=before_us)

    async def remove_link(self, project: int, link: int, change: Change) -> tuple[str, ...] | None:
        """Remove an upload link; return the names of the uploads that were open through it.

        Those end with it, and their videos, which have no file. None: the project has no such link.
        """
        if link > named_rows.MAX_ID:
            return None
        async with self._database.writing() as connection:
            conditions = (upload_links.c.id == link, upload_links.c.project_id == project)
            video = (
                await connection.execute(select(upload_links.c.video_id).where(*conditions))
            ).scalar()
            if video is not None:  # before the link, as a deletion of the video does
                await replacement.lock(connection, video)
            # Locked, so that no upload begins through it: its row would go, and its video stay.
            locked = select(upload_links.c.id).where(*conditions).with_for_update()
            if (await connection.execute(locked)).one_or_none() is None:
                return None
            name_query = select(_TABLE.name).where(_TABLE.link_id == link, _TABLE.state == _OPEN)
            names = tuple((await connection.execute(name_query)).scalars())
            for name in names:
                await _remove(connection, name, UploadDeletedEvent, change)
            await connection.execute(delete(upload_links).where(*conditions))
            event = UploadLinkDeletedEvent(link=link)
            await announce(connection, project, "", event, change=change)
            return names

    async def count_expired(self, now_us: int) -> Due:
        """Return how many open uploads have expired, of all."""
        async with self._database.reading() as connection:
            is_open = _TABLE.state == _OPEN, _TABLE.video_id.is_not(None)
            return await count_due(connection, _TABLE.expires_us <= now_us, *is_open)

    async def find_expired(self, now_us: int | None, most: int) -> tuple[str, ...]:
        """Return the names of up to `most` uploads whose time is over, or whose video is gone.

        Without a time, only the latter.
        """
        async with self._database.reading() as connection:
            is_over = _TABLE.video_id.is_(None)
            if now_us is not None:
                is_over = or_(is_over, _TABLE.expires_us <= now_us)
            query = select(_TABLE.name).where(is_over)
            query = query.order_by(_TABLE.id).limit(most)
            return tuple((await connection.execute(query)).scalars())

    async def find_kept(self, names: Sequence[str]) -> frozenset[str]:
        """Return those of some names (a few hundred at most) whose bytes no cleanup may move.

        Their uploads are under way, or their bytes are to be deleted (see `removals`).
        """
        places = {place(name): name for name in names for place in (bytes_of, pieces_folder)}
        async with self._database.reading() as connection:
            query = select(_TABLE.name).where(_TABLE.name.in_(names), _TABLE.state == _OPEN)
            are_open = (await connection.execute(query)).scalars().all()
            # Queried last: the transaction that removed the row of an upload recorded its bytes.
            recorded = await removals.find_recorded(connection, places)
        return frozenset(are_open) | {places[each] for each in recorded}
