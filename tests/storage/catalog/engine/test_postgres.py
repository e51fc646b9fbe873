"""The database on the real PostgreSQL: its limits, its locks, its errors, its restarts."""

import asyncio
import os
import signal
import tempfile
import traceback
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import func, insert, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from storage.catalog import Catalog, open_catalog
from storage.catalog.engine import database
from storage.catalog.engine.database import Database, database_url, open_database
from storage.catalog.records.common import Change
from storage.catalog.schema.tables import projects, streams
from storage.errors import CatalogBusy, CatalogError, CatalogUnavailable
from tests.support.memory_folder import memory_folder
from tests.support.pgbouncer import running_pgbouncer
from tests.support.postgres import PASSWORD, PostgresServer, running_postgres
from tests.support.waiting import SCALE

SHORT_MS = 200


@asynccontextmanager
async def _opened(url: str, busy_ms: int = SHORT_MS) -> AsyncGenerator[Database]:
    async with open_database(database_url(url), create=False, busy_ms=busy_ms) as opened:
        yield opened


async def _said(postgres: Database, name: str) -> list[object]:
    values: list[object] = []
    for transaction in (postgres.reading(), postgres.writing()):
        async with transaction as connection:
            values.append((await connection.execute(text(f"SHOW {name}"))).scalar_one())
    return values


@contextmanager
def _held(url: str, statement: str) -> Generator[None]:
    """Hold the locks that a statement takes, as another process would."""
    with psycopg.connect(url) as other:
        other.execute(statement.encode())
        yield
        other.rollback()


async def test_readers_see_a_snapshot_and_nothing_waits_for_ever(postgres_url: str) -> None:
    async with _opened(postgres_url, busy_ms=10_000) as postgres:
        assert await _said(postgres, "transaction_isolation") == [
            "repeatable read",
            "read committed",
        ]
        assert await _said(postgres, "transaction_read_only") == ["on", "off"]
        assert await _said(postgres, "lock_timeout") == ["10s", "10s"]
        assert await _said(postgres, "statement_timeout") == ["30s", "30s"]
        assert await _said(postgres, "idle_in_transaction_session_timeout") == ["30s", "5s"]


async def test_options_in_the_address_count(postgres_url: str) -> None:
    url = f"{postgres_url}&application_name=mine&options=-c%20statement_timeout%3D7s"
    async with _opened(url) as postgres:
        assert await _said(postgres, "application_name") == ["mine", "mine"]
        assert await _said(postgres, "statement_timeout") == ["7s", "7s"]
        assert await _said(postgres, "lock_timeout") == ["200ms", "200ms"]


