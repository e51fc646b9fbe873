"""A process is a registered host while it runs: it updates its row, and is lost if it cannot."""

import asyncio
import logging
import shutil
import sqlite3
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from headend.install.installation import create_data_folder, install
from headend.roles.context import open_context
from headend.roles.host_presence import HostIdentity, HostPresence, open_presence
from headend.roles.supervision import BackgroundTask, run_in_background
from storage.catalog import Catalog, open_catalog
from storage.errors import HostNameTaken, MediaNotShared
from tests.support.headend.installed import installed, settings_of
from tests.support.postgres import PostgresServer
from tests.support.sql import run_sql
from tests.support.waiting import until

IDENTITY = HostIdentity(name="here", role="ingest", address=None, version="1")
INTERVAL = 0.02
NEVER = 1000.0  # seconds, which no test takes


class ReportedPresence:
    """A presence that runs, and what it reported: "lost", or the streams that it owns."""

    def __init__(self, catalog: Catalog, *, dead_seconds: float) -> None:
        self.reports: list[str | dict[int, int]] = []
        self.suspended = 0.0  # seconds
        self.presence = HostPresence(
            catalog,
            IDENTITY,
            dead_seconds=dead_seconds,
            interval=INTERVAL,
            now=lambda: time.monotonic() + self.suspended,
        )
        self.presence.on_owned = self._add
        self.presence.on_lost = lambda: self.reports.append("lost")

    def _add(self, owned: Mapping[int, int]) -> None:
        self.reports.append(dict(owned))

    @property
    def last(self) -> str | dict[int, int] | None:
        return self.reports[-1] if self.reports else None

    @property
    def number(self) -> int:
        assert self.presence.host is not None
        return self.presence.host

    async def next_report(self) -> str | dict[int, int]:
        """Return the first report from now on."""
        count = len(self.reports)
        await until(lambda: len(self.reports) > count)
        return self.reports[count]


async def change(location: Path, statement: str) -> None:
    """Change rows in a thread, since a transaction in this loop may have the lock."""
    await asyncio.to_thread(run_sql, location, statement)


@pytest.fixture
async def catalog(sqlite_database: Path) -> AsyncGenerator[Catalog]:
    async with open_catalog(sqlite_database, migrate=False) as opened:
        yield opened


@asynccontextmanager
async def running(
    catalog: Catalog, *, dead_seconds: float = NEVER
) -> AsyncGenerator[ReportedPresence]:
    host = ReportedPresence(catalog, dead_seconds=dead_seconds)
    await host.presence.register()
    async with run_in_background(BackgroundTask("presence", host.presence.keep_seen)):
        yield host


async def test_a_host_is_seen_and_reports_what_it_owns(
    catalog: Catalog, sqlite_database: Path
) -> None:
    async with running(catalog) as host:
        assert await host.next_report() == {}
        owned = await catalog.owners.claim(7, host.number, dead_seconds=NEVER)
        await until(lambda: host.last == {7: owned.generation})
        other = await catalog.hosts.register("other", "ingest", None, "1")
        await catalog.owners.claim(7, other, dead_seconds=NEVER, ended_owner=owned.generation)
        await until(lambda: host.last == {})
        await change(sqlite_database, "UPDATE hosts SET seen_us = 0 WHERE name = 'here'")
        await host.next_report()
        await host.next_report()  # from a turn that began after the update
        (record, _) = await catalog.hosts.find_all(NEVER)
        assert (record.name, record.role, record.alive) == ("here", "ingest", True)
        assert "lost" not in host.reports


