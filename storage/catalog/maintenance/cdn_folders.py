"""The folders of copies that a CDN may read (`catalog.cdn_folders`).

A stream or video that everyone may see has one, from the first time that a viewer is sent to the
CDN. Its name is secret: 16 random bytes, which viewers learn with the addresses. Once not everyone
may see it, or it is deleted, its folder is withdrawn, and never used again: if it is ever public
again, it gets another one.

What is to be withdrawn follows from the rows as they are, however they came to be so.
"""

import secrets
from collections.abc import Collection, Sequence
from typing import Final

import msgspec
from sqlalchemy import ColumnElement, Table, delete, func, select, true, update

from media.stream_keys import PublicHash
from storage.catalog.engine.database import Repository
from storage.catalog.queries.insert_missing import insert_missing
from storage.catalog.queries.project_lookup import is_of_present
from storage.catalog.schema.tables import cdn_folders, streams, videos

_TOKEN_BYTES: Final = 16
_AT_ONCE: Final = 500
_IN_USE: Final = cdn_folders.c.withdrawn_us.is_(None)


def _has_public(table: Table) -> ColumnElement[bool]:
    """Return the condition that everyone may see the row of that table with a folder's hash."""
    return (
        select(table.c.id)
        .where(
            table.c.hash == cdn_folders.c.hash,
            table.c.published,
            ~table.c.hidden,
            table.c.countries == "",
            is_of_present(table.c.project_id),
        )
        .correlate(cdn_folders)
        .exists()
    )


_IS_PUBLIC: Final = _has_public(streams) | _has_public(videos)


class CdnFolder(msgspec.Struct, frozen=True, kw_only=True):
    """A folder of copies; `token` is its secret name."""

    hash: PublicHash
    token: str

    def __repr__(self) -> str:
        return f"CdnFolder(hash={self.hash!r})"


class CdnFolders(Repository):
    """The folders of copies; a method is one transaction, except where it says otherwise."""

    async def open(self, hash_: PublicHash) -> None:
        """Give a stream or video a folder unless it has one; `catalog.visibility` returns it."""
        row = {"token": secrets.token_hex(_TOKEN_BYTES), "hash": hash_}
        async with self._database.writing() as connection:
            await connection.execute(insert_missing(connection, cdn_folders, row))

    async def withdraw(self, now_us: int, *, all_folders: bool = False) -> int:
        """Withdraw the folders of what not everyone may see, or all; return how many.

        It reads first: usually there is nothing to write.
        """
        surplus = _IN_USE & (true() if all_folders else ~_IS_PUBLIC)
        async with self._database.reading_all() as connection:
            query = select(cdn_folders.c.token).where(surplus)
            tokens = (await connection.execute(query)).scalars().all()
        for start in range(0, len(tokens), _AT_ONCE):
            some = cdn_folders.c.token.in_(tokens[start : start + _AT_ONCE])
            async with self._database.writing() as connection:
                change = update(cdn_folders).where(some, _IN_USE).values(withdrawn_us=now_us)
                await connection.execute(change)
        return len(tokens)

    async def find_withdrawn(self, until_us: int, most: int) -> tuple[CdnFolder, ...]:
        """Return up to `most` of the folders that were withdrawn until then, the oldest first."""
        table = cdn_folders.c
        query = (
            select(table.hash, table.token)
            .where(table.withdrawn_us <= until_us)
            .order_by(table.withdrawn_us, table.token)
            .limit(most)
        )
        async with self._database.reading() as connection:
            rows = await connection.execute(query)
            return tuple(CdnFolder(hash=hash_, token=token) for hash_, token in rows)

    async def forget(self, folders: Collection[CdnFolder]) -> None:
        """Remove withdrawn folders, whose copies are deleted."""
        which = cdn_folders.c.token.in_([each.token for each in folders])
        async with self._database.writing() as connection:
            await connection.execute(delete(cdn_folders).where(which, ~_IN_USE))

    async def find_known(self, tokens: Sequence[str]) -> frozenset[str]:
        """Return those of up to some hundred names that folders have."""
        async with self._database.reading_all() as connection:
            query = select(cdn_folders.c.token).where(cdn_folders.c.token.in_(tokens))
            return frozenset((await connection.execute(query)).scalars())

    async def count(self) -> int:
        """Return the number of folders, withdrawn ones included."""
        async with self._database.reading() as connection:
            query = select(func.count()).select_from(cdn_folders)
            return (await connection.execute(query)).scalar_one()

    async def count_overdue(self, until_us: int) -> int:
        """Return how many folders were withdrawn until then and are still there."""
        overdue = select(func.count()).where(cdn_folders.c.withdrawn_us <= until_us)
        async with self._database.reading() as connection:
            return (await connection.execute(overdue)).scalar_one()

    async def count_restricted(self) -> int:
        """Return the number of streams and videos that not everyone may see."""
        total = 0
        async with self._database.reading_all() as connection:
            for table in (streams, videos):
                public = table.c.published & ~table.c.hidden & (table.c.countries == "")
                query = select(func.count()).select_from(table).where(~public)
                total += (await connection.execute(query)).scalar_one()
        return total
