"""Streams are marked as off the air once no process writes their runs, and not before."""

import asyncio
from contextlib import ExitStack
from pathlib import Path

import pytest

from headend.hosts.stale_streams import (
    keep_resetting_stale_streams,
    keep_resetting_unowned_streams,
)
from headend.install.installation import DATABASE, install
from headend.install.locks import writer_lock
from storage.catalog import Catalog, open_catalog
from tests.support.sql import run_sql
from tests.support.waiting import until

LOOK, PATIENCE = 0.02, 0.2


async def is_live(catalog: Catalog) -> bool:
    return (await catalog.streams.find_all())[0].live


async def go_live(catalog: Catalog) -> None:
    stream = (await catalog.streams.find_all())[0]
    await catalog.live_state.set(
        stream.id, live=True, processing=True, on_air=0, sending={0}, no_audio=False, now_us=1
    )


async def off_the_air(catalog: Catalog) -> None:
    async with asyncio.timeout(30):
        while await is_live(catalog):  # noqa: ASYNC110 # a database does not report changes
            await asyncio.sleep(LOOK)


async def test_states_stay_while_a_writer_runs_and_are_reset_without_one(tmp_path: Path) -> None:
    await install(tmp_path)
    async with (
        open_catalog(tmp_path / DATABASE, migrate=False) as catalog,
        asyncio.TaskGroup() as tasks,
    ):
        keeping = tasks.create_task(
            keep_resetting_stale_streams(catalog, tmp_path, interval=LOOK, grace=PATIENCE)
        )
        with ExitStack() as writer:
            for _ in range(2):  # a second absence is noticed as the first was
                # In a thread: it blocks while the watcher, in this loop, holds the lock to reset.
                await asyncio.to_thread(writer.enter_context, writer_lock(tmp_path, "ingest"))
                await go_live(catalog)
                await asyncio.sleep(3 * PATIENCE)
                assert await is_live(catalog)
                writer.close()
                await off_the_air(catalog)
        keeping.cancel()


async def test_an_unreadable_folder_resets_no_stream(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    await install(folder)
    async with (
        open_catalog(folder / DATABASE, migrate=False) as catalog,
        asyncio.TaskGroup() as tasks,
    ):
        await go_live(catalog)
        hidden = tmp_path / "hidden"
        keeping = tasks.create_task(
            keep_resetting_stale_streams(catalog, hidden, interval=LOOK, grace=PATIENCE)
        )
        await asyncio.sleep(10 * LOOK)
        assert not keeping.done()
        hidden.mkdir()
        await off_the_air(catalog)
        keeping.cancel()


async def test_streams_of_a_dead_host_are_marked_off_the_air_and_others_stay(
    tmp_path: Path,
) -> None:
    await install(tmp_path)
    async with (
        open_catalog(tmp_path / DATABASE, migrate=False) as catalog,
        asyncio.TaskGroup() as tasks,
    ):
        stream = (await catalog.streams.find_all())[0]
        await catalog.hosts.register("another", "ingest", None, "1")
        keeping = tasks.create_task(
            keep_resetting_unowned_streams(catalog, 60, interval=LOOK, grace=PATIENCE)
        )
        for _ in range(2):  # a second absence is noticed as the first was
            host = await catalog.hosts.register("owner", "ingest", None, "1")
            await catalog.owners.claim(stream.id, host, dead_seconds=60)
            await go_live(catalog)
            await asyncio.sleep(3 * PATIENCE)
            assert await is_live(catalog)
            await catalog.hosts.leave(host)
            await off_the_air(catalog)
        keeping.cancel()


async def test_streams_that_are_taken_over_in_time_stay_on_the_air(tmp_path: Path) -> None:
    await install(tmp_path)
    async with (
        open_catalog(tmp_path / DATABASE, migrate=False) as catalog,
        asyncio.TaskGroup() as tasks,
    ):
        stream = (await catalog.streams.find_all())[0]
        first, second = [await catalog.hosts.register(name, "ingest", None, "1") for name in "ab"]
        generation = (await catalog.owners.claim(stream.id, first, dead_seconds=60)).generation
        await go_live(catalog)
        keeping = tasks.create_task(
            keep_resetting_unowned_streams(catalog, 60, interval=LOOK, grace=PATIENCE)
        )
        await asyncio.sleep(3 * PATIENCE)
        await catalog.owners.claim(stream.id, second, dead_seconds=60, ended_owner=generation)
        await catalog.hosts.leave(first)
        await asyncio.sleep(3 * PATIENCE)
        assert await is_live(catalog)
        keeping.cancel()


async def test_an_unreadable_catalog_resets_no_stream(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await install(tmp_path)
    location = tmp_path / DATABASE
    async with open_catalog(location, migrate=False) as catalog, asyncio.TaskGroup() as tasks:
        await go_live(catalog)
        run_sql(location, "ALTER TABLE hosts RENAME TO hidden")
        keeping = tasks.create_task(
            keep_resetting_unowned_streams(catalog, 60, interval=LOOK, grace=PATIENCE)
        )
        await until(lambda: "hosts not read" in caplog.messages)
        await asyncio.sleep(3 * PATIENCE)
        assert await is_live(catalog)
        assert caplog.messages.count("hosts not read") == 1
        run_sql(location, "ALTER TABLE hidden RENAME TO hosts")
        await off_the_air(catalog)
        keeping.cancel()
