"""The catalog in a database of PostgreSQL: its connections and what its errors mean.

Readers see one snapshot (REPEATABLE READ, READ ONLY). Writers run under READ COMMITTED, and lock
the row that they are about to change before they read it (`with_for_update`): what they wait for
and then read is what the one before them wrote. Nothing waits for ever: for a lock, for a statement
or for the next statement of a transaction the server waits as long as is said here, and for a
server that is silent the network does. A host that is frozen or cut off in the middle of a change
loses its locks before those who wait for them give up.

Every connection of a running Headend holds the lock `_FORM` shared, and so keeps the tables from
being migrated below it. The server drops it with the connection.
"""

from typing import Any, Final, Protocol

import psycopg
from psycopg.types.string import StrDumperUnknown
from sqlalchemy import URL, Connection, event, func, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from storage.catalog.engine.compiled import CompiledStatements
from storage.errors import CatalogAway, CatalogBusy, CatalogError, CatalogUnavailable

__all__ = [
    "DRIVER",
    "NOW_US",
    "address_of",
    "engines",
    "hide_values",
    "lock_first_start",
    "lock_schema",
    "migration_engine",
    "migration_lock_statements",
    "translation",
]

DRIVER: Final = "postgresql+psycopg"
NOW_US: Final = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
# Of each process; a server lets 100 in unless it is told otherwise: enough for eight processes.
_READERS: Final = 5
_WRITERS: Final = 5
_COMPILED: Final = CompiledStatements()
# Among PostgreSQL's advisory locks: who relies on the tables' form, and whose turn it is to look
# whether that has to change.
_FORM: Final = 0x48454146
_SHAPING: Final = 0x48454147
_SHAPING_MS: Final = 600_000  # the longest that a step of another process is waited for

_CONNECT_SECONDS: Final = 5
# A server or a network that is gone is noticed within 10 s, also in the middle of a statement.
_NETWORK: Final = {
    "connect_timeout": _CONNECT_SECONDS,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 2,
    "tcp_user_timeout": 10_000,
}
_STATEMENT_MS: Final = 30_000
# Between two statements of a transaction. A writer's locks hold others up, who wait for `busy_ms`;
# what a reader sees holds up the removal of old rows alone.
_IDLE_WRITING_MS: Final = 5_000
_IDLE_READING_MS: Final = 30_000
_READING: Final = {
    "idle_in_transaction_session_timeout": str(_IDLE_READING_MS),
    "default_transaction_isolation": r"repeatable\ read",
    "default_transaction_read_only": "on",
}
_WRITING: Final = {
    "idle_in_transaction_session_timeout": str(_IDLE_WRITING_MS),
    "default_transaction_isolation": r"read\ committed",
    "default_transaction_read_only": "off",
}

# SQLSTATE: https://www.postgresql.org/docs/current/errcodes-appendix.html
_BUSY: Final = frozenset(
    {
        "25P03",  # idle in a transaction for too long
        "40001",  # serialization failure
        "40P01",  # deadlock
        "53300",  # too many connections
        "55P03",  # a lock was not to be had in time
        "57014",  # a statement took too long
    }
)
# What the world does to a database: connections (08), out of something (53), an operator steps in
# (57), the server's disk (58), itself (XX); who may log in (28) and to what (3D).
_BROKEN: Final = frozenset({"08", "28", "3D", "53", "57", "58", "XX"})
_READ_ONLY: Final = "25006"
# libpq gives no SQLSTATE where there is no session yet, only a text, which may name hosts and
# users: of that only what is known here is passed on.
_TOO_MANY: Final = ("too many clients", "too many connections", "connection slots")
_REASONS: Final = (
    ("Connection refused", "connection refused"),
    ("No such file", "no server at that socket"),
    ("authentication failed", "wrong user or password"),
    ("no password supplied", "a password is needed"),
    ("no pg_hba.conf entry", "the server does not admit this user from here"),
    ("does not exist", "there is no such database or user"),
    ("starting up", "the server is starting"),
    ("shutting down", "the server is shutting down"),
    ("timeout expired", "no answer in time"),
    ("resolve host", "unknown host"),
    ("translate host", "unknown host"),
    ("SSL", "no agreement on TLS"),
)
# Of these, the ones that only an operator changes; of the states above, too.
_LASTING: Final = frozenset(
    {
        "wrong user or password",
        "a password is needed",
        "the server does not admit this user from here",
        "there is no such database or user",
        "no agreement on TLS",
    }
)
_PASSING: Final = frozenset({"08", "57"})


class _Cursor(Protocol):
    def execute(self, statement: str, /) -> object: ...
    def close(self) -> None: ...


class _DriverConnection(Protocol):
    @property
    def driver_connection(self) -> psycopg.AsyncConnection: ...
    def cursor(self) -> _Cursor: ...
    def commit(self) -> None: ...


class _Text(StrDumperUnknown):
    """Texts on their way out. PostgreSQL's have no NUL: what is looked up with one is not found."""

    def dump(self, obj: str) -> bytes | bytearray | memoryview | None:
        return super().dump(obj.replace("\0", "\N{REPLACEMENT CHARACTER}"))


def address_of(url: URL) -> str:
    """Return a database's address for texts: without a password, whatever form it was given in."""
    host = url.host or url.query.get("host", "")
    host = host if isinstance(host, str) else ",".join(host)
    port = f":{url.port}" if url.port else ""
    user = f"{url.username}@" if url.username else ""
    return f"postgresql://{user}{host}{port}/{url.database}"


