"""The database: its transactions on both engines, its file and its address."""

import asyncio
import stat
import traceback
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from sqlalchemy import func, insert, select, update

from storage.catalog.engine.database import Database, database_url, open_database
from storage.catalog.migrations import migrate
from storage.catalog.schema.tables import installation, projects
from storage.errors import CatalogError, CatalogUnavailable
from tests.support.shared_engines import ON_BOTH


async def _names(database: Database) -> list[str]:
    async with database.reading() as connection:
        return list((await connection.execute(select(projects.c.name))).scalars())


async def test_the_file_is_its_owners_alone(file: Path) -> None:
    async with open_database(database_url(file / "deep" / "x.db"), create=True) as database:
        await migrate(database)
        for path in (file / "deep").iterdir():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path.name


@ON_BOTH
async def test_a_transaction_that_fails_leaves_nothing(location: str | Path) -> None:
    async with open_database(database_url(location), create=True) as database:
        await migrate(database)
        with pytest.raises(ZeroDivisionError):
            async with database.writing() as connection:
                await connection.execute(insert(projects).values(key="a", name="a", created_us=1))
                raise ZeroDivisionError
        assert await _names(database) == []


@ON_BOTH
async def test_a_cancelled_writer_lets_go_of_the_lock(location: str | Path) -> None:
    async with open_database(database_url(location), create=True) as database:
        await migrate(database)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05), database.writing() as connection:
                await connection.execute(insert(projects).values(key="a", name="a", created_us=1))
                await asyncio.Event().wait()
        async with database.writing() as connection:
            await connection.execute(insert(projects).values(key="b", name="b", created_us=1))
        assert await _names(database) == ["b"]


@ON_BOTH
async def test_a_reader_sees_one_moment_while_another_writes(location: str | Path) -> None:
    async with open_database(database_url(location), create=True) as database:
        await migrate(database)
        count = select(func.count()).select_from(projects)
        async with database.reading() as reader:
            assert (await reader.execute(count)).scalar_one() == 0
            async with database.writing() as writer:
                await writer.execute(insert(projects).values(key="a", name="a", created_us=1))
            assert (await reader.execute(count)).scalar_one() == 0
        assert await _names(database) == ["a"]


@ON_BOTH
async def test_a_write_in_a_reading_transaction_is_refused(location: str | Path) -> None:
    async with open_database(database_url(location), create=True) as database:
        await migrate(database)
        with pytest.raises(CatalogError):
            async with database.reading() as connection:
                await connection.execute(insert(projects).values(key="a", name="a", created_us=1))


@ON_BOTH
async def test_writers_of_one_process_read_what_the_one_before_wrote(location: str | Path) -> None:
    async with open_database(database_url(location), create=True) as database:
        await migrate(database)
        async with database.writing() as connection:
            await connection.execute(
                insert(installation).values(id=1, broadcaster_key="", created_us=0)
            )

        async def count_up() -> None:
            async with database.writing() as connection:
                query = select(installation.c.created_us).with_for_update()
                now = (await connection.execute(query)).scalar_one()
                await asyncio.sleep(0)
                await connection.execute(update(installation).values(created_us=now + 1))

        async with asyncio.TaskGroup() as tasks:
            for _ in range(40):
                tasks.create_task(count_up())
        async with database.reading() as connection:
            assert (await connection.execute(select(installation.c.created_us))).scalar_one() == 40


async def test_a_beat_waits_for_no_other_transaction_of_the_process(postgres_url: str) -> None:
    async with (
        open_database(database_url(postgres_url), create=False) as database,
        AsyncExitStack() as stack,
    ):
        for kind in 5 * [database.writing, database.reading]:
            connection = await stack.enter_async_context(kind())
            await connection.execute(select(projects.c.id))
        async with asyncio.timeout(60):
            async with database.beating() as connection:
                await connection.execute(insert(projects).values(key="a", name="a", created_us=1))
            async with database.beating() as connection:
                assert (await connection.execute(select(projects.c.name))).scalars().all() == ["a"]


async def test_a_file_is_named_as_others_find_it(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    async with open_database(database_url(file.name), create=True) as database:
        assert database.location == str(file)


async def test_a_missing_file_is_not_made_by_looking(file: Path) -> None:
    with pytest.raises(CatalogUnavailable, match="no catalog at"):
        async with open_database(database_url(file), create=False):
            pass
    assert not await asyncio.to_thread(file.exists)


async def test_a_folder_that_cannot_be_made_is_one_sentence(file: Path) -> None:
    await asyncio.to_thread(file.write_text, "a file")
    with pytest.raises(CatalogUnavailable, match="cannot make a catalog at"):
        async with open_database(database_url(file / "below"), create=True):
            pass


@ON_BOTH
async def test_no_error_shows_a_parameter(location: str | Path) -> None:
    async with open_database(database_url(location), create=True) as database:
        await migrate(database)
        same = {"key": "S3CRET", "name": "a", "created_us": 1}
        for rows in ([same, same], [{**same, "name": None}]):
            with pytest.raises(CatalogError) as caught:
                async with database.writing() as connection:
                    for row in rows:
                        await connection.execute(insert(projects).values(row))
            assert "S3CRET" not in "".join(traceback.format_exception(caught.value))
            assert "INSERT" not in str(caught.value)


@pytest.mark.parametrize(
    ("location", "why"),
    [
        pytest.param("mysql://u:S3CRET@host/db", "stored in mysql", id="another database"),
        pytest.param("postgresql://u:S3CRET@host", "names no database", id="no name"),
        pytest.param("postgresql://host:S3CRET/db", "not a database URL", id="a bare slash"),
        pytest.param("sqlite://", "cannot be stored", id="memory"),
        pytest.param("sqlite:///:memory:", "cannot be stored", id="memory by name"),
        pytest.param(":memory:", "cannot be stored", id="memory as a path"),
        pytest.param("://S3CRET", "not a database URL", id="no URL"),
    ],
)
async def test_an_address_that_cannot_serve_is_refused_without_its_password(
    location: str, why: str
) -> None:
    with pytest.raises(CatalogError, match=why) as caught:
        database_url(location)
    assert "S3CRET" not in "".join(traceback.format_exception(caught.value))
