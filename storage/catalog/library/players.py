"""Players (`catalog.players`): how the page that plays a stream or a video behaves and looks.

The functions run within the caller's transaction.
"""

from collections.abc import Callable, Collection
from typing import Any, Final

import msgspec
from sqlalchemy import Row, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from storage.catalog.engine.database import Database
from storage.catalog.events import log as event_log
from storage.catalog.library import label_locks
from storage.catalog.queries import counters, named_rows, project_lookup
from storage.catalog.queries.casefold import fold
from storage.catalog.records.common import Page, PlayerOptions, PlayerRecord, Sort
from storage.catalog.schema.tables import players
from storage.errors import NoSuchLabel

__all__ = ["STANDARD", "Players", "add", "edit", "names_of", "remove", "require"]

# The options of a new player where its owner sets none.
STANDARD: Final = PlayerOptions()
# How many numbers one statement names: SQLite takes 32 766, older ones 999.
_AT_ONCE: Final = 500


def _text(options: PlayerOptions) -> str:
    return msgspec.json.encode(options).decode()


def _record(row: Row[Any]) -> PlayerRecord:  # Any: the row of a whole table has no static type
    return PlayerRecord(
        id=row.id,
        project=row.project_id,
        name=row.name,
        options=msgspec.json.decode(row.options, type=PlayerOptions),
        created_us=row.created_us,
        updated_us=row.updated_us,
    )


async def require(connection: AsyncConnection, project: int, player: int) -> None:
    """Check that the project has a player with that number, and lock it.

    Raises:
        NoSuchLabel: it has none.
    """
    if not await named_rows.lock(connection, players, project, player):
        raise NoSuchLabel("player", player)


async def names_of(connection: AsyncConnection, ids: Collection[int]) -> dict[int, str]:
    """Return the names of the players with these numbers, by number."""
    names: dict[int, str] = {}
    numbers = sorted(set(ids))
    for start in range(0, len(numbers), _AT_ONCE):
        is_in_batch = players.c.id.in_(numbers[start : start + _AT_ONCE])
        for number, name in await connection.execute(
            select(players.c.id, players.c.name).where(is_in_batch)
        ):
            names[number] = name
    return names


async def add(
    connection: AsyncConnection, project: int, name: str, options: PlayerOptions, now_us: int
) -> PlayerRecord:
    """Add a player.

    Raises:
        NoSuchProject: there is no such project.
    """
    await project_lookup.require(connection, project)
    statement = insert(players).values(
        project_id=project,
        name=name,
        name_fold=fold(name),
        options=_text(options),
        created_us=now_us,
        updated_us=now_us,
        version=1,
    )
    row = (await connection.execute(statement.returning(players))).one()
    counters.add(connection, project, players.name, 1)
    return _record(row)


async def edit(
    connection: AsyncConnection,
    player: int,
    now_us: int,
    *,
    name: str | None,
    options: dict[str, bool | str | None],
    check: Callable[[PlayerRecord], None] | None = None,
) -> PlayerRecord | None:
    """Change the name unless it is None, and those options; return None if there is none.

    `check` may raise to keep the player as it is; it gets the record before the change.
    """
    await label_locks.lock_project(connection, players, player)
    locked = select(players).where(players.c.id == player).with_for_update()
    row = (await connection.execute(locked)).one_or_none()
    if row is None:
        return None
    before = _record(row)
    if check is not None:
        check(before)
    values: dict[str, object] = {"version": players.c.version + 1, "updated_us": now_us}
    if name is not None:
        values |= {"name": name, "name_fold": fold(name)}
    if options:
        new_options = msgspec.structs.replace(before.options, **options)
        values["options"] = _text(new_options)
    statement = update(players).where(players.c.id == player).values(values).returning(players)
    return _record((await connection.execute(statement)).one())


async def remove(connection: AsyncConnection, player: int) -> PlayerRecord | None:
    """Delete a player and return it; records that used it get the standard player."""
    await label_locks.lock_records(connection, "player_id", player)
    await label_locks.lock_project(connection, players, player)
    statement = delete(players).where(players.c.id == player).returning(players)
    row = (await connection.execute(statement)).one_or_none()
    if row is None:
        return None
    counters.add(connection, row.project_id, players.name, -1)
    return _record(row)


class Players:
    """The catalog's players: each method is one transaction.

    `by` is the number of the caller's token.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, player: int) -> PlayerRecord | None:
        """Return the player with that number."""
        async with self._database.reading() as connection:
            is_present = project_lookup.is_of_present(players.c.project_id)
            query = select(players).where(players.c.id == player, is_present)
            row = (
                (await connection.execute(query)).one_or_none()
                if player <= named_rows.MAX_ID
                else None
            )
            return None if row is None else _record(row)

    async def find_page(
        self,
        project: int,
        *,
        search: str = "",
        sort: Sort | None = None,
        page: int = 1,
        size: int = named_rows.PAGE_SIZE,
    ) -> Page[PlayerRecord]:
        """Return a page of a project's players, newest first unless `sort` says otherwise."""
        async with self._database.reading() as connection:
            return await named_rows.find_page(
                connection,
                players,
                project,
                _record,
                search=search,
                sort=sort or Sort(),
                page=page,
                size=size,
            )

    async def add(
        self, project: int, name: str, options: PlayerOptions, *, by: int | None, now_us: int
    ) -> PlayerRecord:
        """Add a player.

        Raises:
            NoSuchProject: there is no such project.
        """
        async with self._database.writing() as connection:
            record = await add(connection, project, name, options, now_us)
            facts = {"player": record.id, "name": name}
            await event_log.record(connection, project, "player added", facts, now_us, by=by)
            return record

    async def edit(
        self,
        player: int,
        *,
        name: str | None = None,
        options: dict[str, bool | str | None],
        by: int | None,
        now_us: int,
        check: Callable[[PlayerRecord], None] | None = None,
    ) -> PlayerRecord | None:
        """Change the name unless it is None, and those options; return None if there is none.

        `options` are fields of `PlayerOptions` with their new values. `check` may raise to keep the
        player as it is; it gets the record before the change, locked against other changes.
        """
        keys = [*(["name"] if name is not None else []), *options]
        if not keys:
            return await self.find(player)
        async with self._database.writing() as connection:
            record = await edit(connection, player, now_us, name=name, options=options, check=check)
            if record is not None:
                facts = {"player": player, "keys": keys}
                project = record.project
                await event_log.record(connection, project, "player edited", facts, now_us, by=by)
            return record

    async def remove(self, player: int, *, by: int | None, now_us: int) -> bool:
        """Delete a player; return False if there is none."""
        async with self._database.writing() as connection:
            record = await remove(connection, player)
            if record is None:
                return False
            facts = {"player": player, "name": record.name}
            await event_log.record(
                connection, record.project, "player deleted", facts, now_us, by=by
            )
            return True
