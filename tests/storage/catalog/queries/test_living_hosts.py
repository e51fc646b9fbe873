"""The conditions of living hosts, and of the streams that they own."""

from pathlib import Path

from sqlalchemy import select

from storage.catalog import Catalog
from storage.catalog.engine.database import Database
from storage.catalog.queries.living_hosts import is_living, select_owned
from storage.catalog.schema.tables import hosts
from tests.support.shared_engines import ON_BOTH
from tests.support.sql import run_sql


@ON_BOTH
async def test_hosts_live_while_they_are_seen_and_own_streams_while_they_live(
    catalog: Catalog, database: Database, location: str | Path
) -> None:
    for stream, seen in enumerate((0, 2, 4, -4), start=1):
        host = await catalog.hosts.register(f"{seen} s ago", "ingest", None, "1")
        await catalog.owners.claim(stream, host, dead_seconds=60)
        run_sql(location, f"UPDATE hosts SET seen_us = seen_us - {seen}000000 WHERE id = {host}")
    for dead_seconds, living in ((3.0, 2), (1.0, 1), (60.0, 4)):
        async with database.reading() as connection:
            query = select(hosts.c.name).where(is_living(connection, dead_seconds))
            assert len((await connection.execute(query)).all()) == living
            owned = (await connection.execute(select_owned(connection, dead_seconds))).scalars()
            assert sorted(owned) == list(range(1, living + 1))


async def test_a_released_stream_is_owned_by_no_living_host(
    catalog: Catalog, database: Database
) -> None:
    host = await catalog.hosts.register("a", "ingest", None, "1")
    claimed = await catalog.owners.claim(1, host, dead_seconds=60)
    await catalog.owners.release(1, host, claimed.generation)
    async with database.reading() as connection:
        assert (await connection.execute(select_owned(connection, 60))).all() == []
