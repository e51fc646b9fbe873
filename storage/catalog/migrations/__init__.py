"""The steps by which a catalog comes to its present form, and the check that it has it.

The steps are Alembic's, one module each in `versions`; nobody needs its command line. A catalog
that another version of Headend shaped is refused in one sentence, never read by guess.
"""

from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect

from storage.catalog.engine.database import Database
from storage.catalog.engine.postgres import lock_schema
from storage.errors import SchemaMissing, SchemaNewer, SchemaOlder

__all__ = ["REVISION", "check", "migrate", "migrate_within", "upgrade"]

# The newest step; a test holds it against the modules in `versions`.
REVISION: Final = "0014"


def _config(connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


def _found(connection: Connection) -> str | None:
    """Return the revision of the catalog; None for a database without one."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return MigrationContext.configure(connection).get_current_revision()


def _known() -> frozenset[str]:
    script = ScriptDirectory.from_config(_config())
    return frozenset(step.revision for step in script.walk_revisions())


def _refusal(
    place: str, found: str | None, wanted: str
) -> SchemaMissing | SchemaNewer | SchemaOlder | None:
    if found == wanted:
        return None
    if found is None:
        return SchemaMissing(place, wanted)
    kind = SchemaOlder if found in _known() else SchemaNewer
    return kind(place, found, wanted)


async def check(database: Database, wanted: str = REVISION) -> None:
    """See that the catalog has the form that this code reads and writes.

    Raises:
        SchemaMismatch: it has another, or there is none.
    """
    async with database.reading() as connection:
        refusal = _refusal(database.place, await connection.run_sync(_found), wanted)
    if refusal is not None:
        raise refusal


def upgrade(connection: Connection, revision: str = "head") -> None:
    """Take the steps up to a revision, within the caller's transaction."""
    command.upgrade(_config(connection), revision)


def migrate_within(connection: Connection, place: str) -> None:
    """Bring the catalog at `place` to its present form, within the caller's transaction.

    Raises:
        CatalogBusy: a running Headend uses the tables that are to be changed.
        SchemaNewer: a newer Headend has been here.
    """
    refusal = _refusal(place, _found(connection), REVISION)
    if isinstance(refusal, SchemaNewer):
        raise refusal
    if refusal is not None:
        lock_schema(connection, place)
        upgrade(connection)


async def migrate(database: Database) -> None:
    """Bring the catalog to its present form, all steps in one transaction.

    One process at a time is let in, so of two that start at once the second finds the work done.

    Raises:
        CatalogBusy: a running Headend uses the tables that are to be changed.
        SchemaNewer: a newer Headend has been here.
    """
    async with database.migrating() as connection:
        await connection.run_sync(migrate_within, database.place)
