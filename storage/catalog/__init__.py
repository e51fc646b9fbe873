"""The catalog: what Headend knows of projects, tokens and streams, in one database.

`open_catalog` is the way in. A `Catalog` answers one question a call, each in a transaction of its
own; the functions that it calls (`streams`, `airing`, `events`, `projects`, `tokens`) take a
transaction, so that what must happen together can.
"""

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Unpack

from media.stream_keys import PublicHash, StreamKey
from storage.catalog import migrations
from storage.catalog.engine.database import Database, database_url, open_database
from storage.catalog.events import log as event_log
from storage.catalog.events.broadcast import Notices
from storage.catalog.library import tokens
from storage.catalog.library.labels import Labels
from storage.catalog.library.players import Players
from storage.catalog.maintenance.health import Checkup
from storage.catalog.maintenance.references import Upkeep
from storage.catalog.projects import installation, projects
from storage.catalog.queries import project_lookup, visibility
from storage.catalog.records.common import (
    EventRecord,
    FirstStart,
    IngestRecord,
    Page,
    Principal,
    ProjectRecord,
    Shown,
    Sort,
    StreamRecord,
    TokenRecord,
)
from storage.catalog.streams import live_state
from storage.catalog.streams import queries as stream_queries
from storage.catalog.streams.commands import Commands
from storage.catalog.streams.repository import Streams
from storage.catalog.uploads.links import UploadLinks
from storage.catalog.uploads.repository import Uploads
from storage.catalog.videos.imports import Imports
from storage.catalog.videos.jobs import Jobs
from storage.catalog.videos.recordings import Recordings
from storage.catalog.videos.repository import Videos
from storage.catalog.videos.spans import Spans
from storage.catalog.videos.transcoding import Transcoding

__all__ = ["Catalog", "open_catalog"]


