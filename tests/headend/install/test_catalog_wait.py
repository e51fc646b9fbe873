"""A role that starts while its database is away logs that once, and waits."""

import asyncio
from pathlib import Path

import pytest

from headend.install.catalog_wait import wait_for_catalog
from tests.support.postgres import PostgresServer
from tests.support.waiting import until

pytestmark = pytest.mark.anyio


async def test_a_server_that_is_away_is_waited_for(
    postgres_server: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    with postgres_server.fresh_database() as url:
        await asyncio.to_thread(postgres_server.stop)
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(wait_for_catalog(url))
            try:
                await until(lambda: "waiting for the database" in caplog.messages)
                await asyncio.sleep(2.5)  # two more attempts
                assert not waiting.done()
            finally:
                await asyncio.to_thread(postgres_server.start)
    (line,) = [each for each in caplog.records if each.msg == "waiting for the database"]
    assert vars(line)["cause"] == "the catalog cannot be reached (no server at that socket)"


async def test_errors_that_an_operator_must_fix_are_not_waited_for(
    postgres_server: PostgresServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with postgres_server.empty_database() as url:
        await wait_for_catalog(url)  # it has no tables, which the start reports later
        await wait_for_catalog(url.replace("postgres@/", "guarded:wrong@/"))
        await wait_for_catalog(url.replace("postgres@/test", "postgres@/no-test"))
    await wait_for_catalog(tmp_path / "none.db")
    assert caplog.messages == []
