"""Browsers that are signed in (`catalog.sessions`), and the links that sign in once.

A session belongs to a token and ends with it: the token is needed once, to sign in, and the browser
then keeps a secret of its own. Secrets are 32 random bytes, of which only the SHA-256 is stored.
"""

import secrets
from collections.abc import Collection
from typing import Final

from sqlalchemy import ColumnElement, Table, bindparam, delete, insert, select, update

from media.ticks import MICROSECONDS
from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.engine.database import Repository
from storage.catalog.queries import named_rows
from storage.catalog.queries.digest import digest
from storage.catalog.records.common import Principal
from storage.catalog.schema.tables import sessions, sign_in_links, tokens
from storage.errors import CatalogError, TokenRevoked

# A browser that is used at least every two weeks stays signed in for 90 days.
LIFE_SECONDS: Final = 90 * 86_400
_IDLE_US: Final = 14 * 86_400 * MICROSECONDS
# Long enough to carry the link to a browser on another machine.
LINK_SECONDS: Final = 15 * 60
# A session's row is written at most this often, however often it is used.
_SEEN_EVERY_US: Final = 3600 * MICROSECONDS
# The sessions and links of a token: more browsers than its owner has. The oldest go first.
_MOST: Final = 100

# Run at each request of a browser: built once.
_BY_ID: Final = (
    select(
        tokens.c.id,
        tokens.c.name,
        tokens.c.project_id,
        tokens.c.write,
        sessions.c.seen_us,
    )
    .join(tokens, tokens.c.id == sessions.c.token_id)
    .where(
        sessions.c.id == bindparam("of"),
        sessions.c.expires_us > bindparam("now"),
        sessions.c.seen_us > bindparam("idle"),
        tokens.c.revoked_us.is_(None),
    )
)
# The same for many, of which only the digests are returned. A token's end removes its sessions.
_OPEN: Final = select(sessions.c.id).where(
    sessions.c.id.in_(bindparam("of", expanding=True)),
    sessions.c.expires_us > bindparam("now"),
    sessions.c.seen_us > bindparam("idle"),
)


class Sessions(Repository):
    """The sessions of a catalog; a method is one transaction."""

    async def add(self, token: int, now_us: int) -> str:
        """Sign a browser in with the token of that number; return the session's secret.

        The oldest session of the token ends if it has too many.

        Raises:
            TokenRevoked: The token has been revoked, or there is none of that number.
        """
        async with self._database.writing() as connection:
            await require_valid(connection, token)
            return await _add(connection, token, now_us)

    async def authenticate(self, secret: str, now_us: int) -> Principal | None:
        """Return the principal of a session that has not ended, and record that it is used."""
        of = digest(secret)
        row = await self._database.row(_BY_ID, {"of": of, "now": now_us, "idle": now_us - _IDLE_US})
        if row is None:
            return None
        if now_us - row.seen_us > _SEEN_EVERY_US:
            await self._record_use(of, now_us)
        return Principal(
            id=row.id,
            name=row.name,
            project=row.project_id,
            write=row.write,
            session=of,
        )

    async def find_open(self, digests: Collection[str], now_us: int) -> frozenset[str]:
        """Return which of these sessions have not ended, by their digests; no use is recorded.

        A query takes some thousand at most.
        """
        parameters = {"of": tuple(digests), "now": now_us, "idle": now_us - _IDLE_US}
        async with self._database.reading() as connection:
            return frozenset((await connection.execute(_OPEN, parameters)).scalars())

    async def _record_use(self, session: object, now_us: int) -> None:
        statement = update(sessions).where(sessions.c.id == session).values(seen_us=now_us)
        try:
            async with self._database.writing() as connection:
                await connection.execute(statement)
        except CatalogError:
            # A full disk must not sign operators out: the next request tries again.
            return

    async def remove(self, secret: str) -> None:
        """End a session, if there is one of that secret."""
        is_it = sessions.c.id == digest(secret)
        # Anybody may send a secret: an unknown one must not take a turn at writing.
        if await self._database.row(select(sessions.c.id).where(is_it), {}) is None:
            return
        async with self._database.writing() as connection:
            await connection.execute(delete(sessions).where(is_it))

    async def has_any(self) -> bool:
        """Return whether a browser is signed in, or was until its session ended by itself."""
        async with self._database.reading() as connection:
            return (await connection.execute(select(sessions.c.id).limit(1))).first() is not None

    async def add_link(self, token: int, now_us: int) -> str:
        """Return the secret of a new link that signs one browser in with a token, soon and once.

        Raises:
            TokenRevoked: The token has been revoked, or there is none of that number.
        """
        secret = secrets.token_urlsafe(32)
        async with self._database.writing() as connection:
            await require_valid(connection, token)
            await _remove(connection, sign_in_links, sign_in_links.c.expires_us <= now_us)
            expires_us = now_us + LINK_SECONDS * MICROSECONDS
            values = {"id": digest(secret), "token_id": token, "expires_us": expires_us}
            await connection.execute(insert(sign_in_links).values(values))
            await _keep_newest(connection, sign_in_links, sign_in_links.c.expires_us, token)
        return secret

    async def redeem_link(self, secret: str, now_us: int) -> tuple[int, str] | None:
        """Sign a browser in by a link, which is used up; return its token's number and the
        session's secret. None if the link is unknown, used, too old, or of a revoked token.
        """
        table = sign_in_links.c
        is_link = (table.id == digest(secret), table.expires_us > now_us)
        # Anybody may send a secret: an unknown one must not take a turn at writing.
        found = await self._database.row(select(table.token_id).where(*is_link), {})
        if found is None:
            return None
        token: int = found.token_id
        use = delete(sign_in_links).where(*is_link).returning(table.id)
        async with self._database.writing() as connection:
            # The token is locked before the link, which may have been used meanwhile.
            try:
                await require_valid(connection, token)
            except TokenRevoked:
                return None
            if (await connection.execute(use)).one_or_none() is None:
                return None
            return token, await _add(connection, token, now_us)


