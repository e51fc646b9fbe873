"""The catalog on PostgreSQL: its connections, and the translation of its errors.

Readers see one snapshot (REPEATABLE READ, READ ONLY). Writers use READ COMMITTED, and lock a row
before they read and change it (`with_for_update`), so that they see the last committed version.
Everything has a timeout: locks, statements and idle transactions on the server, and unresponsive
connections in the network. A host that freezes or is cut off in the middle of a change loses its
locks before other writers give up waiting for them.

Every connection of a running Headend holds the lock `SCHEMA_LOCK` of `postgres_locks`.
"""

from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final, Protocol

import psycopg
from psycopg.types.string import StrDumperUnknown
from sqlalchemy import URL, Row, Select, event, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool
from sqlalchemy.util import greenlet_spawn

from storage.catalog.engine.compiled import CompiledStatements
from storage.catalog.engine.postgres_locks import MIGRATION_LOCK, NOT_AVAILABLE, SCHEMA_LOCK
from storage.errors import CatalogAway, CatalogBusy, CatalogError, CatalogUnavailable

# Per process; a server accepts 100 connections by default, enough for eight processes.
_READERS: Final = 5
_WRITERS: Final = 5
_COMPILED: Final = CompiledStatements()
_MIGRATION_MS: Final = 600_000  # the longest wait for another process's migration

_CONNECT_SECONDS: Final = 5
# A lost server or network is detected within 10 s, also during a statement.
_NETWORK: Final = {
    "connect_timeout": _CONNECT_SECONDS,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 2,
    "tcp_user_timeout": 10_000,
    "client_encoding": "UTF8",  # whatever PGCLIENTENCODING and the server's settings say
}
# A setting of ours, which only shows that settings arrive: poolers drop or refuse them.
_ARRIVED: Final = "headend.settings_arrived"
_POOLER: Final = (
    "a pooler such as PgBouncer is in between, which drops what Headend asks for at the start of a"
    " connection: name the server itself in database.url"
)
_STATEMENT_MS: Final = 30_000
# Between two statements of a transaction. A writer's locks block others, which wait for `busy_ms`;
# a reader's snapshot only delays the vacuum of old rows.
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
        "0A000",  # what was prepared returns a column that has another type by now; once a session
        "25P03",  # idle in a transaction for too long
        "40001",  # serialization failure
        "40P01",  # deadlock
        "53300",  # too many connections
        NOT_AVAILABLE,
        "57014",  # a statement took too long
    }
)
# Classes of environmental failures: connections (08), insufficient resources (53), operator
# intervention (57), system errors (58), internal errors (XX), authorization (28), databases (3D).
_BROKEN: Final = frozenset({"08", "28", "3D", "53", "57", "58", "XX"})
_READ_ONLY: Final = "25006"
# Without a session, libpq gives no SQLSTATE but a text, which may name hosts and users: only these
# known reasons are reported.
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
    ("unsupported startup parameter", _POOLER),
)
# The reasons that only an operator can remedy; the others may pass by themselves.
_LASTING: Final = frozenset(
    {
        "wrong user or password",
        "a password is needed",
        "the server does not admit this user from here",
        "there is no such database or user",
        "no agreement on TLS",
        _POOLER,
    }
)
# The classes of states that may pass by themselves.
_PASSING: Final = frozenset({"08", "57"})


class _Cursor(Protocol):
    def execute(self, statement: str, /) -> object: ...
    def fetchone(self) -> Sequence[object] | None: ...
    def close(self) -> None: ...


class _DriverConnection(Protocol):
    @property
    def driver_connection(self) -> psycopg.AsyncConnection: ...
    def cursor(self) -> _Cursor: ...
    def commit(self) -> None: ...
    def close(self) -> None: ...


class _Text(StrDumperUnknown):
    """Dumps texts; replaces NUL, which PostgreSQL's texts cannot have: a lookup finds nothing."""

    def dump(self, obj: str) -> bytes | bytearray | memoryview | None:
        return super().dump(obj.replace("\0", "\N{REPLACEMENT CHARACTER}"))


