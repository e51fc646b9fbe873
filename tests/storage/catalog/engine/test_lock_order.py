"""The order of locks: what is left to a transaction's end, and no deadlock on a real PostgreSQL."""

import asyncio
from functools import partial

import pytest
from sqlalchemy import delete, select

from storage.catalog import Catalog, open_catalog
from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.engine.database import Database, database_url, open_database
from storage.catalog.engine.lock_order import Rank, defer
from storage.catalog.library.sessions import require_valid
from storage.catalog.queries import project_lookup
from storage.catalog.records.common import Change
from storage.catalog.records.details import VideoDetails
from storage.catalog.records.transcoding import MadeVideo
from storage.catalog.records.videos import VideoFile
from storage.catalog.schema.tables import tags, tokens
from storage.catalog.uploads import links
from storage.catalog.videos.jobs import TRANSCODE
from storage.errors import UploadLinkSpent
from tests.support.sql import WAITING, run_sql
from tests.support.storage.concurrent_calls import Call, count_refused
from tests.support.storage.new_videos import new_upload, new_video
from tests.support.waiting import until

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
    return (await catalog.videos.add(1, file, Change(NOW))).video.id


async def test_videos_complete_while_others_get_another_file(postgres_url: str) -> None:
    async with open_catalog(postgres_url, migrate=False) as catalog:
        await catalog.installation.first_start(NOW)

        async def complete(owner: str) -> None:
            leased = await catalog.jobs.lease(owner, NOW, TRANSCODE)
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
                [partial(catalog.videos.replace, video, OTHER, Change(NOW)) for video in replaced]
            )
        assert await count_refused(callers) == 0


async def test_a_project_is_deleted_while_one_of_its_tokens_adds_something(
    postgres_url: str,
) -> None:
    async with (
        open_catalog(postgres_url, migrate=False) as catalog,
        open_database(database_url(postgres_url), create=False) as database,
    ):
        await catalog.installation.first_start(NOW)
        project = (await catalog.projects.add("Doomed", Change(NOW))).id
        token, _ = await catalog.tokens.add("theirs", project, Change(NOW), write=True)
        async with asyncio.TaskGroup() as tasks, database.writing() as connection:
            await require_valid(connection, token.id)
            removal = tasks.create_task(catalog.projects.remove(project, Change(NOW)))
            await until(lambda: run_sql(postgres_url, WAITING) == [(1,)])
            await project_lookup.require(connection, project)
        assert removal.result()


async def test_a_link_signs_in_while_its_token_is_deleted(postgres_url: str) -> None:
    async with (
        open_catalog(postgres_url, migrate=False) as catalog,
        open_database(database_url(postgres_url), create=False) as database,
    ):
        token, _ = await catalog.tokens.add("theirs", None, Change(NOW), write=True)
        link = await catalog.sessions.add_link(token.id, NOW)
        is_token = tokens.c.id == token.id
        async with asyncio.TaskGroup() as tasks, database.writing() as connection:
            await connection.execute(select(tokens.c.id).where(is_token).with_for_update())
            sign_in = tasks.create_task(catalog.sessions.redeem_link(link, NOW))
            await until(lambda: run_sql(postgres_url, WAITING) == [(1,)])
            await connection.execute(delete(tokens).where(is_token))
        assert sign_in.result() is None


async def test_an_upload_begins_while_its_link_is_used_by_another(postgres_url: str) -> None:
    async with (
        open_catalog(postgres_url, migrate=False) as catalog,
        open_database(database_url(postgres_url), create=False) as database,
    ):
        project = (await catalog.installation.first_start(NOW)).project.id
        tag = await catalog.labels.add("tag", project, "Tag", Change(NOW), active=True)
        details = VideoDetails(tags=(tag.id,))
        number, _ = await catalog.links.add(
            project, details, Change(NOW), most_bytes=1000, expires_us=NOW + 1
        )
        new = new_upload(wanted=details, link=number, expires_us=NOW + 1)

        async def begin() -> None:
            with pytest.raises(UploadLinkSpent):
                await catalog.uploads.begin(project, new, NOW)

        async with asyncio.TaskGroup() as group, database.writing() as connection:
            await links.use(connection, number, NOW)
            group.create_task(begin())
            await until(lambda: run_sql(postgres_url, WAITING) == [(1,)])
            locked = select(tags.c.id).where(tags.c.id == tag.id).with_for_update()
            assert (await connection.execute(locked)).scalar_one() == tag.id
