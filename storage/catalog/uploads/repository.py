"""Resumable uploads: how much of each is safe, who appends to it, and the video it is to be.

An upload and its video, in the state `uploading`, begin and end together; one that replaces the
file of a video leaves that one as it is until the last byte. Who appends claims the upload first:
from then on whoever did before can change nothing (`writer`), in this process and in any other.
`received` is written after the bytes are on the disk, so it is true after any death.

Each function runs within the caller's transaction; `Uploads` opens them.
"""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Row, and_, delete, func, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from media.ticks import MICROSECONDS
from storage.catalog.engine.clock import now_in
from storage.catalog.engine.database import Database
from storage.catalog.events import log as event_log
from storage.catalog.queries import named_rows, project_lookup
from storage.catalog.records.uploads import NewUpload, UploadDetails, UploadRecord
from storage.catalog.records.videos import NewVideo, VideoFile, WholeVideo
from storage.catalog.schema.tables import videos as videos_table
from storage.catalog.schema.upload_tables import upload_links, upload_pieces, uploads
from storage.catalog.uploads import creation as upload_creation
from storage.catalog.uploads import links as uploadlinks
from storage.catalog.videos import (
    creation as video_creation,
)
from storage.catalog.videos import (
    queries as video_queries,
)
from storage.catalog.videos import (
    replacement,
)
from storage.errors import UploadHeld, UploadLost
from storage.objects.upload_pieces import UploadPiece

__all__ = ["Uploads"]

_TABLE: Final = uploads.c
_OPEN, _DONE = "open", "done"
_DELETED: Final = "upload deleted"
_LONGEST_HOLD_US: Final = 60 * MICROSECONDS
_ROW: Final = (
    select(
        _TABLE.project_id,
        _TABLE.link_id,
        _TABLE.name,
        _TABLE.length,
        _TABLE.most_bytes,
        _TABLE.received,
        _TABLE.facts,
        _TABLE.state,
        videos_table.c.id,
        videos_table.c.hash,
        _TABLE.expires_us,
        _TABLE.replaces,
    )
    # Of a video that was deleted there is no upload any more, whatever its row says.
    .join_from(uploads, videos_table, videos_table.c.id == _TABLE.video_id)
    .where(project_lookup.is_of_present(_TABLE.project_id))
)


def _record(row: Row[*tuple[Any, ...]]) -> UploadRecord:  # Any: columns of several types
    project, link, name, length, most, received, metadata, state, video, hash_, *rest = row
    expires, replaces = rest
    return UploadRecord(
        project=project,
        link=link,
        name=name,
        length=length,
        most_bytes=most,
        received=received,
        metadata=metadata,
        state=state,
        video=video,
        hash=hash_,
        expires_us=expires,
        replaces=replaces,
    )


async def _find(connection: AsyncConnection, name: str) -> UploadRecord | None:
    row = (await connection.execute(_ROW.where(_TABLE.name == name))).one_or_none()
    return None if row is None else _record(row)


async def _hold_video(connection: AsyncConnection, name: str) -> None:
    """Hold an upload's video: who takes both rows takes them in this order, as a deletion does."""
    of_it = select(_TABLE.video_id).where(_TABLE.name == name).scalar_subquery()
    asked = select(videos_table.c.id).where(videos_table.c.id == of_it)
    await connection.execute(asked.with_for_update())


async def _change(
    connection: AsyncConnection, name: str, writer: str, values: dict[str, object]
) -> int | None:
    """Change an open upload whose writer this is; returns its video, None where it is not."""
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
    of_it = (await connection.execute(select(_TABLE.id).where(_TABLE.name == name))).scalar_one()
    gone = upload_pieces.c.upload_id == of_it, upload_pieces.c.start >= received
    await connection.execute(delete(upload_pieces).where(*gone))
    if pieces:
        rows = [
            {"upload_id": of_it, "start": each.start, "size": each.size, "token": each.token}
            for each in pieces
        ]
        await connection.execute(insert(upload_pieces), rows)


async def _forget_pieces(connection: AsyncConnection, name: str) -> None:
    of_it = select(_TABLE.id).where(_TABLE.name == name).scalar_subquery()
    await connection.execute(delete(upload_pieces).where(upload_pieces.c.upload_id == of_it))


async def _remove(
    connection: AsyncConnection,
    name: str,
    kind: str,
    now_us: int,
    *,
    by: int | None,
    before_us: int | None = None,
) -> bool:
    """Take an upload away and its video, unless that has a file; `kind` is the event's.

    `before_us`: only where it expired by then.
    """
    wanted = [_TABLE.name == name]
    if before_us is not None:
        wanted.append(or_(_TABLE.expires_us <= before_us, _TABLE.video_id.is_(None)))
    await _hold_video(connection, name)
    gone = delete(uploads).where(*wanted)
    gone = gone.returning(_TABLE.state, _TABLE.video_id, _TABLE.replaces)
    row = (await connection.execute(gone)).one_or_none()
    if row is None:
        return False
    state, video, replaces = row
    if state != _OPEN or video is None:
        return True
    if not replaces:
        await video_queries.remove(connection, video, now_us, by=by, kind=kind)
    elif (of := await replacement.hold(connection, video)) is not None:
        facts = {"replacing": True}
        await event_log.record(
            connection, of.project_id, kind, facts, now_us, subject=of.hash, by=by
        )
    return True


