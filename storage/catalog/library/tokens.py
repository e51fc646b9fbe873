"""API tokens (`catalog.tokens`), of which only the SHA-256 is stored.

A token is 32 random bytes, so a plain digest is enough: there is no dictionary to try. The database
looks the digest up; how long that takes reveals something of the digest to a guesser, not of the
token.
"""

import secrets
from collections.abc import Collection
from typing import Final

from sqlalchemy import CTE, bindparam, insert, select, update

from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.engine.database import Repository
from storage.catalog.events.announcement import announce
from storage.catalog.events.kinds import TokenAddedEvent, TokenRevokedEvent
from storage.catalog.library.sessions import remove_of_tokens, require_valid
from storage.catalog.queries import named_rows, project_lookup
from storage.catalog.queries.digest import digest
from storage.catalog.queries.row_reader import RowReader
from storage.catalog.records.common import Change, Page, Principal, TokenRecord
from storage.catalog.schema.tables import tokens

# Makes a leaked token recognisable, to people and to scanners of repositories.
_PREFIX: Final = "headend_"
# Run at each API call: built once, as building it costs more than running it.
_BY_DIGEST: Final = select(tokens.c.id, tokens.c.name, tokens.c.project_id, tokens.c.write).where(
    tokens.c.digest == bindparam("of"), tokens.c.revoked_us.is_(None)
)
_VALID: Final = select(tokens.c.id).where(
    tokens.c.id.in_(bindparam("of", expanding=True)), tokens.c.revoked_us.is_(None)
)
_ORDER: Final = (tokens.c.id.desc(),)


_READER: Final = RowReader(TokenRecord, tokens)


async def add(
    connection: AsyncConnection, name: str, project: int | None, write: bool, change: Change
) -> tuple[TokenRecord, str]:
    """Add a token, within the caller's transaction and without an event.

    Returns its record and its text, which is stored nowhere.

    Raises:
        NoSuchProject: There is no such project.
    """
    if project is not None:
        await project_lookup.require(connection, project)
    text = _PREFIX + secrets.token_urlsafe(32)
    statement = insert(tokens).values(
        digest=digest(text),
        name=name,
        project_id=project,
        write=write,
        created_us=change.now_us,
        created_by=change.by,
    )
    row = (await connection.execute(statement.returning(*_READER.columns))).one()
    return _READER.read(row), text


class Tokens(Repository):
    """The tokens of a catalog; each method is one transaction."""

    async def add(
        self, name: str, project: int | None, change: Change, *, write: bool
    ) -> tuple[TokenRecord, str]:
        """Add a token for one project, or for all (None).

        Returns its record and its text, which is stored nowhere.

        Raises:
            NoSuchProject: There is no such project.
            TokenRevoked: The token that adds it has been revoked meanwhile.
        """
        async with self._database.writing() as connection:
            if change.by is not None:
                await require_valid(connection, change.by)
            record, text = await add(connection, name, project, write, change)
            await _announce(connection, record, TokenAddedEvent, change)
            return record, text

    async def find(self, token: int) -> TokenRecord | None:
        """Return the token with that number, revoked or not."""
        if token > named_rows.MAX_ID:
            return None
        statement = select(*_READER.columns).where(tokens.c.id == token)
        async with self._database.reading() as connection:
            return await _READER.find(connection, statement)

    async def find_page(self, *, reach: int | None = None, page: int = 1) -> Page[TokenRecord]:
        """Return a page of tokens, newest first; `reach` limits it to one project's."""
        conditions = [] if reach is None else [tokens.c.project_id == reach]
        async with self._database.reading() as connection:
            return await named_rows.page_of(
                connection, tokens, conditions, _ORDER, _READER, total=None, page=page
            )

    async def find_all(self) -> tuple[TokenRecord, ...]:
        """Return every token, oldest first, revoked ones included."""
        async with self._database.reading() as connection:
            query = select(*_READER.columns).order_by(tokens.c.id)
            return await _READER.find_all(connection, query)

    async def find_valid(self, numbers: Collection[int]) -> frozenset[int]:
        """Return which of these tokens are not revoked; a query takes some thousand at most."""
        parameters = {"of": tuple(each for each in numbers if each <= named_rows.MAX_ID)}
        async with self._database.reading() as connection:
            return frozenset((await connection.execute(_VALID, parameters)).scalars())

    async def revoke(
        self, token: int, change: Change, *, descendants: bool = False
    ) -> tuple[TokenRecord, ...]:
        """Revoke a token at once; return what was revoked, in order of number.

        Browsers that signed in with what is revoked are signed out.

        `descendants` includes the tokens added with it, and those added with these. Tokens that
        were revoked before stay as they are; but their descendants are revoked too.
        """
        if not 0 < token <= named_rows.MAX_ID:
            return ()
        is_affected = (
            tokens.c.id.in_(select(_family(token).c.id)) if descendants else tokens.c.id == token
        )
        statement = (
            update(tokens)
            .where(is_affected, tokens.c.revoked_us.is_(None))
            .values(revoked_us=change.now_us)
            .returning(*_READER.columns)
        )
        async with self._database.writing() as connection:
            revoked: list[TokenRecord] = []
            # Each statement waits for tokens that are being added with those it revokes, and only
            # the next one sees them.
            while more := await _READER.find_all(connection, statement):
                revoked += more
            revoked.sort(key=lambda record: record.id)
            await remove_of_tokens(connection, [record.id for record in revoked])
            for record in revoked:
                await _announce(connection, record, TokenRevokedEvent, change)
            return tuple(revoked)

    async def authenticate(self, token: str) -> Principal | None:
        """Return the principal that a token's text identifies; None if unknown or revoked."""
        row = await self._database.row(_BY_DIGEST, {"of": digest(token)})
        if row is None:
            return None
        return Principal(id=row.id, name=row.name, project=row.project_id, write=row.write)


def _family(token: int) -> CTE:
    """Return the numbers of a token and of all its descendants."""
    family = select(tokens.c.id).where(tokens.c.id == token).cte("family", recursive=True)
    # UNION leaves out what was found before, so that even a circle would end.
    return family.union(select(tokens.c.id).where(tokens.c.created_by == family.c.id))


async def _announce(
    connection: AsyncConnection,
    record: TokenRecord,
    event_type: type[TokenAddedEvent | TokenRevokedEvent],
    change: Change,
) -> None:
    """Announce an event about a token, by its number.

    A token for all projects is recorded with the first project, the installation's own; nothing
    is recorded where there is no project at all yet.
    """
    project = record.project
    if project is None:
        project = await project_lookup.find_first(connection)
    if project is not None:
        event = event_type(token=record.id, name=record.name, write=record.write)
        await announce(connection, project, "", event, change=change)