class PostgresEngines:
    """The engines of a server's database; `busy_ms` is the lock timeout."""

    def __init__(self, url: URL, busy_ms: int) -> None:
        self._url = url
        self._busy_ms = busy_ms
        pool = {"pool_timeout": busy_ms / 1000, "max_overflow": 0, "pool_pre_ping": True}
        self.reader = _engine(url, _limits(busy_ms) | _READING, **pool, pool_size=_READERS)
        self.writer = _engine(url, _limits(busy_ms) | _WRITING, **pool, pool_size=_WRITERS)
        self.beats = _engine(url, _limits(busy_ms) | _WRITING, **pool, pool_size=1)
        for engine in (self.reader, self.writer, self.beats):
            event.listen(engine.sync_engine, "connect", _prepare)

    @contextmanager
    def translated(self) -> Generator[None]:
        """Translate the driver's errors into storage errors, without statements or parameters."""
        try:
            yield
        except PoolTimeoutError as error:
            raise CatalogBusy("the catalog is busy") from error
        except DBAPIError as error:
            hide_values(error)
            raise translation(error.orig, lost=error.connection_invalidated) from error
        except psycopg.Error as error:  # while a new connection is prepared
            raise translation(error, lost=False) from error

    async def row(
        self, statement: Select[*tuple[Any, ...]], parameters: Mapping[str, object]
    ) -> Row[Any] | None:
        """Query one row in its own transaction.

        SQLAlchemy's asyncio extension switches its greenlet once, instead of at each step.
        """

        def ask() -> Row[Any] | None:
            with self.reader.sync_engine.begin() as connection:
                return connection.execute(statement, parameters).one_or_none()

        return await greenlet_spawn(ask)

    @asynccontextmanager
    async def migrating(self) -> AsyncGenerator[AsyncConnection]:
        """Create or migrate the tables, one process at a time, without statement timeouts."""
        async with self._patient() as engine, engine.begin() as connection:
            for statement in (
                f"SET LOCAL lock_timeout = {_MIGRATION_MS}",
                f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})",
                f"SET LOCAL lock_timeout = {self._busy_ms}",
            ):
                await connection.execute(text(statement))
            yield connection

    @asynccontextmanager
    async def statement_by_statement(self) -> AsyncGenerator[AsyncConnection]:
        """Use a connection on which each statement is a transaction, without timeouts."""
        async with self._patient() as engine, engine.connect() as connection:
            yield await connection.execution_options(isolation_level="AUTOCOMMIT")

    @asynccontextmanager
    async def _patient(self) -> AsyncGenerator[AsyncEngine]:
        patient = {"statement_timeout": "0", "idle_in_transaction_session_timeout": "0"}
        options = _limits(self._busy_ms) | _WRITING | patient
        engine = _engine(self._url, options, poolclass=NullPool)
        try:
            yield engine
        finally:
            await engine.dispose()


def _limits(busy_ms: int) -> dict[str, str]:
    return {
        "lock_timeout": str(busy_ms),
        "statement_timeout": str(max(_STATEMENT_MS, busy_ms)),
        # The same as in `_NETWORK` for the server, which would otherwise keep the session, its
        # locks and its connection slot for hours after a host was cut off.
        "tcp_keepalives_idle": "5",
        "tcp_keepalives_interval": "2",
        "tcp_keepalives_count": "2",
        "tcp_user_timeout": "10000",
    }


def _engine(url: URL, options: dict[str, str], **pool: Any) -> AsyncEngine:  # Any: SQLAlchemy's own
    # Options in the connection string cost no round trip. The operator's come last, and win.
    settings = [f"-c {name}={value}" for name, value in {_ARRIVED: "yes", **options}.items()]
    operator_settings = url.query.get("options", "")
    settings += [operator_settings] if isinstance(operator_settings, str) else operator_settings
    arguments = {
        "application_name": "headend",
        **_NETWORK,
        **dict(url.query),
        "options": " ".join(settings),
    }
    engine = create_async_engine(
        url.set(query={}),
        hide_parameters=True,  # they hold secrets, and errors are logged
        connect_args=arguments,
        execution_options={"compiled_cache": _COMPILED},
        **pool,
    )
    event.listen(engine.sync_engine, "connect", _verify)
    return engine


def _prepare(connection: _DriverConnection, _record: object) -> None:
    connection.driver_connection.adapters.register_dumper(str, _Text)
    cursor = connection.cursor()
    try:
        cursor.execute(f"SELECT pg_advisory_lock_shared({SCHEMA_LOCK})")
    finally:
        cursor.close()
    connection.commit()


def _verify(connection: _DriverConnection, _record: object) -> None:
    """Check that the session is as asked for, of a database that holds every text.

    Raises:
        CatalogUnavailable: it is not.
    """
    encoding = connection.driver_connection.info.parameter_status("server_encoding")
    cursor = connection.cursor()
    try:
        cursor.execute(f"SELECT current_setting('{_ARRIVED}', true)")
        has_arrived = bool((cursor.fetchone() or [None])[0])
    finally:
        cursor.close()
    connection.commit()
    if has_arrived and encoding == "UTF8":
        return
    connection.close()
    if not has_arrived:
        raise CatalogUnavailable(f"the catalog cannot be used ({_POOLER})")
    raise CatalogUnavailable(
        f"the catalog cannot be used (the database's encoding is {encoding}: create one with the"
        " encoding UTF8)"
    )


def hide_values(error: DBAPIError) -> None:
    """Remove the server's details about rows from an error: their values may be secret."""
    original = error.orig
    if isinstance(original, psycopg.Error) and original.diag.message_primary:
        original.args = (original.diag.message_primary,)
        error.args = (f"({type(original).__name__}) {original.diag.message_primary}",)


def translation(error: BaseException | None, *, lost: bool) -> CatalogError:
    """Translate an error of the driver; `lost`: the connection was lost with it."""
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
        message = str(error)
        if any(phrase in message for phrase in _TOO_MANY):
            return CatalogBusy("the catalog is busy: its server takes no more connections")
        reasons = (reason for phrase, reason in _REASONS if phrase in message)
        reason = next(reasons, type(error).__name__)
        kind = CatalogUnavailable if reason in _LASTING else CatalogAway
        return kind(f"the catalog cannot be reached ({reason})")
    return CatalogError(f"the catalog refused ({type(error).__name__})")
