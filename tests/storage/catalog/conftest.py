"""A new catalog for each test, on real SQLite and PostgreSQL databases.

Most statements are the same on both. `make test` runs all tests on SQLite, and those marked
`ON_BOTH` on PostgreSQL; `make prove` runs all of them on PostgreSQL.
"""

from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest

from storage.catalog import Catalog, open_catalog
from storage.catalog.engine.database import Database, database_url, open_database
from storage.catalog.records.common import Change, ProjectRecord
from tests.support.postgres import PostgresServer


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The path of an SQLite file that does not exist yet."""
    return tmp_path / "catalog.db"


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Generator[str]:
    """The URL of a PostgreSQL database with the catalog's empty tables."""
    with postgres_server.fresh_database() as url:
        yield url


@pytest.fixture
def empty_postgres_url(postgres_server: PostgresServer) -> Generator[str]:
    """The URL of a PostgreSQL database without tables."""
    with postgres_server.empty_database() as url:
        yield url


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.prove)])
def either_database(request: pytest.FixtureRequest) -> str | Path:
    """The path or URL of an empty catalog, on each database in turn."""
    kind = "sqlite_database" if request.param == "sqlite" else "postgres_database"
    return request.getfixturevalue(kind)


@pytest.fixture
def location(either_database: str | Path) -> str | Path:
    """The path or URL of an empty catalog."""
    return either_database


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_location(request: pytest.FixtureRequest) -> str | Path:
    """The path or URL of a database without tables."""
    location: str | Path = request.getfixturevalue(
        "file" if request.param == "sqlite" else "empty_postgres_url"
    )
    return location


@pytest.fixture
async def catalog(location: str | Path) -> AsyncGenerator[Catalog]:
    # The tables exist already: checking that by migrating costs another PostgreSQL connection.
    async with open_catalog(location, migrate=False) as opened:
        yield opened


@pytest.fixture
async def database(location: str | Path, catalog: Catalog) -> AsyncGenerator[Database]:
    """The database of `catalog`, for functions that need a transaction."""
    async with open_database(database_url(location), create=False) as opened:
        yield opened


@pytest.fixture
async def project(catalog: Catalog) -> ProjectRecord:
    """An empty project."""
    return await catalog.projects.add("films", Change(1))
