"""Which objects the rows refer to (`catalog.references`), to find those that none refers to.

Each call reads a snapshot of its own: an object that the caller listed before, and that no row
refers to, may belong to a row that is about to be written.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import msgspec
from sqlalchemy import ColumnElement, select

from media.stream_keys import PublicHash
from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.engine.database import Repository
from storage.catalog.queries import project_lookup, removals, snapshots, trash_rows
from storage.catalog.queries.row_reader import RowReader
from storage.catalog.schema.tables import jobs, projects, streams
from storage.catalog.schema.tables import videos as videos_table
from storage.catalog.schema.upload_tables import recordings, trash
from storage.catalog.streams.settings import project_slate, stream_slate
from storage.catalog.videos import queries as videos


class VideoReferences(msgspec.Struct, frozen=True, kw_only=True):
    """What a video's row references: folders below its own, and the address of its file.

    `former` are the addresses of the files that it had, while these can be restored.

    `at_work` is True while a job of it is not over: then other folders are in use, too.
    """

    hash: PublicHash
    state: str
    source: str | None
    former: frozenset[str] = frozenset()
    media: str | None
    posters: str | None
    previews: str | None
    subtitles: str
    at_work: bool


_READER: Final = RowReader(
    VideoReferences,
    videos_table,
    at_work=select(jobs.c.id).where(jobs.c.video_id == videos_table.c.id).exists(),
)


class References(Repository):
    """The references that cleanups read (`catalog.references`), for a few hundred names a call."""

    async def videos(self, hashes: Sequence[PublicHash]) -> frozenset[PublicHash]:
        """Return those of some hashes that videos have, or are to have."""
        async with self._database.reading_all() as connection:
            return await videos.find_known(connection, hashes)

    async def streams(self, hashes: Sequence[PublicHash]) -> frozenset[PublicHash]:
        """Return those of some hashes whose streams exist, or are still being recorded.

        A stream in the trash may be restored.
        """
        known: set[PublicHash] = set()
        async with self._database.reading_all() as connection:
            for column in (recordings.c.stream_hash, streams.c.hash):
                query = select(column).where(column.in_(hashes))
                known.update((await connection.execute(query)).scalars())
            known |= await trash_rows.find_hashes(connection, hashes, "stream")
        return frozenset(known)

    async def find_removed(self, addresses: Sequence[str]) -> frozenset[str]:
        """Return those of some addresses that are to be deleted (see `removals.find_recorded`)."""
        async with self._database.reading_all() as connection:
            return await removals.find_recorded(connection, addresses)

    async def slates(self, owners: Sequence[str]) -> frozenset[str]:
        """Return the addresses of the pictures of some owners (`s-HASH`, `p-KEY`)."""
        names = [owner[2:] for owner in owners]
        addresses: set[str | None] = set()
        async with self._database.reading_all() as connection:
            of_streams = select(streams.c.hash, streams.c.slate).where(streams.c.hash.in_(names))
            addresses.update(stream_slate(*row) for row in await connection.execute(of_streams))
            deleted = select(trash.c.hash, trash.c.rows)
            deleted = deleted.where(trash.c.hash.in_(names), trash.c.kind == "stream")
            for hash_, rows in await connection.execute(deleted):
                (row,) = snapshots.decode(rows)[streams.name]
                addresses.add(stream_slate(hash_, row["slate"]))
            of_projects = select(projects.c.key, projects.c.slate).where(projects.c.key.in_(names))
            addresses.update(project_slate(*row) for row in await connection.execute(of_projects))
        return frozenset(address for address in addresses if address is not None)

    async def is_any_file_named(self) -> bool:
        """Return whether the row of any video names its file or media."""
        table = videos_table.c
        query = select(table.id).where(table.source.is_not(None) | table.media.is_not(None))
        async with self._database.reading_all() as connection:
            return (await connection.execute(query.limit(1))).first() is not None

    async def find_references(self, hashes: Sequence[PublicHash]) -> tuple[VideoReferences, ...]:
        """Return what the rows of some videos reference."""
        async with self._database.reading_all() as connection:
            return await self._find_references(
                connection, videos_table.c.hash.in_(hashes), len(hashes)
            )

    async def page(self, after: PublicHash, most: int) -> tuple[VideoReferences, ...]:
        """Return what the rows of up to `most` videos reference, in order of hash, after `after`.

        The next page begins after its last hash; an empty one is the end.
        """
        async with self._database.reading_all() as connection:
            # The media of a deleted project are removed before its rows.
            is_present = project_lookup.is_of_present(videos_table.c.project_id)
            return await self._find_references(
                connection, (videos_table.c.hash > after) & is_present, most
            )

    async def _find_references(
        self, connection: AsyncConnection, which: ColumnElement[bool], most: int
    ) -> tuple[VideoReferences, ...]:
        query = select(*_READER.columns).where(which).order_by(videos_table.c.hash).limit(most)
        found = await _READER.find_all(connection, query)
        names = [each.hash for each in found]
        files = select(trash.c.hash, trash.c.source)
        files = files.where(trash.c.hash.in_(names), trash.c.kind == "file")
        former: defaultdict[PublicHash, set[str]] = defaultdict(set)
        for hash_, source in await connection.execute(files):
            former[hash_].add(source)
        return tuple(
            msgspec.structs.replace(each, former=frozenset(former[each.hash])) for each in found
        )
