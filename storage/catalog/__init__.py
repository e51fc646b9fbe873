"""The catalog: projects, tokens, streams, videos, uploads, jobs and events in one database.

`open_catalog` opens it; a `Catalog` holds a repository for each noun, whose methods are one
transaction each. Functions that take an `AsyncConnection` run within the caller's transaction, and
share it. Media are not here: they are objects and files, which rows name by their addresses.

Read `engine` (connections and transactions), `schema` (tables, and `migrations` to them), `records`
(the values returned), `queries` (what several nouns share), `events`, and then the nouns:
`projects`, `library`, `streams`, `videos` with the `jobs` about them, `uploads`, `hosts`, `alerts`,
and the `trash` of some; `maintenance` checks the whole.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from storage.catalog import migrations
from storage.catalog.alerts.conditions import Conditions
from storage.catalog.alerts.mailings import Mailings
from storage.catalog.alerts.recipients import AlertRecipients
from storage.catalog.engine.clock import DatabaseClock
from storage.catalog.engine.database import Database, database_url, open_database
from storage.catalog.events.broadcast import BroadcastOutbox
from storage.catalog.events.log import EventLog
from storage.catalog.hosts.owners import StreamOwners
from storage.catalog.hosts.repository import Hosts
from storage.catalog.jobs.jobs import Jobs
from storage.catalog.library.labels import Labels
from storage.catalog.library.players import Players
from storage.catalog.library.restrictions import Restrictions
from storage.catalog.library.sessions import Sessions
from storage.catalog.library.tokens import Tokens
from storage.catalog.maintenance.cdn_folders import CdnFolders
from storage.catalog.maintenance.health import HealthChecks
from storage.catalog.maintenance.references import References
from storage.catalog.maintenance.workload import Workload
from storage.catalog.migrations import finishing
from storage.catalog.projects.installation import Installation
from storage.catalog.projects.overview import Overviews
from storage.catalog.projects.removal import RemovedProjects
from storage.catalog.projects.repository import Projects
from storage.catalog.projects.store_claims import StoreClaims
from storage.catalog.projects.usage import Usage
from storage.catalog.queries.removals import Removals
from storage.catalog.queries.visibility import Visibility
from storage.catalog.streams.commands import Commands
from storage.catalog.streams.holds import Holds
from storage.catalog.streams.live_state import LiveStates
from storage.catalog.streams.repository import Streams
from storage.catalog.streams.settings import OF_PROJECTS, OF_STREAMS, SettingsRepository
from storage.catalog.trash.repository import Trash
from storage.catalog.uploads.links import UploadLinks
from storage.catalog.uploads.repository import Uploads
from storage.catalog.videos.clips import Clips
from storage.catalog.videos.former_files import FormerFiles
from storage.catalog.videos.imports import Imports
from storage.catalog.videos.previews import RecordingPreviews
from storage.catalog.videos.recordings import Recordings
from storage.catalog.videos.repository import Videos
from storage.catalog.videos.spans import Spans
from storage.catalog.videos.transcoding import Transcoding


class Catalog:
    """An open catalog, one repository a noun; any number of tasks may use it at once.

    Every method of a repository raises `storage.errors.CatalogError` if the database does not
    answer, and `CatalogBusy` if another process holds the write lock for too long.
    """

    def __init__(self, database: Database) -> None:  # noqa: PLR0915  # a line for each noun
        self._database = database
        self.location = database.location
        """The database's address, without a password."""
        self.is_shared = database.is_shared
        """Whether processes on other machines may use it, too: then hosts own streams."""
        self.clock = DatabaseClock(database.now_us)
        """The clock of stored dates, ages and leases; a process that goes on reads it regularly."""
        self.installation = Installation(database)
        self.store_claims = StoreClaims(database)
        self.projects = Projects(database)
        self.usage = Usage(database)
        self.overviews = Overviews(database)
        self.removed_projects = RemovedProjects(database)
        self.tokens = Tokens(database)
        self.sessions = Sessions(database)
        self.labels = Labels(database)
        self.players = Players(database)
        self.restrictions = Restrictions(database)
        self.events = EventLog(database)
        self.outbox = BroadcastOutbox(database)
        self.recipients = AlertRecipients(database)
        self.conditions = Conditions(database)
        self.mailings = Mailings(database)
        self.streams = Streams(database)
        self.stream_settings = SettingsRepository(database, OF_STREAMS)
        self.project_settings = SettingsRepository(database, OF_PROJECTS)
        self.live_state = LiveStates(database)
        self.commands = Commands(database)
        self.holds = Holds(database)
        self.hosts = Hosts(database)
        self.owners = StreamOwners(database)
        self.videos = Videos(database)
        self.former_files = FormerFiles(database)
        self.visibility = Visibility(database)
        self.recordings = Recordings(database)
        self.clips = Clips(database)
        self.previews = RecordingPreviews(database)
        self.imports = Imports(database)
        self.jobs = Jobs(database)
        self.spans = Spans(database)
        self.transcoding = Transcoding(database)
        self.uploads = Uploads(database)
        self.links = UploadLinks(database)
        self.references = References(database)
        self.cdn_folders = CdnFolders(database)
        self.removals = Removals(database)
        self.trash = Trash(database)
        self.health = HealthChecks(database)
        self.workload = Workload(database)

    async def finish_migration(self) -> None:
        """Do what the last migration left to be done beside running processes, and return.

        Raises:
            CatalogError: the database did not answer.
        """
        await finishing.keep_finishing(self._database)

    async def ping(self) -> None:
        """Check that the database answers, and that its tables have the expected form."""
        await migrations.check(self._database)


@asynccontextmanager
async def open_catalog(location: str | Path, *, migrate: bool) -> AsyncGenerator[Catalog]:
    """Open a catalog for the length of the block.

    `location` is a file's path or a database URL. `migrate` first creates or migrates the tables;
    several processes may do so concurrently.

    Raises:
        SchemaMismatch: The tables do not have the schema that this version needs.
        CatalogError: The catalog cannot be opened.
    """
    url = database_url(location)
    async with open_database(url, create=migrate) as database:
        if migrate:
            await migrations.migrate(database)
        else:
            await migrations.check(database)
        catalog = Catalog(database)
        if catalog.is_shared:  # or its clock would be this host's until it is read
            await catalog.clock.synchronize()
        yield catalog
