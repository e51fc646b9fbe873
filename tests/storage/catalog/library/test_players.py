"""Players: what is kept of them, and who has them."""

import asyncio
from pathlib import Path

import pytest

from storage.catalog import Catalog, open_catalog
from storage.catalog.engine.database import database_url, open_database
from storage.catalog.library import players
from storage.catalog.library.players import STANDARD
from storage.catalog.queries import named_rows
from storage.catalog.records.common import Change, Named, PlayerOptions, PlayerRecord
from storage.catalog.schema.tables import players as table
from storage.errors import NoSuchLabel, NoSuchProject
from tests.support.shared_engines import ON_BOTH

FAR = (0, -1, 999, 1 << 31, 1 << 63, 10**40)


async def made(
    catalog: Catalog, project: int, name: str, options: PlayerOptions = STANDARD
) -> PlayerRecord:
    return await catalog.players.add(project, name, options, Change(1, by=3))


async def test_a_player_is_found_as_it_was_added(catalog: Catalog) -> None:
    project = (await catalog.projects.add("One", Change(1))).id
    options = PlayerOptions(autoplay=True, muted=True, controls=False, color="#ff00aa")
    player = await made(catalog, project, "Ecran „mare”", options)
    assert player.options == options
    assert (player.project, player.name, player.created_us) == (project, "Ecran „mare”", 1)
    assert await catalog.players.find(player.id) == player
    for number in FAR:
        assert await catalog.players.find(number) is None
    with pytest.raises(NoSuchProject):
        await made(catalog, 99, "lost")


async def test_an_edit_changes_the_options_it_names_alone(catalog: Catalog) -> None:
    project = (await catalog.projects.add("One", Change(1))).id
    player = await made(catalog, project, "One")
    assert player.options == PlayerOptions(
        autoplay=False, muted=False, loop=False, controls=True, color=None
    )
    changed = await catalog.players.edit(
        player.id, Change(2, by=3), options={"muted": True, "color": "#000000"}
    )
    assert changed is not None
    assert changed.options == PlayerOptions(muted=True, color="#000000")
    assert (changed.name, changed.created_us, changed.updated_us) == ("One", 1, 2)
    cleared = await catalog.players.edit(
        player.id, Change(3, by=3), name="Two", options={"color": None}
    )
    assert cleared is not None
    assert (cleared.name, cleared.options) == ("Two", PlayerOptions(muted=True))
    assert await catalog.players.edit(player.id, Change(4, by=3), options={}) == cleared
    assert await catalog.players.edit(999, Change(4, by=3), options={"loop": True}) is None
    logged = (await catalog.events.find_page(project)).items
    assert [(each.kind, each.facts, each.token) for each in logged[:3]] == [
        ("player edited", {"player": player.id, "keys": ["name", "color"]}, 3),
        ("player edited", {"player": player.id, "keys": ["muted", "color"]}, 3),
        ("player added", {"player": player.id, "name": "One"}, 3),
    ]


async def test_a_name_may_be_there_twice_and_lists_find_both(catalog: Catalog) -> None:
    project = (await catalog.projects.add("One", Change(1))).id
    numbers = [(await made(catalog, project, "Ăl mare")).id for _ in range(2)]
    await made(catalog, project, "other")
    players = await catalog.players.find_page(project, search="ăL M")
    assert ([each.id for each in players.items], players.total) == (numbers[::-1], 2)
    assert (await catalog.players.find_page(project)).total == 3


@ON_BOTH
async def test_a_player_belongs_to_one_project_until_it_is_deleted(
    location: str | Path, catalog: Catalog
) -> None:
    one = (await catalog.projects.add("One", Change(1))).id
    two = (await catalog.projects.add("Two", Change(1))).id
    player = await made(catalog, one, "Mine")
    async with (
        open_database(database_url(location), create=False) as database,
        database.writing() as connection,
    ):
        await players.require(connection, one, player.id)
        found = await named_rows.find_named(connection, table, [player.id, 999, None])
        assert found == {player.id: Named(id=player.id, name="Mine")}
        for project, number in [(two, player.id), *((one, far) for far in FAR)]:
            with pytest.raises(NoSuchLabel) as refused:
                await players.require(connection, project, number)
            assert (refused.value.kind, refused.value.number) == ("player", number)
    assert await catalog.players.remove(player.id, Change(2))
    assert not await catalog.players.remove(player.id, Change(2))
    assert (await catalog.players.find_page(one)).total == 0


@ON_BOTH
async def test_edits_of_several_options_at_once_are_all_kept(
    location: str | Path, catalog: Catalog
) -> None:
    project = (await catalog.projects.add("One", Change(1))).id
    player = await made(catalog, project, "One")
    async with open_catalog(location, migrate=False) as other:
        for on in (True, False) * 5:

            async def edit(mine: Catalog, key: str, value: bool = on) -> None:
                options: dict[str, bool | str | None] = {key: value}
                await mine.players.edit(player.id, Change(2), options=options)

            async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
                tasks.create_task(edit(catalog, "muted"))
                tasks.create_task(edit(other, "loop"))
                tasks.create_task(edit(other, "autoplay"))
            stored = await catalog.players.find(player.id)
            assert stored is not None
            assert stored.options == PlayerOptions(muted=on, loop=on, autoplay=on)


async def test_a_check_that_raises_keeps_the_player_as_it_is(catalog: Catalog) -> None:
    project = (await catalog.projects.add("One", Change(1))).id
    player = await made(catalog, project, "One")
    records: list[PlayerRecord] = []

    def refuse(record: PlayerRecord) -> None:
        records.append(record)
        raise LookupError

    with pytest.raises(LookupError):
        await catalog.players.edit(
            player.id, Change(2, by=3), options={"muted": True}, check=refuse
        )
    assert records == [player]
    assert await catalog.players.find(player.id) == player
