"""Streams go off the air on paper when nobody writes runs any more, and not before."""

import asyncio
from contextlib import ExitStack
from pathlib import Path

from headend.install.installation import DATABASE, install
from headend.install.locks import writer_lock
from headend.roles.stale_streams import keep_resetting_stale_streams
from storage.catalog import Catalog, open_catalog

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
        while await is_live(catalog):  # noqa: ASYNC110 # a database tells nobody of a change
            await asyncio.sleep(LOOK)


async def test_states_stay_while_somebody_writes_and_go_when_nobody_does(tmp_path: Path) -> None:
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


async def test_a_folder_that_cannot_be_looked_at_ends_nothing(tmp_path: Path) -> None:
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
