"""The catalog's half of the lease of its object store (`storage.store_lease`), in one row.

All times are the database's. A turn that is about to be written to the store is committed here
first, as the next one: whatever happens to the process that writes it, the catalog knows it.
"""

import asyncio
from pathlib import Path
from typing import Final

import msgspec
from sqlalchemy import case, func, select, text, update

from media.ticks import MICROSECONDS
from storage.catalog.engine.clock import now_in
from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.engine.database import Repository
from storage.catalog.queries.insert_missing import insert_missing
from storage.catalog.schema.tables import store_claims

_TABLE: Final = store_claims.c
_FIRST: Final = {"id": 1, "turn": "", "next_turn": "", "confirmed_us": 0, "tried_us": 0}
# A user without the right to read the server's number has that of the database alone.
_SERVER: Final = text(
    "SELECT CASE WHEN has_function_privilege('pg_control_system()', 'execute')"
    " THEN (SELECT system_identifier FROM pg_control_system())::text ELSE '' END"
    " || '/' || (SELECT oid FROM pg_database WHERE datname = current_database())"
)


class StoreClaim(msgspec.Struct, frozen=True, kw_only=True):
    """The turns that the store may have, and how long ago (seconds) it was seen to have one.

    `next_turn` is "" unless it is being written, or an answer to that was lost. `tried` is how long
    ago a process began to write it, at the time `began_us`, if that was this caller.
    """

    turn: str = ""
    next_turn: str = ""
    age: float = float("inf")
    tried: float = float("inf")
    began_us: int = 0

    @property
    def turns(self) -> frozenset[str]:
        """The turns that the store may have."""
        return frozenset((self.turn, self.next_turn)) - {""}


class StoreClaims(Repository):
    """The claim of the present store; a method is one transaction."""

    async def place(self) -> str:
        """Return what a copy of the database does not share with it, as far as that can be known.

        It is the number of the file, which stays when that is renamed, or of the server and the
        database, which stay when a replica takes over.

        Raises:
            CatalogError: the database does not answer.
            OSError: the file is gone.
        """
        if not self._database.is_shared:
            file = await asyncio.to_thread(Path(self._database.location).stat)
            return str(file.st_ino)
        async with self._database.reading() as connection:
            return str((await connection.execute(_SERVER)).scalar_one())

    async def read(self) -> StoreClaim:
        """Return the claim.

        Raises:
            CatalogError: the database does not answer.
        """
        async with self._database.beating() as connection:
            return await _read(connection)

    async def begin(self, turn: str) -> StoreClaim:
        """Commit a turn that is about to be written to the store, and return the claim.

        If an earlier one may have been written, that stays the next one.

        Raises:
            CatalogError: the database does not answer.
        """
        async with self._database.beating() as connection:
            await connection.execute(insert_missing(connection, store_claims, _FIRST))
            is_open = _TABLE.next_turn != ""
            values = {
                "next_turn": case((is_open, _TABLE.next_turn), else_=turn),
                "tried_us": now_in(connection),
            }
            await connection.execute(update(store_claims).values(values))
            return await _read(connection)

    async def confirm(self, turn: str, began_us: int) -> None:
        """Record that the store has a turn, and had it at the time `began_us` or later.

        Raises:
            CatalogError: the database does not answer.
        """
        confirmed = {"turn": turn, "next_turn": "", "confirmed_us": began_us}
        async with self._database.beating() as connection:
            written = update(store_claims).where(_TABLE.next_turn == turn).values(confirmed)
            await connection.execute(written)

    async def expire(self) -> None:
        """Have the next process write a turn before it counts on that which the store has.

        Raises:
            CatalogError: the database does not answer.
        """
        async with self._database.beating() as connection:
            await connection.execute(update(store_claims).values(confirmed_us=0))

    async def adopt(self, turn: str) -> None:
        """Record a turn that the store has and the catalog had, before its server lost it.

        Raises:
            CatalogError: the database does not answer.
        """
        async with self._database.beating() as connection:
            await connection.execute(update(store_claims).values(turn=turn, next_turn=""))


async def _read(connection: AsyncConnection) -> StoreClaim:
    now = now_in(connection)
    query = select(
        _TABLE.turn,
        _TABLE.next_turn,
        func.abs(now - _TABLE.confirmed_us),  # a clock that was set back counts as one set forward
        func.abs(now - _TABLE.tried_us),
        _TABLE.tried_us,
    )
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        return StoreClaim()
    turn, next_turn, age_us, tried, began_us = row
    return StoreClaim(
        turn=turn,
        next_turn=next_turn,
        age=age_us / MICROSECONDS,
        tried=tried / MICROSECONDS,
        began_us=began_us,
    )
