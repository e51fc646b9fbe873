import pytest
from sqlalchemy import text

from storage.catalog.engine.database import database_url, open_database
from storage.catalog.engine.postgres_locks import lock_schema
from storage.errors import CatalogBusy


async def test_the_schema_is_locked_while_no_other_process_uses_it(postgres_url: str) -> None:
    url = database_url(postgres_url)
    async with open_database(url, create=False, busy_ms=200) as migrating:
        async with open_database(url, create=False) as running:
            async with running.reading() as connection:
                await connection.execute(text("SELECT 1"))
            with pytest.raises(CatalogBusy, match=r"at HERE .* another Headend uses it"):
                async with migrating.migrating() as connection:
                    await connection.run_sync(lock_schema, "HERE")
        async with migrating.migrating() as connection:
            await connection.run_sync(lock_schema, "HERE")