async def test_a_database_that_is_away_for_too_long_loses_the_host_once(
    catalog: Catalog, sqlite_database: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with running(catalog, dead_seconds=0.5) as host:
        await host.next_report()
        with closing(
            sqlite3.connect(sqlite_database, isolation_level=None, check_same_thread=False)
        ) as other:
            await asyncio.to_thread(other.execute, "BEGIN IMMEDIATE")
            await until(lambda: host.last == "lost")
            await asyncio.sleep(1)  # longer than it takes to be lost again
        assert await host.next_report() == {}
        assert await host.next_report() == {}
    pairs = zip(host.reports, host.reports[1:], strict=False)
    assert ("lost", "lost") not in pairs
    assert "host not seen: it owns no stream" in caplog.messages
    assert caplog.messages[-1] == "host seen again"


async def test_a_process_that_slept_is_lost_before_it_owns_again(catalog: Catalog) -> None:
    async with running(catalog) as host:
        await host.next_report()
        host.suspended += 2 * NEVER
        await until(lambda: "lost" in host.reports)
        assert await host.next_report() == {}
        assert host.reports.count("lost") == 1


async def test_a_host_whose_row_was_removed_registers_again(catalog: Catalog) -> None:
    async with running(catalog) as host:
        before = host.number
        owned = await catalog.owners.claim(7, before, dead_seconds=NEVER)
        await until(lambda: host.last == {7: owned.generation})
        await catalog.hosts.leave(before)
        await until(lambda: "lost" in host.reports)
        await until(lambda: host.last == {})
        assert host.number > before
        assert [each.id for each in await catalog.hosts.find_all(NEVER)] == [host.number]


async def test_a_host_that_stops_takes_no_new_streams_even_if_it_registers_again(
    catalog: Catalog, sqlite_database: Path
) -> None:
    async with running(catalog) as host:
        (before,) = await catalog.hosts.find_all(NEVER)
        assert before.capacity is None
        await host.presence.close_to_new_streams()
        (stopping,) = await catalog.hosts.find_all(NEVER)
        assert (stopping.id, stopping.capacity, stopping.alive) == (before.id, 0, True)
        await change(sqlite_database, "DELETE FROM hosts")
        await until(lambda: host.presence.host not in (None, before.id))
        (again,) = await catalog.hosts.find_all(NEVER)
        assert again.capacity == 0


async def test_of_two_processes_with_one_name_the_later_is_the_host(
    catalog: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(catalog) as host:
        later = await catalog.hosts.register("here", "ingest", None, "2")
        await until(lambda: host.presence.host is None and host.last == "lost")
        await until(lambda: "host not seen" in caplog.messages)
        await asyncio.sleep(5 * INTERVAL)
        assert [each.id for each in await catalog.hosts.find_all(NEVER)] == [later]
        (line,) = [each for each in caplog.records if each.msg == "host not seen"]
        assert "set hosts.name" in vars(line)["cause"]
        await catalog.hosts.leave(later)
        await until(lambda: host.last == {})
        assert host.number > later


async def test_a_process_with_the_name_of_a_live_host_does_not_start(catalog: Catalog) -> None:
    async with running(catalog) as first, asyncio.TaskGroup() as tasks:
        second = ReportedPresence(catalog, dead_seconds=NEVER)
        starting = tasks.create_task(refused_start(second.presence))
        await first.next_report()
        assert not starting.done(), "the other may have been killed just now"
        second.suspended += 2 * NEVER
        assert "runs as host here: set hosts.name" in await starting
        assert [each.id for each in await catalog.hosts.find_all(NEVER)] == [first.number]
        assert second.presence.host is None


async def refused_start(presence: HostPresence) -> str:
    with pytest.raises(HostNameTaken) as caught:
        await presence.start()
    return str(caught.value)


async def test_a_process_waits_until_another_of_its_name_is_gone(
    catalog: Catalog, sqlite_database: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    killed = await catalog.hosts.register("here", "ingest", None, "1")
    host = ReportedPresence(catalog, dead_seconds=NEVER)
    async with asyncio.TaskGroup() as tasks:
        starting = tasks.create_task(host.presence.start())
        await asyncio.sleep(5 * INTERVAL)
        assert not starting.done()
        (line,) = [each for each in caplog.records if "waiting until the host" in each.message]
        assert vars(line)["number"] == killed
        await change(sqlite_database, "UPDATE hosts SET seen_us = 0")
    assert [each.id for each in await catalog.hosts.find_all(NEVER)] == [host.number]


async def test_a_host_that_cannot_deregister_still_ends(
    catalog: Catalog, sqlite_database: Path, caplog: pytest.LogCaptureFixture
) -> None:
    host = ReportedPresence(catalog, dead_seconds=NEVER)
    await host.presence.register()
    run_sql(sqlite_database, "DROP TABLE stream_owners", "DROP TABLE hosts")
    await host.presence.leave()
    assert caplog.messages[-1] == "host not removed"


async def test_a_role_is_a_host_of_a_shared_database_while_it_runs(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    with postgres_server.fresh_database() as url:
        settings = settings_of(
            tmp_path, database__url=url, hosts__name="one", hosts__relay_listen="127.0.0.1:0"
        )
        await install(tmp_path, url)
        async with open_context(settings, origin=False, ingest=True) as context:
            async with open_presence(context, "ingest") as presence:
                assert presence is not None
                (record,) = await context.catalog.hosts.find_all(60)
                assert (record.id, record.name, record.role) == (presence.host, "one", "ingest")
                assert record.address == context.sockets.relay_address(settings.hosts)
                assert record.address is not None
            assert await context.catalog.hosts.find_all(60) == ()


async def test_a_copied_data_folder_takes_nothing_from_the_host_of_the_original(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    """The copy has every file of the original, also what versions before 0.3 wrote there."""
    original, copied = tmp_path / "original", tmp_path / "copied"
    with postgres_server.fresh_database() as url:
        changes = {"database__url": url, "hosts__name": "one", "hosts__dead_seconds": "2"}
        create_data_folder(original)
        await install(original, url)
        settings = settings_of(original, **changes)
        async with (
            open_context(settings, origin=False, ingest=True) as context,
            open_presence(context, "ingest") as presence,
        ):
            assert presence is not None
            (original / "host.number").write_text(f"{presence.host}\n")
            shutil.copytree(original, copied)
            async with open_catalog(url, migrate=False) as catalog:
                identity = HostIdentity(name="one", role="ingest", address=None, version="1")
                other = HostPresence(catalog, identity, dead_seconds=2)
                with pytest.raises(HostNameTaken):
                    await other.start()
            (record,) = await context.catalog.hosts.find_all(2)
            assert (record.id, record.alive, presence.problem) == (presence.host, True, "")


async def test_hosts_that_keep_media_in_folders_do_not_share_a_database(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    with postgres_server.fresh_database() as url:
        settings = settings_of(tmp_path, database__url=url, hosts__name="one")
        await install(tmp_path, url)
        async with open_context(settings, origin=False, ingest=True) as context:
            other = await context.catalog.hosts.register("other", "ingest", None, "1")
            with pytest.raises(MediaNotShared, match=r"storage\.url"):
                async with open_presence(context, "ingest"):
                    pass
            assert [each.id for each in await context.catalog.hosts.find_all(60)] == [other]
            await context.catalog.hosts.leave(other)
            async with open_presence(context, "ingest") as presence:
                assert presence is not None


async def test_there_are_no_hosts_with_sqlite(tmp_path: Path) -> None:
    settings = await installed(tmp_path)
    async with (
        open_context(settings, origin=False, ingest=True) as context,
        open_presence(context, "ingest") as presence,
    ):
        assert presence is None
        assert await context.catalog.hosts.find_all(60) == ()