def engines(url: URL, busy_ms: int) -> tuple[AsyncEngine, AsyncEngine, AsyncEngine]:
    """Return the engines of readers, of writers and of beats; `busy_ms` is how long each waits."""
    pool = {"pool_timeout": busy_ms / 1000, "max_overflow": 0, "pool_pre_ping": True}
    found = (
        _engine(url, _limits(busy_ms) | _READING, **pool, pool_size=_READERS),
        _engine(url, _limits(busy_ms) | _WRITING, **pool, pool_size=_WRITERS),
        _engine(url, _limits(busy_ms) | _WRITING, **pool, pool_size=1),
    )
    for engine in found:
        event.listen(engine.sync_engine, "connect", _prepare)
    return found


def migration_engine(url: URL, busy_ms: int) -> AsyncEngine:
    """Return the engine of who makes or migrates the tables: steps may take their time."""
    patient = {"statement_timeout": "0", "idle_in_transaction_session_timeout": "0"}
    return _engine(url, _limits(busy_ms) | _WRITING | patient, poolclass=NullPool)


def migration_lock_statements(busy_ms: int) -> tuple[str, ...]:
    """Return what takes the turn to look at the tables' form, within a transaction."""
    return (
        f"SET LOCAL lock_timeout = {_SHAPING_MS}",
        f"SELECT pg_advisory_xact_lock({_SHAPING})",
        f"SET LOCAL lock_timeout = {busy_ms}",
    )


async def lock_first_start(connection: AsyncConnection) -> None:
    """Be the only one who fills an empty catalog; on SQLite every writer is."""
    if connection.dialect.name == "postgresql":
        await connection.execute(select(func.pg_advisory_xact_lock(_SHAPING)))


def lock_schema(connection: Connection, place: str) -> None:
    """Keep everyone else from the tables until the transaction ends; on SQLite that is so already.

    Raises:
        CatalogBusy: a running Headend uses them.
    """
    if connection.dialect.name != "postgresql":
        return
    try:
        connection.execute(select(func.pg_advisory_xact_lock(_FORM)))
    except DBAPIError as error:
        if not isinstance(error.orig, psycopg.errors.LockNotAvailable):
            raise
        raise CatalogBusy(
            f"the catalog at {place} cannot be migrated while another Headend uses it: stop that"
            " first"
        ) from error


def _limits(busy_ms: int) -> dict[str, str]:
    return {
        "lock_timeout": str(busy_ms),
        "statement_timeout": str(max(_STATEMENT_MS, busy_ms)),
        # The same as in `_NETWORK`, at the server's end: it would keep a session, its locks and its
        # place among the connections for hours after a host was cut off.
        "tcp_keepalives_idle": "5",
        "tcp_keepalives_interval": "2",
        "tcp_keepalives_count": "2",
        "tcp_user_timeout": "10000",
    }


def _engine(url: URL, options: dict[str, str], **pool: Any) -> AsyncEngine:  # Any: SQLAlchemy's own
    # Options go along as a connection is made: they cost no round trip. The operator's come last
    # and win.
    words = [f"-c {name}={value}" for name, value in options.items()]
    given = url.query.get("options", "")
    words += [given] if isinstance(given, str) else given
    arguments = {
        "application_name": "headend",
        **_NETWORK,
        **dict(url.query),
        "options": " ".join(words),
    }
    return create_async_engine(
        url.set(query={}),
        hide_parameters=True,  # they hold secrets, and errors are logged
        connect_args=arguments,
        execution_options={"compiled_cache": _COMPILED},
        **pool,
    )


def _prepare(connection: _DriverConnection, _record: object) -> None:
    connection.driver_connection.adapters.register_dumper(str, _Text)
    cursor = connection.cursor()
    try:
        cursor.execute(f"SELECT pg_advisory_lock_shared({_FORM})")
    finally:
        cursor.close()
    connection.commit()


def hide_values(error: DBAPIError) -> None:
    """Take out of an error's text what the server tells of a row: its values may be secret."""
    found = error.orig
    if isinstance(found, psycopg.Error) and found.diag.message_primary:
        found.args = (found.diag.message_primary,)
        error.args = (f"({type(found).__name__}) {found.diag.message_primary}",)


def translation(error: BaseException | None, *, lost: bool) -> CatalogError:
    """Return what an error of the driver means; `lost` says that the connection went with it."""
    state = error.sqlstate or "" if isinstance(error, psycopg.Error) else ""
    if state in _BUSY:
        return CatalogBusy("the catalog is busy")
    if state == _READ_ONLY:
        return CatalogUnavailable("the catalog can only be read now")
    if state:
        if lost or state[:2] in _BROKEN:
            kind = CatalogAway if lost or state[:2] in _PASSING else CatalogUnavailable
            return kind(f"the catalog cannot be used ({type(error).__name__})")
        return CatalogError(f"the catalog refused ({type(error).__name__})")
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        said = str(error)
        if any(words in said for words in _TOO_MANY):
            return CatalogBusy("the catalog is busy: its server takes no more connections")
        why = next((why for words, why in _REASONS if words in said), type(error).__name__)
        kind = CatalogUnavailable if why in _LASTING else CatalogAway
        return kind(f"the catalog cannot be reached ({why})")
    return CatalogError(f"the catalog refused ({type(error).__name__})")