class Catalog:
    """An open catalog; any number of tasks may ask it at once.

    Every method raises `storage.errors.CatalogError` where the database does not answer, and
    `CatalogBusy` where another process writes for too long.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.notices = Notices(database)
        self.labels = Labels(database)
        self.players = Players(database)
        self.commands = Commands(database)
        self.streams = Streams(database)
        self.imports = Imports(database)
        self.jobs = Jobs(database)
        self.spans = Spans(database)
        self.transcoding = Transcoding(database)
        self.videos = Videos(database)
        self.recordings = Recordings(database)
        self.uploads = Uploads(database)
        self.links = UploadLinks(database)
        self.upkeep = Upkeep(database)
        self.checkup = Checkup(database)

    async def ping(self) -> None:
        """See that the database answers."""
        await migrations.check(self._database)

    async def first_start(self, now_us: int) -> FirstStart:
        """Fill an empty catalog: a project, an owner's token, a stream; else say what it holds."""
        async with self._database.writing() as connection:
            return await installation.first_start(connection, now_us)

    async def installation(self) -> FirstStart | None:
        """Return what the first start left, without its token; None where there was none."""
        async with self._database.reading() as connection:
            return await installation.find(connection)

    async def add_project(self, name: str, now_us: int, *, by: int | None = None) -> ProjectRecord:
        """Make a project; `by` is the number of the token whose bearer asked."""
        async with self._database.writing() as connection:
            record = await projects.add(connection, name, now_us)
            facts = {"project": record.id, "name": name}
            await event_log.record(connection, record.id, "project added", facts, now_us, by=by)
            return record

    async def list_projects(
        self, *, reach: int | None = None, page: int = 1
    ) -> Page[ProjectRecord]:
        """Return a page of projects, newest first; `reach` is the only one to be shown."""
        async with self._database.reading() as connection:
            return await projects.find_page(connection, reach=reach, page=page)

    async def edit_project(
        self,
        project: int,
        *,
        name: str | None = None,
        origins: Sequence[str] | None = None,
        by: int | None,
        now_us: int,
    ) -> ProjectRecord | None:
        """Give a project another name, other origins, or both; None where there is no project."""
        values: dict[str, str] = {} if name is None else {"name": name}
        if origins is not None:
            values["origins"] = " ".join(origins)
        async with self._database.writing() as connection:
            record = await projects.edit(connection, project, values, now_us)
            if record is not None:
                facts = {"project": project, "keys": list(values)}
                await event_log.record(connection, project, "project edited", facts, now_us, by=by)
            return record

    async def delete_project(
        self, project: int, *, by: int | None, now_us: int
    ) -> tuple[PublicHash, ...] | None:
        """Delete a project with all it holds; None where there is none.

        Returns the hashes of the streams and videos whose media must go too.

        Raises:
            ProjectNotDeletable: it is the first one, or one of its streams is on air.
        """
        async with self._database.writing() as connection:
            removed = await projects.remove(connection, project, now_us)
            if removed is None:
                return None
            record, hashes = removed
            # Its own events went with it: this one stands with the installation's project.
            first = await project_lookup.find_first(connection)
            if first is not None:
                facts = {"project": project, "key": record.key, "name": record.name}
                await event_log.record(connection, first, "project deleted", facts, now_us, by=by)
            return hashes

    async def find_project(self, name: str) -> ProjectRecord | None:
        """Return the project whose number or key `name` is."""
        row = await self._database.row(*project_lookup.select_named(name))
        return None if row is None else project_lookup.record(row)

    async def add_token(
        self,
        name: str,
        project: int | None,
        *,
        write: bool,
        now_us: int,
        by: int | None = None,
    ) -> tuple[TokenRecord, str]:
        """Make a token for one project or for all; its text is in the answer and nowhere else.

        Raises:
            NoSuchProject: there is no such project.
        """
        async with self._database.writing() as connection:
            record, text = await tokens.add(connection, name, project, write, now_us)
            await tokens.tell(connection, record, "token added", now_us, by=by)
            return record, text

    async def find_token(self, token: int) -> TokenRecord | None:
        """Return the token with that number, a revoked one too."""
        async with self._database.reading() as connection:
            return await tokens.find(connection, token)

    async def list_token_page(
        self, *, reach: int | None = None, page: int = 1
    ) -> Page[TokenRecord]:
        """Return a page of tokens, newest first; `reach` is the only project whose to show."""
        async with self._database.reading() as connection:
            return await tokens.find_page(connection, reach=reach, page=page)

    async def list_tokens(self) -> tuple[TokenRecord, ...]:
        """Return every token, oldest first, revoked ones too."""
        async with self._database.reading() as connection:
            return await tokens.find_all(connection)

    async def revoke_token(self, token: int, now_us: int, *, by: int | None = None) -> bool:
        """End a token's use at once; False where there is none that could be revoked."""
        async with self._database.writing() as connection:
            record = await tokens.revoke(connection, token, now_us)
            if record is not None:
                await tokens.tell(connection, record, "token revoked", now_us, by=by)
            return record is not None

    async def authorise(self, token: str) -> Principal | None:
        """Return whom a token makes of its bearer; None for an unknown or revoked one."""
        return tokens.principal(await self._database.row(*tokens.bearer(token)))

    async def add_stream(
        self, project: int, title: str, now_us: int, *, by: int | None = None
    ) -> StreamRecord:
        """Make a stream with a fresh key, one backup and the standard resolutions.

        Raises:
            NoSuchProject: there is no such project.
        """
        async with self._database.writing() as connection:
            return await stream_queries.add(connection, project, title, now_us, by)

    async def list_streams(
        self, project: int, *, search: str = "", sort: Sort | None = None, page: int = 1
    ) -> Page[StreamRecord]:
        """Return a page of a project's streams, newest first unless `sort` says otherwise."""
        async with self._database.reading() as connection:
            return await stream_queries.find_page(
                connection, project, search=search, sort=sort or Sort(), page=page
            )

    async def all_streams(self) -> tuple[StreamRecord, ...]:
        """Return every stream of every project, oldest first."""
        async with self._database.reading() as connection:
            return await stream_queries.find_all(connection)

    async def stream(self, stream: int) -> StreamRecord | None:
        """Return the stream with that number."""
        async with self._database.reading() as connection:
            return await stream_queries.find(connection, stream)

    async def find_ingest(self, key: StreamKey) -> IngestRecord | None:
        """Return the stream that a key opens; a wrong and an unknown one take the same time."""
        async with self._database.reading() as connection:
            return await live_state.find_ingest(connection, key)

    async def set_live_state(
        self,
        stream: int,
        *,
        now_us: int,
        happened: Sequence[tuple[str, Mapping[str, object]]] = (),
        **state: Unpack[live_state.AirState],
    ) -> None:
        """Write down how a stream stands, with what happened up to then, as kinds and facts."""
        async with self._database.writing() as connection:
            await live_state.set_live_state(connection, stream, now_us, happened, **state)

    async def reset_live_states(self, now_us: int) -> None:
        """Take every stream off the air on paper, before ingest begins."""
        async with self._database.writing() as connection:
            await live_state.reset_live_states(connection, now_us)

    async def end_pauses(self, hashes: Collection[PublicHash], now_us: int) -> None:
        """Take the pauses back of those of these streams whose runs nobody came back to."""
        async with self._database.writing() as connection:
            await live_state.end_pauses(connection, hashes, now_us)

    async def ingest_proof(self, stream: int) -> str | None:
        """Return the proof of a stream's present key (see `IngestRecord`); None: no such stream."""
        async with self._database.reading() as connection:
            return await live_state.find_proof(connection, stream)

    async def reconnect_windows(self) -> dict[PublicHash, float | None]:
        """Return how long each stream waits for its encoder, in seconds; None: nobody said."""
        async with self._database.reading() as connection:
            return await live_state.find_windows(connection)

    async def add_event(
        self, stream: PublicHash, kind: str, facts: Mapping[str, object], now_us: int
    ) -> None:
        """Write down what happened to a stream; `facts` must be fit for JSON."""
        async with self._database.writing() as connection:
            await event_log.add(connection, stream, kind, facts, now_us)

    async def list_events(
        self, project: int, *, since_us: int = 0, page: int = 1, subject: PublicHash = ""
    ) -> Page[EventRecord]:
        """Return a page of what happened in a project, newest first; `subject` is whose to show."""
        async with self._database.reading() as connection:
            return await event_log.find_page(
                connection, project, since_us=since_us, page=page, subject=subject
            )

    async def shown(self, hash_: PublicHash) -> Shown | None:
        """Return what viewers may come to know of a stream or a video; None: there is neither."""
        async with self._database.reading() as connection:
            return await visibility.find_shown(connection, hash_)


@asynccontextmanager
async def open_catalog(place: str | Path, *, migrate: bool) -> AsyncGenerator[Catalog]:
    """Hold a catalog open for the length of the block.

    `place` is a file's path or a database URL. With `migrate` the catalog is made, or brought to
    its present form; two processes that do so at once do no harm.

    Raises:
        SchemaMismatch: the catalog has not the form that this code needs.
        CatalogError: it cannot be opened at all.
    """
    url = database_url(place)
    async with open_database(url, create=migrate) as database:
        if migrate:
            await migrations.migrate(database)
        else:
            await migrations.check(database)
        yield Catalog(database)
