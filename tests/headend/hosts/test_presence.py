"""A process is a registered host while it runs: it updates its row, and is lost if it cannot."""

import asyncio
import logging
import sqlite3
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from headend.hosts.presence import HostIdentity, HostPresence
from headend.supervision import BackgroundTask, run_in_background
from storage.catalog import Catalog, open_catalog
from storage.errors import HostNameTaken
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
