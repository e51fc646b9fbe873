"""What a role runs on: its own sockets, media and rows that belong together, its host."""

import asyncio
import shutil
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from api.pusher.delivery import TOPIC
from delivery.edge.memory import MemoryEdge
from delivery.edge.publishing import PublishingEdge
from delivery.edge.remote import RemoteEdge
from delivery.edge.shared import SharedEdge
from headend.cli import main
from headend.hosts.presence import HostIdentity, HostPresence
from headend.install.installation import DATABASE, create_data_folder, install
from headend.install.media_store import OBJECTS
from headend.roles.context import open_context, open_presence
from headend.roles.readiness import find_problems
from media.ticks import MICROSECONDS
from storage.bus.base import BusMessage
from storage.catalog import open_catalog
from storage.catalog.engine.clock import DatabaseClock
from storage.catalog.records.common import Change
from storage.errors import CatalogUnavailable, HostNameTaken, MediaNotShared
from storage.installation_key import EmptyStore, StoreMismatch
from storage.lease_verdict import StoreInUse
from storage.objects.base import StoreClaimed, StoreFailed
from storage.wall_clock import wall_clock_us
from tests.support.headend.installed import installed, settings_of
from tests.support.postgres import PostgresServer
from tests.support.sql import run_sql

REDIS = "redis://127.0.0.1:1/0"  # nothing listens there


@contextmanager
def refused(kind: type[Exception], words: str) -> Generator[None]:
    """See that a start is refused with one error, from within the group of its tasks."""
    with pytest.raises(ExceptionGroup) as caught:
        yield
    (error,) = caught.value.exceptions
    assert isinstance(error, kind)
    assert words in str(error)


@pytest.mark.parametrize(("origin", "ingest"), [(True, True), (True, False), (False, False)])
async def test_a_role_listens_for_what_it_serves_alone(
    tmp_path: Path, origin: bool, ingest: bool
) -> None:
    settings = await installed(tmp_path)
    async with open_context(settings, origin=origin, ingest=ingest) as context:
        sockets = context.sockets
        assert (sockets.http is not None, sockets.rtmp is not None) == (origin, ingest)
        assert (sockets.rtmps is not None) is ingest
        assert (sockets.status is not None) is (origin or ingest)
        assert context.addresses.rtmp == "rtmp://in.example"
        assert context.first.project.id == 1


@pytest.mark.parametrize(("origin", "ingest"), [(True, False), (False, True)])
async def test_a_host_of_a_shared_database_goes_by_the_databases_clock(
    tmp_path: Path,
    postgres_server: PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
    origin: bool,
    ingest: bool,
) -> None:
    """Commands have deadlines, which another host compares with its clock."""
    defaults = DatabaseClock.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "wall_us", lambda: 0)
    with postgres_server.fresh_database() as url:
        settings = settings_of(tmp_path, database__url=url)
        await install(tmp_path, url)
        async with open_context(settings, origin=origin, ingest=ingest) as context:
            assert abs(context.catalog.clock.now_us() - wall_clock_us()) < 60 * MICROSECONDS


@pytest.mark.parametrize(
    ("origin", "ingest", "redis", "kind"),
    [
        pytest.param(True, True, "", MemoryEdge, id="one process"),
        pytest.param(True, False, "", MemoryEdge, id="api without Redis"),
        pytest.param(True, True, REDIS, PublishingEdge, id="the only one that makes streams"),
        pytest.param(False, True, REDIS, PublishingEdge, id="ingest"),
        pytest.param(True, False, REDIS, RemoteEdge, id="api"),
        pytest.param(False, False, REDIS, MemoryEdge, id="transcode"),
    ],
)
async def test_a_role_has_the_edge_that_it_needs(
    tmp_path: Path, origin: bool, ingest: bool, redis: str, kind: type[MemoryEdge]
) -> None:
    settings = await installed(tmp_path, redis__url=redis)
    async with open_context(settings, origin=origin, ingest=ingest) as context:
        assert type(context.edges.reader) is kind
        assert (context.edges.remote is not None) is (kind is RemoteEdge)


