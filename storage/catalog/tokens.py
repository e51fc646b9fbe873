"""Questions about tokens, of which only the SHA-256 is kept.

A token is 32 random bytes, so a plain digest is enough: there is no dictionary to try. The digest
is looked up by the database; the time that takes tells a guesser about the digest, not the token.
Each function runs within the caller's transaction.
"""

import hashlib
import secrets
from typing import Final

from sqlalchemy import Row, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from storage.catalog import projects
from storage.catalog.records import Principal, TokenRecord
from storage.catalog.tables import tokens

__all__ = ["add", "authorise", "find_all", "revoke"]

# Makes a leaked token recognisable, to people and to scanners of repositories.
_PREFIX: Final = "headend_"
_COLUMNS: Final = (
    tokens.c.id,
    tokens.c.name,
    tokens.c.project_id,
    tokens.c.write,
    tokens.c.created_us,
    tokens.c.revoked_us,
)


def _digest(token: str) -> str:
    # Half a surrogate pair is no UTF-8; such a token is simply unknown.
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()


def _record(row: Row[int, str, int | None, bool, int, int | None]) -> TokenRecord:
    number, name, project, write, created_us, revoked_us = row
    return TokenRecord(
        id=number,
        name=name,
        project=project,
        write=write,
        created_us=created_us,
        revoked_us=revoked_us,
    )


async def add(
    connection: AsyncConnection, name: str, project: int | None, write: bool, now_us: int
) -> tuple[TokenRecord, str]:
    """Make a token; its text is in the answer and nowhere else.

    Raises:
        NoSuchProject: it is for a project that there is not.
    """
    if project is not None:
        await projects.require(connection, project)
    text = _PREFIX + secrets.token_urlsafe(32)
    statement = insert(tokens).values(
        digest=_digest(text), name=name, project_id=project, write=write, created_us=now_us
    )
    row = (await connection.execute(statement.returning(*_COLUMNS))).one()
    return _record(row), text


async def find_all(connection: AsyncConnection) -> tuple[TokenRecord, ...]:
    """Return every token, oldest first, revoked ones too."""
    rows = await connection.execute(select(*_COLUMNS).order_by(tokens.c.id))
    return tuple(_record(row) for row in rows)


async def revoke(connection: AsyncConnection, token: int, now_us: int) -> bool:
    """End a token's use at once; False where there is none that could be revoked."""
    statement = (
        update(tokens)
        .where(tokens.c.id == token, tokens.c.revoked_us.is_(None))
        .values(revoked_us=now_us)
        .returning(tokens.c.id)
    )
    return (await connection.execute(statement)).one_or_none() is not None


async def authorise(connection: AsyncConnection, token: str) -> Principal | None:
    """Return whom a token makes of its bearer; None for an unknown or revoked one."""
    statement = select(tokens.c.id, tokens.c.name, tokens.c.project_id, tokens.c.write).where(
        tokens.c.digest == _digest(token), tokens.c.revoked_us.is_(None)
    )
    row = (await connection.execute(statement)).one_or_none()
    if row is None:
        return None
    number, name, project, write = row
    return Principal(id=number, name=name, project=project, write=write)
