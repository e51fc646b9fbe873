"""The installation's own row, and what a first start puts into an empty catalog.

Each function runs within the caller's transaction.
"""

import secrets
from typing import Final

from sqlalchemy import insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from storage.catalog.engine.postgres import take_turn
from storage.catalog.library import tokens
from storage.catalog.projects import projects
from storage.catalog.queries import project_lookup
from storage.catalog.records.common import FirstStart
from storage.catalog.schema.tables import installation
from storage.catalog.streams import queries as stream_queries
from storage.errors import CatalogError

__all__ = ["find", "first_start"]

_PROJECT: Final = "default"
_TOKEN: Final = "owner"  # noqa: S105  # its name, not itself
_STREAM: Final = "My first stream"
_KEY_BYTES: Final = 10  # 20 hexadecimal digits, as clients of this protocol are used to
_SECRET_BYTES: Final = 20
_FIRST: Final = "1"


async def first_start(connection: AsyncConnection, now_us: int) -> FirstStart:
    """Fill an empty catalog, or say what a filled one holds.

    What its owner deleted since is not made again.

    Raises:
        CatalogError: the project that the first start made is gone.
    """
    await take_turn(connection)
    return await find(connection) or await _fill(connection, now_us)


async def find(connection: AsyncConnection) -> FirstStart | None:
    """Return what the first start left; None where there was none.

    Raises:
        CatalogError: the project that the first start made is gone.
    """
    asked = select(installation.c.broadcaster_key, installation.c.broadcaster_secret)
    row = (await connection.execute(asked)).one_or_none()
    if row is None:
        return None
    key, secret = row
    project = await project_lookup.find(connection, _FIRST)
    if project is None:
        raise CatalogError("the catalog has lost its first project")
    return FirstStart(
        project=project,
        stream=await stream_queries.find_oldest(connection, project.id),
        owner_token=None,
        broadcaster_key=key,
        broadcaster_secret=secret,
    )


async def _fill(connection: AsyncConnection, now_us: int) -> FirstStart:
    key, secret = secrets.token_hex(_KEY_BYTES), secrets.token_hex(_SECRET_BYTES)
    await connection.execute(
        insert(installation).values(
            id=1,
            broadcaster_key=key,
            broadcaster_secret=secret,
            created_us=now_us,
        )
    )
    project = await projects.add(connection, _PROJECT, now_us)
    _, token = await tokens.add(connection, _TOKEN, None, True, now_us)
    stream = await stream_queries.add(connection, project.id, _STREAM, now_us)
    return FirstStart(
        project=project,
        stream=stream,
        owner_token=token,
        broadcaster_key=key,
        broadcaster_secret=secret,
    )
