"""The row of the installation itself, and the first start, which fills an empty catalog."""

import secrets
from typing import Final

from sqlalchemy import insert, select, update

from media.ticks import MICROSECONDS
from storage.catalog.engine.clock import now_in
from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.engine.database import Repository
from storage.catalog.engine.postgres_locks import lock_first_start
from storage.catalog.library import tokens
from storage.catalog.projects import repository as projects
from storage.catalog.queries import project_lookup
from storage.catalog.records.common import Change, FirstStart
from storage.catalog.schema.tables import installation
from storage.catalog.streams import queries as stream_queries
from storage.errors import CatalogError

# A pause is recorded again well within this time: an older record is of a process that is gone.
PAUSE_NOTED_SECONDS: Final = 120.0

_PROJECT: Final = "default"
_TOKEN: Final = "owner"  # noqa: S105  # the token's name
_STREAM: Final = "My first stream"
_KEY_BYTES: Final = 10  # 20 hexadecimal digits, as clients of this protocol expect
_SECRET_BYTES: Final = 20
_RELAY_SECRET_BYTES: Final = 32
_LONGEST_CAUSE: Final = 400  # of its column


class Installation(Repository):
    """What the first start created (`catalog.installation`); each method is one transaction."""

    async def first_start(self, now_us: int) -> FirstStart:
        """Add a project, an owner's token and a stream to an empty catalog.

        In a catalog that was filled before, return what it holds of these; what the owner deleted
        since is not created again.

        Raises:
            CatalogError: The project that the first start created is gone.
        """
        async with self._database.writing() as connection:
            await lock_first_start(connection)
            return await _find(connection) or await _fill(connection, now_us)

    async def find(self) -> FirstStart | None:
        """Return what the first start created, without the token; None before the first start.

        Raises:
            CatalogError: The project that the first start created is gone.
        """
        async with self._database.reading() as connection:
            return await _find(connection)

    async def find_key(self) -> str:
        """Return the installation key (`storage.installation_key`); "" if there is none yet."""
        async with self._database.reading() as connection:
            key = (await connection.execute(select(installation.c.key))).scalar_one_or_none()
            return key or ""

    async def add_key(self, key: str) -> str:
        """Store the installation key unless there is one; return the one that is stored then."""
        statement = update(installation).where(installation.c.key == "").values(key=key)
        async with self._database.writing() as connection:
            await connection.execute(statement)
            return (await connection.execute(select(installation.c.key))).scalar_one()

    async def note_pause(self, cause: str | None) -> None:
        """Record that workers of a process pause now because of `cause`; None: they go on."""
        async with self._database.writing() as connection:
            values = {"pause": cause and cause[:_LONGEST_CAUSE], "paused_us": now_in(connection)}
            await connection.execute(update(installation).values(values))

    async def find_pause(self) -> str | None:
        """Return the cause for which workers pause, if it was recorded lately."""
        async with self._database.reading() as connection:
            since = now_in(connection) - round(PAUSE_NOTED_SECONDS * MICROSECONDS)
            query = select(installation.c.pause).where(installation.c.paused_us >= since)
            return (await connection.execute(query)).scalar_one_or_none()

    async def note_backup(self, begun_us: int) -> None:
        """Record that a backup which was begun then is complete."""
        async with self._database.writing() as connection:
            await connection.execute(update(installation).values(backed_up_us=begun_us))

    async def find_backup_us(self) -> int | None:
        """Return when the newest complete backup was begun; None if none was made."""
        async with self._database.reading() as connection:
            return (await connection.execute(select(installation.c.backed_up_us))).scalar()


async def _find(connection: AsyncConnection) -> FirstStart | None:
    statement = select(
        installation.c.broadcaster_key,
        installation.c.broadcaster_secret,
        installation.c.relay_secret,
    )
    row = (await connection.execute(statement)).one_or_none()
    if row is None:
        return None
    key, secret, relay_secret = row
    # Not always number 1: a start that is interrupted uses a number of PostgreSQL's sequence up.
    first = await project_lookup.find_first(connection)
    project = None if first is None else await project_lookup.find(connection, str(first))
    if project is None:
        raise CatalogError("the catalog has lost its first project")
    return FirstStart(
        project=project,
        stream=await stream_queries.find_oldest(connection, project.id),
        owner_token=None,
        broadcaster_key=key,
        broadcaster_secret=secret,
        relay_secret=relay_secret,
    )


async def _fill(connection: AsyncConnection, now_us: int) -> FirstStart:
    key, secret = secrets.token_hex(_KEY_BYTES), secrets.token_hex(_SECRET_BYTES)
    relay_secret = secrets.token_hex(_RELAY_SECRET_BYTES)
    await connection.execute(
        insert(installation).values(
            id=1,
            broadcaster_key=key,
            broadcaster_secret=secret,
            relay_secret=relay_secret,
            created_us=now_us,
        )
    )
    project = await projects.add(connection, _PROJECT, now_us)
    _, token = await tokens.add(connection, _TOKEN, None, True, Change(now_us))
    stream = await stream_queries.add(connection, project.id, _STREAM, Change(now_us))
    return FirstStart(
        project=project,
        stream=stream,
        owner_token=token,
        broadcaster_key=key,
        broadcaster_secret=secret,
        relay_secret=relay_secret,
    )
