"""The activity in the projects that a caller may access (`catalog.overviews`)."""

from typing import Final

import msgspec
from sqlalchemy import select

from storage.catalog.engine.database import Repository
from storage.catalog.queries import project_lookup
from storage.catalog.records.common import StreamRecord
from storage.catalog.records.videos import VideoRecord
from storage.catalog.schema.tables import projects, streams
from storage.catalog.streams import queries as stream_queries
from storage.catalog.videos import queries as video_queries

MOST: Final = 24
"""How many of a kind are shown: what fits on a page."""


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """The newest of each kind, at most `MOST`; `keys` are those of the projects by number.

    `troubled` are streams that are live and do not have their primary encoder on air: on a backup,
    or on the slate without having been paused.
    """

    live: tuple[StreamRecord, ...]
    troubled: tuple[StreamRecord, ...]
    working: tuple[VideoRecord, ...]
    failed: tuple[VideoRecord, ...]
    keys: dict[int, str]


class Overviews(Repository):
    """Queries over many projects; each method is one transaction."""

    async def find(self, *, reach: int | None) -> Overview:
        """Return what is live, what is being made and what failed, of one project or of all."""
        present = select(projects.c.id).where(project_lookup.IS_PRESENT)
        in_reach = present if reach is None else present.where(projects.c.id == reach)
        on_air = select(*stream_queries.COLUMNS).where(
            streams.c.live, streams.c.project_id.in_(in_reach)
        )
        newest = on_air.order_by(streams.c.id.desc()).limit(MOST)
        without_primary = newest.where(~streams.c.paused, streams.c.on_air.is_distinct_from(0))
        async with self._database.reading() as connection:
            rows = (await connection.execute(newest)).all()
            live = await stream_queries.to_records(connection, rows)
            rows = (await connection.execute(without_primary)).all()
            troubled = await stream_queries.to_records(connection, rows)
            numbers = {record.project for record in (*live, *troubled)}
            key_query = select(projects.c.id, projects.c.key).where(projects.c.id.in_(numbers))
            keys = {row.id: row.key for row in await connection.execute(key_query)}
            return Overview(
                live=live,
                troubled=troubled,
                working=await video_queries.find_in_phase(connection, in_reach, "inprogress", MOST),
                failed=await video_queries.find_in_phase(connection, in_reach, "failed", MOST),
                keys=keys,
            )
