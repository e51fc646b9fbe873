"""Players (`catalog.players`): how the page that plays a stream or a video behaves and looks."""

from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec
from sqlalchemy import insert, select, update

from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.engine.database import Repository
from storage.catalog.events.announcement import announce
from storage.catalog.events.kinds import LABEL_EVENTS
from storage.catalog.library import label_locks, label_removal
from storage.catalog.queries import counters, named_rows, project_lookup
from storage.catalog.queries.row_reader import RowReader
from storage.catalog.queries.text_search import searchable
from storage.catalog.records.common import Change, Page, PlayerOptions, PlayerRecord, Sort
from storage.catalog.schema.tables import players
from storage.errors import NoSuchLabel

# The options of a new player where its owner sets none.
STANDARD: Final = PlayerOptions()


def _text(options: PlayerOptions) -> str:
    return msgspec.json.encode(options).decode()


_READER: Final = RowReader(
    PlayerRecord,
    players,
    parsers={"options": partial(msgspec.json.decode, type=PlayerOptions)},
)


async def require(connection: AsyncConnection, project: int, player: int) -> None:
    """Check that the project has a player with that number, and lock it.

    Runs within the caller's transaction.

    Raises:
        NoSuchLabel: it has none.
    """
    if not await named_rows.lock(connection, players, project, player):
        raise NoSuchLabel("player", player)


class Players(Repository):
    """The catalog's players: each method is one transaction, but for `remove`."""

    async def find(self, player: int) -> PlayerRecord | None:
        """Return the player with that number."""
        async with self._database.reading() as connection:
            is_present = project_lookup.is_of_present(players.c.project_id)
            if player > named_rows.MAX_ID:
                return None
            query = select(*_READER.columns).where(players.c.id == player, is_present)
            return await _READER.find(connection, query)

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
                _READER,
                search=search,
                sort=sort or Sort(),
                page=page,
                size=size,
            )

    async def add(
        self, project: int, name: str, options: PlayerOptions, change: Change
    ) -> PlayerRecord:
        """Add a player.

        Raises:
            NoSuchProject: there is no such project.
        """
        statement = insert(players).values(
            project_id=project,
            name=name,
            **searchable("name", name),
            options=_text(options),
            created_us=change.now_us,
            updated_us=change.now_us,
            version=1,
        )
        async with self._database.writing() as connection:
            await project_lookup.require(connection, project)
            statement = statement.returning(*_READER.columns)
            record = _READER.read((await connection.execute(statement)).one())
            counters.add(connection, project, players.name, 1)
            event = LABEL_EVENTS["player"].added(label=record.id, name=name)
            await announce(connection, project, "", event, change=change)
            return record

    async def edit(
        self,
        player: int,
        change: Change,
        *,
        name: str | None = None,
        options: dict[str, bool | str | None],
        check: Callable[[PlayerRecord], None] | None = None,
    ) -> PlayerRecord | None:
        """Change the name unless it is None, and those options; return None if there is none.

        `options` are fields of `PlayerOptions` with their new values. `check` may raise to keep the
        player as it is; it gets the record before the change, locked against other changes.
        """
        keys = [*(["name"] if name is not None else []), *options]
        if not keys:
            return await self.find(player)
        is_player = players.c.id == player
        values: dict[str, object] = {"version": players.c.version + 1, "updated_us": change.now_us}
        if name is not None:
            values |= {"name": name, **searchable("name", name)}
        async with self._database.writing() as connection:
            await label_locks.lock_project(connection, players, player)
            locked = select(*_READER.columns).where(is_player).with_for_update()
            before = await _READER.find(connection, locked)
            if before is None:
                return None
            if check is not None:
                check(before)
            if options:
                values["options"] = _text(msgspec.structs.replace(before.options, **options))
            statement = update(players).where(is_player).values(values).returning(*_READER.columns)
            record = _READER.read((await connection.execute(statement)).one())
            event = LABEL_EVENTS["player"].edited(label=player, keys=keys)
            await announce(connection, record.project, "", event, change=change)
            return record

    async def remove(self, player: int, change: Change) -> bool:
        """Delete a player; return False if there is none.

        Records that used it get the standard player first, in batches.
        """
        return await label_removal.remove(
            self._database, "player", players, player, change, column="player_id"
        )
