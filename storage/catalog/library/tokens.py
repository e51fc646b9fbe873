"""Questions about tokens, of which only the SHA-256 is kept.

A token is 32 random bytes, so a plain digest is enough: there is no dictionary to try. The digest
is looked up by the database; the time that takes tells a guesser about the digest, not the token.
Each function runs within the caller's transaction.
"""

import hashlib
import secrets
from typing import Any, Final

from sqlalchemy import Row, Select, bindparam, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from storage.catalog.events import log as event_log
from storage.catalog.queries import named_rows, project_lookup
from storage.catalog.records.common import Page, Principal, TokenRecord
from storage.catalog.schema.tables import tokens

__all__ = ["add", "bearer", "find", "find_all", "find_page", "principal", "revoke", "tell"]

# Makes a leaked token recognisable, to people and to scanners of repositories.
_PREFIX: Final = "headend_"
# Asked at each call: made once, as making it costs more than the answer.
_BEARER: Final = select(tokens.c.id, tokens.c.name, tokens.c.project_id, tokens.c.write).where(
    tokens.c.digest == bindparam("of"), tokens.c.revoked_us.is_(None)
)


def _digest(token: str) -> str:
    # Half a surrogate pair is no UTF-8; such a token is simply unknown.
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()


def _record(row: Row[Any]) -> TokenRecord:  # Any: the row of a whole table has no static type
    return TokenRecord(
        id=row.id,
        name=row.name,
        project=row.project_id,
        write=row.write,
        created_us=row.created_us,
        revoked_us=row.revoked_us,
    )


async def add(
    connection: AsyncConnection, name: str, project: int | None, write: bool, now_us: int
) -> tuple[TokenRecord, str]:
    """Make a token; its text is in the answer and nowhere else.

    Raises:
        NoSuchProject: it is for a project that there is not.
    """
    if project is not None:
        await project_lookup.require(connection, project)
    text = _PREFIX + secrets.token_urlsafe(32)
    statement = insert(tokens).values(
        digest=_digest(text), name=name, project_id=project, write=write, created_us=now_us
    )
    row = (await connection.execute(statement.returning(tokens))).one()
    return _record(row), text


async def find_all(connection: AsyncConnection) -> tuple[TokenRecord, ...]:
    """Return every token, oldest first, revoked ones too."""
    rows = await connection.execute(select(tokens).order_by(tokens.c.id))
    return tuple(_record(row) for row in rows)


async def find(connection: AsyncConnection, token: int) -> TokenRecord | None:
    """Return the token with that number, a revoked one too."""
    if token > named_rows.MOST:
        return None
    row = (await connection.execute(select(tokens).where(tokens.c.id == token))).one_or_none()
    return None if row is None else _record(row)


async def find_page(
    connection: AsyncConnection, *, reach: int | None, page: int
) -> Page[TokenRecord]:
    """Return a page of tokens, newest first; `reach` is the project whose they are, None all."""
    wanted = [] if reach is None else [tokens.c.project_id == reach]
    order = (tokens.c.id.desc(),)
    return await named_rows.page_of(
        connection, tokens, wanted, order, _record, total=None, page=page
    )


async def revoke(connection: AsyncConnection, token: int, now_us: int) -> TokenRecord | None:
    """End a token's use at once; None where there is none that could be revoked."""
    if not 0 < token <= named_rows.MOST:
        return None
    statement = (
        update(tokens)
        .where(tokens.c.id == token, tokens.c.revoked_us.is_(None))
        .values(revoked_us=now_us)
        .returning(tokens)
    )
    row = (await connection.execute(statement)).one_or_none()
    return None if row is None else _record(row)


async def tell(
    connection: AsyncConnection, record: TokenRecord, kind: str, now_us: int, *, by: int | None
) -> None:
    """Write down what became of a token, by its number.

    One that reaches all projects is told of in the installation's own, the first; where there is
    no project at all yet, there is nobody to tell.
    """
    project = record.project
    if project is None:
        project = await project_lookup.find_first(connection)
    if project is not None:
        facts = {"token": record.id, "name": record.name, "write": record.write}
        await event_log.record(connection, project, kind, facts, now_us, by=by)


def bearer(token: str) -> tuple[Select[*tuple[Any, ...]], dict[str, object]]:
    """Return the question who the bearer of a token is; `principal` reads the answer."""
    return _BEARER, {"of": _digest(token)}


def principal(row: Row[Any] | None) -> Principal | None:  # Any: `bearer` says which columns
    """Return whom a token makes of its bearer; None for an unknown or revoked one."""
    if row is None:
        return None
    return Principal(id=row.id, name=row.name, project=row.project_id, write=row.write)
