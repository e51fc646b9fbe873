"""The order of locks: what is left to a transaction's end, and no deadlock on a real PostgreSQL."""

from functools import partial

from sqlalchemy.ext.asyncio import AsyncConnection

from storage.catalog import Catalog, open_catalog
from storage.catalog.engine.database import Database, database_url, open_database
from storage.catalog.engine.lock_order import Rank, defer
from storage.catalog.records.videos import VideoFile
from storage.catalog.videos.transcoding import MadeVideo
from tests.support.storage.concurrent_calls import Call, count_refused
from tests.support.storage.new_videos import new_video

NOW = 1_800_000_000_000_000
CALLERS = 4  # of each kind
CALLS = 10  # of each caller
MADE = MadeVideo(
    media="1-1", size=1, length_us=1, rungs=(), posters=None, poster_labels=(), warnings=()
)
OTHER = VideoFile(source="other", size=1, length_us=1, width=1, height=1, rungs=())


async def test_deferred_writes_are_made_in_the_order_of_their_rows(sqlite_database: str) -> None:
    writes: list[str] = []

    async def write(_connection: AsyncConnection, *, name: str) -> None:
        writes.append(name)

    async with open_database(database_url(sqlite_database), create=False) as database:
        nudges = _count_nudges(database)
        async with database.writing() as connection:
            defer(connection, Rank.OUTBOX, partial(write, name="first notice"))
            defer(connection, Rank.TOTALS, partial(write, name="2 b"), row=(2, "b"))
            defer(connection, Rank.TOTALS, partial(write, name="2 a"), row=(2, "a"))
            defer(connection, Rank.OUTBOX, partial(write, name="second notice"))
            defer(connection, Rank.TOTALS, partial(write, name="1 c"), row=(1, "c"))
            assert writes == []
        assert writes == ["1 c", "2 a", "2 b", "first notice", "second notice"]
        async with database.writing() as connection:
            defer(connection, Rank.TOTALS, partial(write, name="alone"), row=(1, "c"))
    assert (writes[-1], len(nudges)) == ("alone", 1)


def _count_nudges(database: Database) -> list[None]:
    nudges: list[None] = []
    database.after_outbox_commit = lambda: nudges.append(None)
    return nudges


async def _add_video(catalog: Catalog) -> int:
    file = new_video()
    return (await catalog.videos.add(1, file, NOW, by=None)).video.id


async def test_videos_complete_while_others_get_another_file(postgres_url: str) -> None:
    async with open_catalog(postgres_url, migrate=False) as catalog:
        await catalog.installation.first_start(NOW)

        async def complete(owner: str) -> None:
            leased = await catalog.jobs.lease(owner, NOW)
            assert leased is not None
            await catalog.transcoding.complete(leased, MADE, NOW)

        completed = [await _add_video(catalog) for _ in range(CALLERS * CALLS)]
        for video in completed:
            await complete(f"first {video}")
        for _ in completed:
            await _add_video(catalog)
        callers: list[list[Call]] = []
        for caller in range(CALLERS):
            callers.append([partial(complete, f"{caller} {call}") for call in range(CALLS)])
            replaced = completed[caller::CALLERS]
            callers.append(
                [partial(catalog.videos.replace, video, OTHER, NOW, by=None) for video in replaced]
            )
        assert await count_refused(callers) == 0