class Uploads:
    """The resumable uploads of an open catalog (`catalog.uploads`).

    Every method raises `storage.errors.CatalogError` where the database does not answer. `writer`
    is a random name of who appends, `by` the number of the token whose bearer asks.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, project: int, new: NewUpload, now_us: int) -> UploadRecord:
        """Write down an upload of which nothing came yet, and its video.

        Raises:
            NoSuchProject: there is no such project.
            NoSuchLabel: a tag or the category is none of the project.
            HashTaken: another video or stream has the hash by now.
            UploadLinkSpent: the link was used, or its time is over.
            TooManyUploads: the project has too many under way.
            NoSuchVideo: the project has no such video as it replaces the file of.
            UploadInProgress: that one's first file is not there yet.
        """
        async with self._database.writing() as connection:
            return await upload_creation.begin(connection, project, new, now_us)

    async def add(
        self, project: int, link: int, file: NewVideo, wanted: UploadDetails, now_us: int
    ) -> WholeVideo:
        """Make a video of a file that came whole through a link (see `arriving.add`).

        Raises:
            UploadLinkSpent: the link was used, or its time is over.
            NoSuchProject, NoSuchLabel, HashTaken: as in `begin`.
        """
        async with self._database.writing() as connection:
            whole = await video_creation.add(connection, project, file, now_us, by=None)
            await uploadlinks.use(connection, link, now_us)
            await video_creation.link_labels(connection, project, whole.video.id, wanted, now_us)
            return await video_queries.read(connection, whole.video.id)

    async def replace_through(
        self, link: int, video: int, file: VideoFile, now_us: int
    ) -> tuple[WholeVideo, str | None] | None:
        """Give a video a file that came whole through a link for it (see `replacing.replace`).

        Raises:
            UploadLinkSpent: the link was used, or its time is over.
            UploadInProgress: as in `begin`.
        """
        async with self._database.writing() as connection:
            if await replacement.hold(connection, video) is None:
                return None
            await uploadlinks.use(connection, link, now_us)
            return await replacement.replace(connection, video, file, now_us, by=None)

    async def find(self, name: str) -> UploadRecord | None:
        """Return the upload of that name."""
        async with self._database.reading() as connection:
            return await _find(connection, name)

    async def claim(self, name: str, writer: str) -> UploadRecord | None:
        """Be the one who appends, in place of who did before; None: there is no such upload.

        One that is done is returned as it is.

        Raises:
            UploadHeld: who did before makes a file of it (`hold`).
        """
        async with self._database.writing() as connection:
            now, held = now_in(connection), _TABLE.held_until_us
            # Held for longer: the database's clock was set back.
            free = or_(held.is_(None), held <= now, held > now + _LONGEST_HOLD_US)
            claimed = update(uploads).where(_TABLE.name == name, _TABLE.state == _OPEN, free)
            changed = await connection.execute(claimed.values(writer=writer, held_until_us=None))
            found = await _find(connection, name)
            if found is not None and not found.done and not changed.rowcount:
                raise UploadHeld
            return found

    async def hold(self, name: str, writer: str, seconds: float) -> bool:
        """Let nobody claim an upload for so long; False where this is not who appends.

        At most a minute. 0 lets others claim it again.
        """
        async with self._database.writing() as connection:
            until = now_in(connection) + round(seconds * MICROSECONDS) if seconds else None
            return await _change(connection, name, writer, {"held_until_us": until}) is not None

    async def find_claimed(self, name: str, writer: str) -> UploadRecord | None:
        """Return the upload as it stands, where this is who appends; None where it is not."""
        async with self._database.reading() as connection:
            asked = _ROW.where(_TABLE.name == name)
            asked = asked.where(or_(_TABLE.writer == writer, _TABLE.state == _DONE))
            row = (await connection.execute(asked)).one_or_none()
            return None if row is None else _record(row)

    async def set_length(self, name: str, writer: str, length: int, now_us: int) -> bool:
        """Write down how long an upload is to be; False where this is not who appends."""
        async with self._database.writing() as connection:
            await _hold_video(connection, name)
            video = await _change(connection, name, writer, {"length": length})
            if video is None:
                return False
            # A video that has a file is as large as that until the other one is there.
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
        """Write down how much is safe, and tell it; False where this is not who appends.

        `pieces` have the bytes from what was safe before up to `received`, where several hosts may
        receive them. What replaces a file is told of when it is there: until then its video is at
        another one.
        """
        async with self._database.writing() as connection:
            await _hold_video(connection, record.name)
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
        self,
        name: str,
        writer: str,
        file: VideoFile,
        now_us: int,
        *,
        by: int | None,
    ) -> WholeVideo | None:
        """Give the upload's video its file, which stands at its address.

        None where this is not who appends, or there is no such video any more.
        """
        async with self._database.writing() as connection:
            await _hold_video(connection, name)
            values: dict[str, object] = {"state": _DONE, "received": file.size}
            video = await _change(connection, name, writer, values)
            if video is None:
                return None
            await _forget_pieces(connection, name)
            return await video_creation.attach_file(connection, video, file, now_us, by=by)

    async def replace(
        self, record: UploadRecord, writer: str, file: VideoFile, now_us: int, *, by: int | None
    ) -> tuple[WholeVideo, str | None] | None:
        """Give the video whose file an upload replaces that file (see `replacing.replace`).

        Raises:
            UploadLost: this is not who appends, or the upload was taken away.
            UploadInProgress: as in `begin`.
        """
        async with self._database.writing() as connection:
            if await replacement.hold(connection, record.video) is None:
                return None
            values: dict[str, object] = {"state": _DONE, "received": file.size}
            if await _change(connection, record.name, writer, values) is None:
                raise UploadLost
            await _forget_pieces(connection, record.name)
            return await replacement.replace(connection, record.video, file, now_us, by=by)

    async def find_pieces(self, name: str) -> tuple[UploadPiece, ...]:
        """Return the pieces of an upload in their order."""
        async with self._database.reading() as connection:
            table = upload_pieces.c
            asked = select(table.start, table.size, table.token).where(_TABLE.name == name)
            asked = asked.join_from(upload_pieces, uploads).order_by(table.start)
            rows = (await connection.execute(asked)).all()
            return tuple(UploadPiece(start, size, token) for start, size, token in rows)

    async def count_stored(self, name: str) -> int:
        """Return how many bytes of an upload are in pieces."""
        async with self._database.reading() as connection:
            asked = select(func.coalesce(func.sum(upload_pieces.c.size), 0))
            asked = asked.join_from(upload_pieces, uploads).where(_TABLE.name == name)
            return int((await connection.execute(asked)).scalar_one())

    async def remove(
        self, name: str, kind: str, now_us: int, *, by: int | None, expired: bool = False
    ) -> bool:
        """Take an upload away, with its video where that has no file; False where there is none.

        Of one that was to replace a file the event tells, too, and the video stays.

        `kind` is the event's. `expired`: only where its time is over, or its video is gone.
        """
        async with self._database.writing() as connection:
            before_us = now_us if expired else None
            return await _remove(connection, name, kind, now_us, by=by, before_us=before_us)

    async def remove_link(
        self, project: int, link: int, now_us: int, *, by: int | None
    ) -> tuple[str, ...] | None:
        """Take an upload link away; returns the names of what was still coming through it.

        Those end with it, and their videos, which have no file. None: the project has no such link.
        """
        if link > named_rows.MAX_ID:
            return None
        async with self._database.writing() as connection:
            ours = (upload_links.c.id == link, upload_links.c.project_id == project)
            of = (await connection.execute(select(upload_links.c.video_id).where(*ours))).scalar()
            if of is not None:  # before the link, as whoever deletes the video does
                await replacement.hold(connection, of)
            # Held, so that nothing begins through it meanwhile: its row would go, its video stay.
            held = select(upload_links.c.id).where(*ours).with_for_update()
            if (await connection.execute(held)).one_or_none() is None:
                return None
            through = select(_TABLE.name).where(_TABLE.link_id == link, _TABLE.state == _OPEN)
            names = tuple((await connection.execute(through)).scalars())
            for name in names:
                await _remove(connection, name, _DELETED, now_us, by=by)
            await connection.execute(delete(upload_links).where(*ours))
            facts = {"link": link}
            await event_log.record(connection, project, "upload link deleted", facts, now_us, by=by)
            return names

    async def find_expired(self, now_us: int, most: int) -> tuple[str, ...]:
        """Return the names of up to `most` uploads whose time is over, or whose video is gone."""
        async with self._database.reading() as connection:
            over = _TABLE.expires_us <= now_us
            orphaned = and_(_TABLE.video_id.is_(None), _TABLE.created_us < now_us)
            asked = select(_TABLE.name).where(or_(over, orphaned)).order_by(_TABLE.id).limit(most)
            return tuple((await connection.execute(asked)).scalars())

    async def find_open(self, names: Sequence[str]) -> frozenset[str]:
        """Return those of some names (a few hundred at most) whose uploads are under way."""
        async with self._database.reading() as connection:
            asked = select(_TABLE.name).where(_TABLE.name.in_(names), _TABLE.state == _OPEN)
            return frozenset((await connection.execute(asked)).scalars())