async def test_an_address_may_name_the_sockets_folder_as_its_host(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    name = postgres_url.partition("/test")[2].partition("?")[0]
    folder = str(postgres_server.folder).replace("/", "%2F")
    async with open_catalog(f"postgres://postgres@{folder}/test{name}", migrate=False) as catalog:
        await catalog.ping()


async def test_a_row_that_another_process_keeps_is_reported_as_busy(postgres_url: str) -> None:
    async with _opened(postgres_url) as postgres:
        async with postgres.writing() as connection:
            await connection.execute(insert(projects).values(key="a", name="a", created_us=1))
        with _held(postgres_url, "SELECT * FROM projects FOR UPDATE"):
            with pytest.raises(CatalogBusy):
                async with postgres.writing() as connection:
                    await connection.execute(select(projects.c.id).with_for_update())
            async with postgres.reading() as connection:  # readers do not wait for writers
                assert (await connection.execute(select(projects.c.name))).scalar_one() == "a"
        async with postgres.writing() as connection:
            await connection.execute(select(projects.c.id).with_for_update())


async def test_a_writer_that_stops_in_a_transaction_blocks_others_for_seconds_only(
    postgres_url: str,
) -> None:
    """A host that is frozen or cut off keeps its connections open and its rows locked."""
    async with _opened(postgres_url, busy_ms=database.BUSY_MS) as postgres:
        async with postgres.writing() as connection:
            await connection.execute(insert(projects).values(key="a", name="a", created_us=1))
        query = select(projects.c.id).with_for_update()
        clock = asyncio.get_running_loop().time
        with pytest.raises(CatalogBusy):  # the statement's own lock; the change is rolled back
            async with postgres.writing() as stopped:
                await stopped.execute(query)
                began = clock()
                async with postgres.writing() as connection:
                    await connection.execute(query)
                assert clock() - began < database.BUSY_MS / 1000
                await stopped.execute(query)


@pytest.fixture
def remote_postgres_url() -> Iterator[str]:
    """Return the URL of a database that is reached over an address, as on another host."""
    with running_postgres("127.0.0.1") as server, server.fresh_database() as location:
        yield location


async def test_the_server_notices_that_a_host_is_gone(remote_postgres_url: str) -> None:
    async with _opened(remote_postgres_url) as postgres:
        assert await _said(postgres, "tcp_keepalives_idle") == ["5", "5"]
        assert await _said(postgres, "tcp_keepalives_count") == ["2", "2"]


async def test_writers_that_wait_for_each_other_are_told_that_it_is_busy(
    postgres_url: str,
) -> None:
    async with _opened(postgres_url, busy_ms=10_000) as postgres:
        async with postgres.writing() as connection:
            for key in ("a", "b"):
                await connection.execute(insert(projects).values(key=key, name=key, created_us=1))
        first = asyncio.Barrier(2)
        ends: list[str] = []

        async def lock(*keys: str) -> None:
            try:
                async with postgres.writing() as connection:
                    for key in keys:
                        query = select(projects).where(projects.c.key == key)
                        await connection.execute(query.with_for_update())
                        if key == keys[0]:
                            await first.wait()
                ends.append("done")
            except CatalogBusy:
                ends.append("busy")

        async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
            tasks.create_task(lock("a", "b"))
            tasks.create_task(lock("b", "a"))
        assert sorted(ends) == ["busy", "done"]


async def test_a_statement_that_takes_too_long_is_reported_as_busy(postgres_url: str) -> None:
    async with _opened(f"{postgres_url}&options=-c%20statement_timeout%3D100") as postgres:
        with pytest.raises(CatalogBusy):
            async with postgres.reading() as connection:
                await connection.execute(text("SELECT pg_sleep(20)"))


async def test_more_tasks_than_connections_take_turns(postgres_url: str) -> None:
    async with open_catalog(postgres_url, migrate=False) as catalog:
        await catalog.installation.first_start(1)
        async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
            for number in range(40):
                tasks.create_task(catalog.streams.add(1, f"{number}", Change(number)))
                tasks.create_task(catalog.streams.find_page(1))
        assert (await catalog.streams.find_page(1)).total == 41


async def test_a_server_that_takes_no_more_connections_is_reported_as_busy(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    name = postgres_url.partition("@/")[2].partition("?")[0]
    postgres_server.execute(f"ALTER DATABASE {name} CONNECTION LIMIT 0")
    postgres_server.execute("ALTER ROLE guarded NOSUPERUSER")  # a limit is not for superusers
    try:
        with pytest.raises(CatalogBusy, match="no more connections"):
            async with open_catalog(postgres_server.url(name, "guarded", PASSWORD), migrate=False):
                pass
    finally:
        postgres_server.execute("ALTER ROLE guarded SUPERUSER")


async def test_a_restart_of_the_server_is_survived(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    async with open_catalog(postgres_url, migrate=False) as catalog:
        await catalog.installation.first_start(1)
        await _use(catalog)
        await asyncio.to_thread(postgres_server.stop)
        try:
            with pytest.raises(CatalogUnavailable, match="no server at that socket"):
                await catalog.ping()
        finally:
            await asyncio.to_thread(postgres_server.start)
        await _use(catalog)


async def test_sessions_that_an_operator_ended_are_replaced_unnoticed(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    async with open_catalog(postgres_url, migrate=False) as catalog:
        await catalog.installation.first_start(1)
        await _use(catalog)
        ended = postgres_server.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE application_name = 'headend'"
        )
        assert len(ended) >= 2
        await _use(catalog)


async def test_a_transaction_whose_session_was_ended_is_unavailable(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    async with _opened(postgres_url) as postgres:
        with pytest.raises(CatalogUnavailable):
            async with postgres.writing() as connection:
                await connection.execute(insert(projects).values(key="a", name="a", created_us=1))
                postgres_server.execute(
                    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                    " WHERE application_name = 'headend'"
                )
                await connection.execute(insert(projects).values(key="b", name="b", created_us=1))
        async with postgres.reading() as connection:
            assert (await connection.execute(select(projects.c.id))).all() == []


async def test_a_server_that_hangs_blocks_no_caller_for_ever(
    postgres_server: PostgresServer, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_TRANSACTION_SECONDS", 0.5)
    async with _opened(postgres_url) as postgres:
        async with postgres.reading() as connection:
            await connection.execute(select(projects.c.id))
        stopped = postgres_server.processes()
        try:
            for process in stopped:
                with suppress(ProcessLookupError):  # a worker that had little to do
                    os.kill(process, signal.SIGSTOP)
            with pytest.raises(CatalogUnavailable, match="does not answer"):
                async with asyncio.timeout(40), postgres.reading() as connection:
                    await connection.execute(select(projects.c.id))
        finally:
            for process in stopped:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGCONT)
        monkeypatch.undo()
        async with postgres.reading() as connection:
            await connection.execute(select(projects.c.id))


async def test_a_read_only_database_is_reported(postgres_url: str) -> None:
    read_only = f"{postgres_url}&options=-c%20default_transaction_read_only%3Don"
    async with _opened(read_only) as postgres:
        with pytest.raises(CatalogUnavailable, match="can only be read"):
            async with postgres.writing() as connection:
                await connection.execute(insert(projects).values(key="a", name="a", created_us=1))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        pytest.param(("postgres@/", "nobody:S3CRET@/"), "no such database or user", id="user"),
        pytest.param(("postgres@/", "guarded:S3CRET@/"), "wrong user or password", id="password"),
        pytest.param(("postgres@/", "guarded@/"), "a password is needed", id="no password"),
        pytest.param(("/test", "/S3CRET"), "no such database or user", id="database"),
        pytest.param(("?host=/", "?host=/S3CRET/"), "no server at that socket", id="socket"),
        pytest.param(("@/", "@127.0.0.1:9/"), "connection refused", id="port"),
    ],
)
async def test_what_keeps_it_from_being_reached_is_named_and_no_more(
    postgres_url: str, change: tuple[str, str], why: str
) -> None:
    url = postgres_url.replace(*change)
    if "127.0.0.1" in url:
        url = url.partition("?")[0]
    with pytest.raises(CatalogUnavailable, match=why) as caught:
        async with open_catalog(url, migrate=False):
            pass
    assert "S3CRET" not in str(caught.value)


@pytest.mark.parametrize("form", ["before the host", "among the options"])
async def test_no_text_holds_the_password(
    postgres_server: PostgresServer, postgres_url: str, form: str
) -> None:
    name = postgres_url.partition("@/")[2].partition("?")[0]
    right = postgres_server.url(name, "guarded", PASSWORD)
    if form == "among the options":
        right = f"{postgres_server.url(name, 'guarded')}&password={PASSWORD}"
    async with _opened(right) as postgres:
        async with postgres.reading() as connection:
            assert isinstance(connection, AsyncConnection)
            texts = [repr(connection), repr(connection.engine), str(connection.engine.url)]
        texts += [
            repr(postgres),
            postgres.location,
            repr(database_url(right)),
            str(database_url(right)),
        ]
    with pytest.raises(CatalogError) as caught:
        async with _opened(right.replace(PASSWORD, PASSWORD + "0")) as postgres, postgres.reading():
            pass
    texts += traceback.format_exception(caught.value)
    assert PASSWORD not in "".join(texts)


async def test_texts_with_a_nul_are_looked_up_and_not_found(postgres_url: str) -> None:
    async with open_catalog(postgres_url, migrate=False) as catalog:
        assert await catalog.projects.find("a\0b") is None
        assert await catalog.tokens.authenticate("headend_\0") is None


async def test_titles_are_in_the_order_of_code_points_as_on_sqlite(
    postgres_url: str, file: Path
) -> None:
    titles = ["b", "ä", "a-b", "aC", "a b", "ab", "Z", "_", "1", "\U0001f600", "\uffee"]
    orders: list[list[str]] = []
    for place in (postgres_url, file):
        async with open_catalog(place, migrate=True) as catalog:
            await catalog.projects.add("Sport", Change(1))
            for title in titles:
                await catalog.streams.add(1, title, Change(1))
        async with (
            open_database(database_url(place), create=False) as opened,
            opened.reading() as connection,
        ):
            query = select(streams.c.title_fold).order_by(streams.c.title_fold)
            orders.append(list((await connection.execute(query)).scalars()))
    assert orders[0] == orders[1] == sorted(orders[0])


async def _use(catalog: Catalog) -> None:
    await catalog.ping()
    await catalog.streams.add(1, "One", Change(1))


async def test_a_read_for_a_request_ends_in_time_and_other_work_may_take_longer(
    postgres_url: str,
) -> None:
    async with open_database(
        database_url(postgres_url), create=False, reading_seconds=0.1
    ) as database:
        sleeping = select(func.pg_sleep(30))
        began = asyncio.get_running_loop().time()
        with pytest.raises(CatalogUnavailable, match="does not answer"):
            await database.row(sleeping, {})
        with pytest.raises(CatalogUnavailable, match="does not answer"):
            async with database.reading() as connection:
                await connection.execute(sleeping)
        assert asyncio.get_running_loop().time() - began < 15 * SCALE
        async with database.reading_all() as connection:
            await connection.execute(select(func.pg_sleep(0.2)))
        async with database.writing() as connection:
            await connection.execute(select(func.pg_sleep(0.2)))


@pytest.mark.parametrize(("encoding", "migrating"), [("LATIN1", False), ("SQL_ASCII", True)])
async def test_a_database_that_cannot_hold_every_text_is_refused(
    postgres_server: PostgresServer, encoding: str, migrating: bool
) -> None:
    name = f"encoded_{encoding}".lower()
    postgres_server.execute(
        f"CREATE DATABASE {name} TEMPLATE template0 ENCODING '{encoding}'"
        " LOCALE 'C' LOCALE_PROVIDER libc"
    )
    try:
        with pytest.raises(CatalogUnavailable, match=f"encoding is {encoding}: create one with"):
            async with open_catalog(postgres_server.url(name), migrate=migrating):
                pass
    finally:
        postgres_server.execute(f"DROP DATABASE {name} WITH (FORCE)")


async def test_the_encoding_of_a_session_is_not_that_of_the_environment(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    async with open_catalog(postgres_url, migrate=False) as catalog:
        project = await catalog.projects.add("Știri", Change(1))
        assert (await catalog.projects.find(str(project.id))) == project


@pytest.mark.parametrize(
    ("mode", "ignored", "migrating"),
    [("session", "", False), ("session", "options", True), ("transaction", "options", False)],
)
async def test_a_pooler_that_drops_what_a_session_is_to_be_is_refused(
    postgres_server: PostgresServer, mode: str, ignored: str, migrating: bool
) -> None:
    with (
        postgres_server.fresh_database() as location,
        tempfile.TemporaryDirectory(prefix="pgb-", dir=memory_folder()) as place,
        running_pgbouncer(postgres_server, Path(place), mode=mode, ignored=ignored) as folder,
    ):
        name = database_url(location).database
        url = f"postgresql://postgres@/{name}?host={folder}&port=6432"
        with pytest.raises(CatalogUnavailable, match="a pooler such as PgBouncer") as refused:
            async with open_catalog(url, migrate=migrating) as catalog:
                await catalog.ping()
        assert "name the server itself in database.url" in str(refused.value)
