"""Imports (`catalog.imports`): videos whose files are fetched from a URL.

The video exists from the request on, in the state `uploading`, with a job of its own kind and a row
that holds the URL until the file has arrived. The URL may hold secrets: only its host is ever
logged or recorded. Each step locks the video's row and then the job's; it changes nothing if the
job is no longer held.
"""

from typing import Final

import msgspec
from sqlalchemy import delete, insert, select, update

from media.stream_keys import PublicHash
from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.engine.database import Repository
from storage.catalog.events.announcement import announce
from storage.catalog.events.kinds import ImportAskedForEvent
from storage.catalog.jobs import jobs as work
from storage.catalog.records.common import Change
from storage.catalog.records.videos import NewVideo, VideoFile, WholeVideo
from storage.catalog.schema.tables import videos as videos_table
from storage.catalog.schema.upload_tables import imports
from storage.catalog.videos import creation as video_creation
from storage.catalog.videos import jobs, transcoding
from storage.catalog.videos import queries as video_queries
from storage.leases import Lease, LeaseLost

_TABLE: Final = imports.c
_VIDEO: Final = videos_table.c


class NewImport(msgspec.Struct, frozen=True, kw_only=True):
    """A requested import of a video; `repr` hides `url`."""

    url: str
    host: str
    video: NewVideo

    def __repr__(self) -> str:
        return f"NewImport({self.video.hash} from {self.host})"


class ImportWork(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be fetched, for which video.

    `received` bytes are on the disk already, of the version of the file that `validator` names.
    """

    video: int
    hash: PublicHash
    url: str
    received: int = 0
    validator: str | None = None

    def __repr__(self) -> str:
        return f"ImportWork({self.hash})"


async def retry(connection: AsyncConnection, video: int, now_us: int) -> bool:
    """Queue the job anew; return False if the video has no stored URL to fetch.

    The caller has locked the video's row, and changes it.
    """
    rows = await connection.execute(select(_TABLE.video_id).where(_TABLE.video_id == video))
    if rows.one_or_none() is None:
        return False
    await jobs.enqueue(connection, video, now_us, jobs.IMPORT)
    return True


async def _locked(connection: AsyncConnection, job: Lease) -> PublicHash:
    query = select(_VIDEO.hash).where(
        _VIDEO.id == job.subject, _VIDEO.state == video_creation.UPLOADING
    )
    hash_ = (await connection.execute(query.with_for_update())).scalar_one_or_none()
    if hash_ is None:
        raise LeaseLost(job)
    return PublicHash(hash_)


class Imports(Repository):
    """The fetching of videos' files (`catalog.imports`), each call in its own transaction.

    Every method but `add` raises `storage.leases.LeaseLost` if the job is not held any more.
    """

    async def add(self, project: int, new: NewImport, change: Change) -> WholeVideo:
        """Add a video whose file is to be fetched, and queue the job for that.

        Raises:
            NoSuchProject: there is no such project.
            NoSuchLabel: a tag or the category is not of the project.
            HashTaken: another video or stream has the hash by now.
        """
        async with self._database.writing() as connection:
            video = await video_creation.expect(connection, project, new.video, change.now_us)
            values = {
                "video_id": video,
                "url": new.url,
                "token_id": change.by,
                "created_us": change.now_us,
            }
            await connection.execute(insert(imports).values(values))
            await jobs.enqueue(connection, video, change.now_us, jobs.IMPORT)
            event = ImportAskedForEvent(host=new.host)
            await announce(connection, project, new.video.hash, event, change=change)
            return await video_queries.read(connection, video)

    async def begin(self, job: Lease, now_us: int) -> ImportWork:
        """Return what the worker that leased the job is to fetch."""
        async with self._database.writing() as connection:
            hash_ = await _locked(connection, job)
            await work.extend(connection, job, now_us)
            query = select(_TABLE.url, _TABLE.received, _TABLE.validator)
            row = (
                await connection.execute(query.where(_TABLE.video_id == job.subject))
            ).one_or_none()
            if row is None:
                return ImportWork(video=job.subject, hash=hash_, url="")
            return ImportWork(
                video=job.subject,
                hash=hash_,
                url=row.url,
                received=row.received,
                validator=row.validator,
            )

    async def progress(
        self,
        job: Lease,
        received: int,
        size: int | None,
        now_us: int,
        *,
        validator: str | None = None,
    ) -> None:
        """Record how many bytes are on the disk, and extend the lease; `size` None is unknown.

        A later attempt continues from there if the server still has that version of the file.
        """
        async with self._database.writing() as connection:
            await _locked(connection, job)
            await work.extend(connection, job, now_us)
            statement = update(imports).where(_TABLE.video_id == job.subject)
            await connection.execute(statement.values(received=received, validator=validator))
            if size is not None:
                sized = update(videos_table).where(_VIDEO.id == job.subject, _VIDEO.size != size)
                await connection.execute(sized.values(size=size, updated_us=now_us))
            await video_creation.report_received(connection, job.subject, received, size, now_us)

    async def complete(self, job: Lease, file: VideoFile, now_us: int) -> WholeVideo:
        """Attach the fetched file, which is at its address, to the video; the job is done.

        The URL that it came from is removed.

        Raises:
            LeaseLost: the job is not held any more, or the video has a file.
        """
        async with self._database.writing() as connection:
            await _locked(connection, job)
            await jobs.finish(connection, job)
            statement = (
                delete(imports).where(_TABLE.video_id == job.subject).returning(_TABLE.token_id)
            )
            by = (await connection.execute(statement)).scalar_one_or_none()
            whole = await video_creation.attach_file(
                connection, job.subject, file, Change(now_us, by=by)
            )
            if whole is None:
                raise LeaseLost(job)
            return whole

    async def fail(self, job: Lease, reason: str, now_us: int) -> None:
        """End the job without a file; `reason` is a sentence for the owner.

        The owner may try again, unless the URL had a query: that may hold a credential or a
        signature, so such a URL is removed.
        """
        async with self._database.writing() as connection:
            await transcoding.fail(connection, job, reason, now_us)
            statement = update(imports).where(_TABLE.video_id == job.subject)
            await connection.execute(statement.values(received=0, validator=None))
            with_query = delete(imports).where(_TABLE.url.contains("?"))
            await connection.execute(with_query.where(_TABLE.video_id == job.subject))
