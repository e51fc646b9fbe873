"""Migrates a catalog to its present form, and checks that it has that form.

The steps are Alembic's, one module each in `versions`; its command line is not needed. A new
catalog takes none of them: its tables are created as `storage.catalog.schema` has them, which is
quicker. Version 0.2 has the oldest tables from which the steps lead. A catalog in the form of
another version of Headend is refused with one sentence, never read by guess.

Where the revision of a step has a point, such as `0021.1`, the step only adds to the form `0021`:
tables, indexes, and columns that older code may leave out. Versions of Headend that know the same
form work side by side, so such a step is taken while they do. It makes no index on a table that
exists: `finishing` does, and whatever else takes long, while the service runs. Part of that is
`widening`, after which numbers have 64 bits. `steps` calls Alembic, whose environment is `env`.
"""

from typing import Final

from sqlalchemy import (
    Column,
    Connection,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    insert,
    inspect,
    select,
)

from storage.catalog.engine.database import Database
from storage.catalog.engine.postgres_locks import lock_schema
from storage.catalog.migrations import finishing, widening
from storage.catalog.schema.tables import METADATA
from storage.errors import SchemaMismatch, SchemaMissing, SchemaNewer, SchemaOlder, SchemaTooOld

# The newest step; a test compares it with the modules in `versions`.
REVISION: Final = "0016.14"
_OLDEST: Final = "0016.2"  # from which the steps lead: that of version 0.2
# Where Alembic keeps a catalog's revision. It is as Alembic makes it; a test compares them.
_VERSION: Final = Table(
    "alembic_version",
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)


def find_revision(connection: Connection) -> str | None:
    """Return the revision of the catalog; None for a database without one."""
    if not inspect(connection).has_table(_VERSION.name):
        return None
    return connection.execute(select(_VERSION.c.version_num)).scalar_one_or_none()


def _parse(revision: str) -> tuple[str, int]:
    """Return the form of the tables at a revision, and how often it was added to; newer is more."""
    form, _, added = revision.partition(".")
    return form, int(added) if added.isdigit() else 0


def _refusal(location: str, revision: str | None, wanted: str) -> SchemaMismatch | None:
    if revision is None:
        return SchemaMissing(location, None, wanted)
    found, needed = _parse(revision), _parse(wanted)
    if found >= needed:  # a newer version of the same form added what this one need not know
        return None if found[0] == needed[0] else SchemaNewer(location, revision, wanted)
    kind = SchemaTooOld if found < _parse(_OLDEST) else SchemaOlder
    return kind(location, revision, wanted)


async def check(database: Database, wanted: str = REVISION, *, exactly: bool = False) -> None:
    """Check that the catalog has the form that this code reads and writes.

    With `exactly` nothing may have been added to it either.

    Raises:
        SchemaMismatch: it has another, or there is none.
    """
    async with database.reading() as connection:
        revision = await connection.run_sync(find_revision)
    refusal = _refusal(database.location, revision, wanted)
    if refusal is None and exactly and revision is not None and revision != wanted:
        refusal = SchemaNewer(database.location, revision, wanted)
    if refusal is not None:
        raise refusal


def _create(connection: Connection) -> None:
    """Create the tables of a new catalog; none of them may exist."""
    METADATA.create_all(connection, checkfirst=False)
    _VERSION.create(connection)
    connection.execute(insert(_VERSION).values(version_num=REVISION))


def migrate_within(connection: Connection, location: str) -> None:
    """Bring the catalog at `location` to its present form, within the caller's transaction.

    Raises:
        CatalogBusy: a running Headend uses the tables that are to be changed.
        SchemaNewer: a newer Headend has migrated it.
        SchemaTooOld: a version before 0.2 made it.
    """
    revision = find_revision(connection)
    refusal = _refusal(location, revision, REVISION)
    if isinstance(refusal, SchemaNewer | SchemaTooOld):
        raise refusal
    if refusal is None:
        return
    if revision is None or _parse(revision)[0] != _parse(REVISION)[0]:
        lock_schema(connection, location)
    if revision is None:
        _create(connection)
        return
    from storage.catalog.migrations import steps  # noqa: PLC0415  # see there

    widening.abandon(connection)
    steps.upgrade(connection)
    finishing.create_missing_indexes(connection)


async def migrate(database: Database) -> None:
    """Bring the catalog to its present form, all in one transaction.

    One process at a time may migrate, so of two that start at once the second finds the work done.

    Raises:
        CatalogBusy: a running Headend uses the tables that are to be changed.
        SchemaNewer: a newer Headend has migrated it.
        SchemaTooOld: a version before 0.2 made it.
    """
    async with database.migrating() as connection:
        await connection.run_sync(migrate_within, database.location)
