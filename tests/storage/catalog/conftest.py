"""A catalog of its own for each test, on the real SQLite and on the real PostgreSQL.

Most statements are the same on both: `make test` runs them on SQLite, and on PostgreSQL what is
marked `ON_BOTH`; `make prove` runs all of them on PostgreSQL.
"""

from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest

from storage.catalog import Catalog, open_catalog
from storage.catalog.engine.database import Database, database_url, open_database
from storage.catalog.records.common import ProjectRecord
from tests.support.postgres import PostgresServer


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where SQLite can make a database."""
    return tmp_path / "catalog.db"


@pytest.fixture
def server_place(postgres_server: PostgresServer) -> Generator[str]:
    """A database of PostgreSQL with the catalog's tables, all empty."""
    with postgres_server.fresh_database() as url:
        yield url


@pytest.fixture
def empty_server_place(postgres_server: PostgresServer) -> Generator[str]:
    """A database of PostgreSQL without any table."""
    with postgres_server.empty_database() as url:
        yield url


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.prove)])
def both_places(request: pytest.FixtureRequest) -> str | Path:
    """Where a catalog can be opened with `migrate=True`."""
    kind = "migrated_place" if request.param == "sqlite" else "postgres_place"
    return request.getfixturevalue(kind)


@pytest.fixture
def place(both_places: str | Path) -> str | Path:
    """Where a catalog can be opened with `migrate=True`."""
    return both_places


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_place(request: pytest.FixtureRequest) -> str | Path:
    """Where there is no catalog yet, and one can be made."""
    found: str | Path = request.getfixturevalue(
        "file" if request.param == "sqlite" else "empty_server_place"
    )
    return found


@pytest.fixture
async def catalog(place: str | Path) -> AsyncGenerator[Catalog]:
    async with open_catalog(place, migrate=True) as opened:
        yield opened


@pytest.fixture
async def database(place: str | Path, catalog: Catalog) -> AsyncGenerator[Database]:
    """The database of `catalog`, for what runs within a transaction."""
    async with open_database(database_url(place), create=False) as opened:
        yield opened


@pytest.fixture
async def project(catalog: Catalog) -> ProjectRecord:
    """A project without anything in it."""
    return await catalog.projects.add("films", 1)
