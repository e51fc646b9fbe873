"""A category or a player that many videos have is deleted while they are edited."""

import asyncio
from contextlib import suppress
from functools import partial
from itertools import cycle
from pathlib import Path

import psycopg

from storage.catalog import Catalog, open_catalog
from storage.catalog.records.common import Change, PlayerOptions
from storage.catalog.records.details import StreamDetails, VideoDetails
from storage.catalog.schema.tables import streams, videos
from storage.errors import NoSuchLabel
from tests.support.shared_engines import ON_BOTH
from tests.support.sql import run_sql
from tests.support.storage.many_rows import copy_rows, padded
from tests.support.storage.new_videos import new_video
from tests.support.waiting import until

NOW = 1_800_000_000_000_000
MANY = 2500  # five batches


async def fill(catalog: Catalog, location: str | Path, many: int = MANY) -> tuple[int, int, int]:
    """Add many videos with a category and a player; return the first one's number, and theirs."""
    await catalog.installation.first_start(NOW)
    category = await catalog.labels.add("category", 1, "c", Change(NOW), active=True)
    player = await catalog.players.add(1, "p", PlayerOptions(), Change(NOW))
    video = (await catalog.videos.add(1, new_video(), Change(NOW))).video.id
    await catalog.videos.edit(video, VideoDetails.edit(category=category.id), Change(NOW))
    await catalog.videos.set_player(video, player.id, Change(NOW))
    copy_rows(location, videos, video, many, {"hash": padded(location, "V")})
    return video, category.id, player.id


@ON_BOTH
async def test_an_edit_does_not_wait_for_the_whole_deletion(
    catalog: Catalog, location: str | Path
) -> None:
    video, category, player = await fill(catalog, location)
    for remove in (
        partial(catalog.labels.remove, "category", category),
        partial(catalog.players.remove, player),
    ):
        async with asyncio.TaskGroup() as tasks:
            deleting = tasks.create_task(remove(Change(NOW)))
            await asyncio.sleep(0)  # it comes first
            await catalog.videos.edit(video + 9, VideoDetails.edit(title="new"), Change(NOW))
            assert not deleting.done()
        assert deleting.result()
    for column in ("category_id", "player_id"):
        remaining = run_sql(location, f"SELECT count(*) FROM videos WHERE {column} IS NOT NULL")
        assert remaining == [(0,)]


async def test_others_keep_theirs_and_versions_stay(catalog: Catalog, location: str | Path) -> None:
    video, category, player = await fill(catalog, location)
    (stream,) = await catalog.streams.find_all()
    await catalog.streams.edit(stream.id, StreamDetails.edit(category=category), Change(NOW))
    other = await catalog.labels.add("category", 1, "o", Change(NOW), active=True)
    await catalog.videos.edit(video, VideoDetails.edit(category=other.id), Change(NOW))
    versions = f"SELECT version FROM {videos.name} UNION ALL SELECT version FROM {streams.name}"
    before = run_sql(location, versions)
    assert await catalog.labels.remove("category", category, Change(NOW))
    having = "SELECT category_id FROM videos UNION SELECT category_id FROM streams"
    assert set(run_sql(location, having)) == {(None,), (other.id,)}
    assert run_sql(location, f"SELECT DISTINCT player_id FROM {videos.name}") == [(player,)]
    assert run_sql(location, versions) == before
    assert not await catalog.labels.remove("category", category, Change(NOW))


async def test_a_video_that_got_the_category_meanwhile_is_edited_while_it_is_deleted(
    postgres_url: str,
) -> None:
    async with open_catalog(postgres_url, migrate=False) as catalog:
        await catalog.installation.first_start(NOW)
        category = await catalog.labels.add("category", 1, "c", Change(NOW), active=True)
        await catalog.videos.add(1, new_video(), Change(NOW))
        with psycopg.connect(postgres_url) as first, psycopg.connect(postgres_url) as edit:
            first.execute("SELECT * FROM categories FOR KEY SHARE")
            async with asyncio.TaskGroup() as tasks:
                deleting = tasks.create_task(
                    catalog.labels.remove("category", category.id, Change(NOW))
                )
                await until(lambda: _is_awaited(first))
                run_sql(postgres_url, f"UPDATE videos SET category_id = {category.id}")
                edit.execute("SELECT * FROM videos FOR UPDATE")
                first.commit()
                await until(lambda: _is_awaited(edit))
                await asyncio.to_thread(edit.execute, "SELECT * FROM categories FOR KEY SHARE")
                edit.commit()
        assert deleting.result()
        assert run_sql(postgres_url, "SELECT category_id FROM videos") == [(None,)]


@ON_BOTH
async def test_a_deletion_ends_though_videos_keep_getting_the_player(
    catalog: Catalog, location: str | Path
) -> None:
    """Whenever it has cleared all, some have got it before it is looked at again."""
    video, _, player = await fill(catalog, location, 400)

    async def choose(first: int) -> None:
        with suppress(NoSuchLabel):  # it is deleted
            for number in cycle(range(first, first + 100)):
                await catalog.videos.set_player(number, player, Change(NOW))

    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        for first in range(video, video + 400, 100):
            tasks.create_task(choose(first))
        assert await catalog.players.remove(player, Change(NOW))
    assert run_sql(location, "SELECT count(*) FROM videos WHERE player_id IS NOT NULL") == [(0,)]


def _is_awaited(session: psycopg.Connection) -> bool:
    """Return whether another session waits for a lock of this one's."""
    pid = session.info.backend_pid
    with psycopg.connect(session.info.dsn, password=session.info.password) as asking:
        query = "SELECT 1 FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))"
        return asking.execute(query, (pid,)).fetchone() is not None