async def remove_of_tokens(connection: AsyncConnection, numbers: list[int]) -> None:
    """End the sessions of revoked tokens, and their links, within the caller's transaction."""
    for table in (sessions, sign_in_links):
        await _remove(connection, table, table.c.token_id.in_(numbers))


async def _add(connection: AsyncConnection, token: int, now_us: int) -> str:
    """Add a session of a token, which is valid and locked; return the session's secret."""
    secret = secrets.token_urlsafe(32)
    has_ended = (sessions.c.expires_us <= now_us) | (sessions.c.seen_us <= now_us - _IDLE_US)
    await _remove(connection, sessions, has_ended)
    await connection.execute(
        insert(sessions).values(
            id=digest(secret),
            token_id=token,
            created_us=now_us,
            seen_us=now_us,
            expires_us=now_us + LIFE_SECONDS * MICROSECONDS,
        )
    )
    await _keep_newest(connection, sessions, sessions.c.created_us, token)
    return secret


async def _keep_newest(
    connection: AsyncConnection, table: Table, age: ColumnElement[int], token: int
) -> None:
    """Remove the rows of a token beyond the newest ones."""
    is_of_token = table.c.token_id == token
    newest = select(table.c.id).where(is_of_token).order_by(age.desc(), table.c.id).limit(_MOST)
    await _remove(connection, table, is_of_token & table.c.id.not_in(newest))


async def _remove(connection: AsyncConnection, table: Table, which: ColumnElement[bool]) -> None:
    """Delete rows, except those that another transaction is deleting."""
    # Locked in one order, so that two transactions never wait for each other.
    locked = select(table.c.id).where(which).order_by(table.c.id).with_for_update(skip_locked=True)
    ids = (await connection.execute(locked)).scalars().all()
    if ids:
        await connection.execute(delete(table).where(table.c.id.in_(ids)))


async def require_valid(connection: AsyncConnection, token: int) -> None:
    """Keep a token from being revoked until the transaction ends.

    Raises:
        TokenRevoked: it has been revoked already, or does not exist.
    """
    valid = select(tokens.c.id).where(tokens.c.id == token, tokens.c.revoked_us.is_(None))
    if (
        token > named_rows.MAX_ID
        or (await connection.execute(valid.with_for_update(read=True))).one_or_none() is None
    ):
        raise TokenRevoked
