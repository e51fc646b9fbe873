"""What transactions use of a connection, and a `Database` of its kind of database.

`postgres` and `sqlite` implement it. Only `postgres` imports SQLAlchemy's asyncio extension, which
brings its object-relational mapper, and psycopg: 0.15 s of CPU of a start, and 17 MB.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, TypeVarTuple, overload

from sqlalchemy import Connection, CursorResult, Dialect, Executable, Row, Select
from sqlalchemy.sql.selectable import TypedReturnsRows

T = TypeVar("T")
P = ParamSpec("P")
Ts = TypeVarTuple("Ts")


class AsyncConnection(Protocol):
    """The part of SQLAlchemy's `AsyncConnection` that transactions use."""

    @property
    def dialect(self) -> Dialect:
        """The dialect of the database."""
        ...

    @property
    def info(self) -> dict[Any, Any]:  # Any: as SQLAlchemy's
        """Facts that belong to the pooled connection."""
        ...

    @overload
    async def execute(
        self,
        statement: TypedReturnsRows[*Ts],
        parameters: Any = None,  # Any: as SQLAlchemy's
    ) -> CursorResult[*Ts]: ...
    @overload
    async def execute(
        self,
        statement: Executable,
        parameters: Any = None,  # Any: as SQLAlchemy's
    ) -> CursorResult[*tuple[Any, ...]]: ...
    async def execute(
        self,
        statement: Executable,
        parameters: Any = None,  # Any: as SQLAlchemy's
    ) -> CursorResult[*tuple[Any, ...]]:
        """Execute a statement and fetch all its rows.

        Raises:
            DBAPIError: it failed.
        """
        ...

    async def run_sync(
        self,
        call: Callable[Concatenate[Connection, P], T],
        /,
        *arguments: P.args,
        **named: P.kwargs,
    ) -> T:
        """Call a function with the synchronous connection.

        Raises:
            DBAPIError: a statement failed.
        """
        ...


class Engine(Protocol):
    """Connections for one kind of transaction."""

    def begin(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """Run a transaction; it is committed when the block ends, or rolled back if it fails."""
        ...

    async def dispose(self) -> None:
        """Close every connection."""
        ...


class Engines(Protocol):
    """The engines of one database, for each kind of transaction."""

    @property
    def reader(self) -> Engine:
        """For reading from one snapshot."""
        ...

    @property
    def writer(self) -> Engine:
        """For writing."""
        ...

    @property
    def beats(self) -> Engine:
        """For heartbeats, even while writers wait for connections."""
        ...

    def translated(self) -> AbstractContextManager[None]:
        """Translate the driver's errors into storage errors, without statements or parameters."""
        ...

    async def row(
        self, statement: Select[*tuple[Any, ...]], parameters: Mapping[str, object]
    ) -> Row[Any] | None:
        """Query one row in its own transaction, at the lowest cost."""
        ...

    def migrating(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """Create or migrate the tables, one process at a time, without a time limit."""
        ...

    def statement_by_statement(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """Use a connection on which each statement is a transaction, where there can be one."""
        ...