async def test_a_host_that_is_one_of_several_makes_streams_and_serves_those_of_others(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    with postgres_server.empty_database() as database:
        create_data_folder(tmp_path)
        await install(tmp_path, database)
        settings = settings_of(tmp_path, redis__url=REDIS, database__url=database)
        async with open_context(settings, origin=True, ingest=True) as context:
            assert type(context.edges.reader) is SharedEdge
            assert context.edges.writer is context.edges.publishing is not None
        async with open_context(settings, origin=False, ingest=True) as context:
            assert type(context.edges.writer) is PublishingEdge
            assert context.edges.remote is None


async def test_a_folder_that_is_not_installed_is_refused(tmp_path: Path) -> None:
    with refused(CatalogUnavailable, "headend migrate"):
        async with open_context(settings_of(tmp_path), origin=False, ingest=False):
            pass


async def test_media_of_another_installation_are_refused(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        async with open_context(await installed(folder), origin=False, ingest=False) as context:
            await context.verify()
            await context.objects.put("sources/AAAAAAAAAAAA/1", b"x")
    shutil.copy(there / DATABASE, here / DATABASE)
    with refused(StoreMismatch, "do not belong"):
        async with open_context(settings_of(here), origin=False, ingest=False):
            pass


@pytest.mark.parametrize(("origin", "ingest"), [(True, True), (True, False), (False, False)])
async def test_media_whose_disk_is_away_are_not_begun_anew(
    tmp_path: Path, origin: bool, ingest: bool
) -> None:
    settings = await installed(tmp_path)
    (tmp_path / OBJECTS).rename(tmp_path / "away")
    (tmp_path / OBJECTS).mkdir()
    with refused(EmptyStore, "check that the disk is mounted"):
        async with open_context(settings, origin=origin, ingest=ingest):
            pass
    assert list((tmp_path / OBJECTS).iterdir()) == []


async def test_media_whose_disk_goes_away_while_a_role_runs_are_noticed(tmp_path: Path) -> None:
    async with open_context(await installed(tmp_path), origin=False, ingest=False) as context:
        (tmp_path / OBJECTS).rename(tmp_path / "away")
        (tmp_path / OBJECTS).mkdir()
        with pytest.raises(StoreFailed, match="is its disk mounted"):
            await context.verify()
        assert list((tmp_path / OBJECTS).iterdir()) == []
        (tmp_path / OBJECTS).rmdir()
        (tmp_path / "away").rename(tmp_path / OBJECTS)
        await context.verify()


async def test_media_that_are_swapped_while_a_role_runs_are_noticed(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    async with open_context(await installed(there), origin=False, ingest=False):
        pass
    async with open_context(await installed(here), origin=False, ingest=False) as context:
        shutil.rmtree(here / OBJECTS)
        shutil.copytree(there / OBJECTS, here / OBJECTS)
        with pytest.raises(StoreMismatch):
            await context.verify()


async def test_what_a_role_writes_is_announced_on_its_bus(tmp_path: Path) -> None:
    settings = await installed(tmp_path)
    async with (
        open_context(settings, origin=False, ingest=False) as context,
        context.bus.subscribe(TOPIC) as notices,
    ):
        stream = context.first.stream
        assert stream is not None
        await context.catalog.streams.remove(stream.id, Change(1))
        async with asyncio.timeout(30):
            assert await notices.get() == BusMessage(TOPIC, b"")


async def test_a_copied_database_beside_the_same_media_is_refused_and_can_take_them_over(
    tmp_path: Path,
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    settings = await installed(here)
    create_data_folder(there)
    (there / OBJECTS).symlink_to(here / OBJECTS)
    async with open_context(settings, origin=False, ingest=False) as context:
        with (
            closing(sqlite3.connect(here / DATABASE)) as old,
            closing(sqlite3.connect(there / DATABASE)) as new,
        ):
            old.backup(new)

        async def renew() -> None:
            await asyncio.sleep(1)  # the start looks every two seconds
            run_sql(here / DATABASE, "UPDATE store_claims SET confirmed_us = 1, tried_us = 1")
            await context.lease.look()

        async with asyncio.TaskGroup() as tasks:
            renewing = tasks.create_task(renew())
            with refused(StoreInUse, "`headend take-over`"):
                async with open_context(settings_of(there), origin=False, ingest=False):
                    pass
        assert renewing.done()
        await context.verify()
        await context.objects.put("sources/AAAAAAAAAAAA/1", b"x")

        result = await asyncio.to_thread(
            CliRunner().invoke, main, ["take-over", "--data", str(there)]
        )
        assert result.exit_code == 0, result.output
        assert str(here / DATABASE) in result.output
        async with open_context(settings_of(there), origin=False, ingest=False) as other:
            await other.verify()
            for _ in range(2):
                run_sql(here / DATABASE, "UPDATE store_claims SET confirmed_us = 1, tried_us = 1")
                await context.lease.look()
            with pytest.raises(StoreClaimed):
                await context.verify()
            with pytest.raises(StoreClaimed):
                await context.objects.delete_tree("sources/AAAAAAAAAAAA")
            with pytest.raises(StoreClaimed):
                await context.objects.check()
            assert not await context.health.check_thoroughly(), "nothing is leased"
            problems = await find_problems(
                context.catalog, context.health, here, store="the disk", min_free_bytes=0
            )
            assert problems == [], "viewers are served as before"
        assert list((here / OBJECTS).glob("*/checks")) == []


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
