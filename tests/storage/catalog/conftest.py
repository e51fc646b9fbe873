"""A catalog in a folder of its own, on the real SQLite."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from storage.catalog import Catalog, open_catalog


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "catalog.db"


@pytest.fixture
async def catalog(place: Path) -> AsyncGenerator[Catalog]:
    async with open_catalog(place, migrate=True) as opened:
        yield opened
