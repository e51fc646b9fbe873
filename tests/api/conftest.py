"""The application, in a folder of its own."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from litestar.testing import AsyncTestClient

from api.app import create_app
from storage.catalog import open_catalog
from tests.api.house import ADDRESSES, NOW_US, House


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def house(tmp_path: Path) -> AsyncGenerator[House]:
    async with open_catalog(tmp_path / "catalog.db", migrate=True) as catalog:
        first = await catalog.first_start(NOW_US)
        app = create_app(
            catalog=catalog,
            addresses=ADDRESSES,
            broadcaster_key=first.broadcaster_key,
            version="1.2.3",
            clock_us=lambda: NOW_US,
        )
        # The application answers its own errors: none may come through to the server.
        async with AsyncTestClient(app, raise_server_exceptions=True) as client:
            yield House(
                client=client,
                catalog=catalog,
                key=first.project.key,
                broadcaster_key=first.broadcaster_key,
                owner={"Authorization": f"Bearer {first.owner_token}"},
            )
