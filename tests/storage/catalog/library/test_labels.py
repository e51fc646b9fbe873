"""Tags and categories: names that are there once, and what is linked with them."""

import asyncio
from pathlib import Path

import pytest

from storage.catalog import Catalog
from storage.catalog.engine.database import database_url, open_database
from storage.catalog.library import labels
from storage.catalog.library.labels import Kind
from storage.catalog.queries import counters, named_rows
from storage.catalog.records.common import Change, LabelRecord, Named, Sort
from storage.catalog.schema.tables import categories
from storage.errors import CatalogError, NameTaken, NoSuchLabel, NoSuchProject
from tests.support.concurrent_programs import run_together
from tests.support.shared_engines import ON_BOTH

KINDS: tuple[Kind, ...] = ("tag", "category")
FAR = (0, -1, 999, 1 << 31, 1 << 63, 10**40)


async def made(catalog: Catalog, kind: Kind, project: int, *names: str) -> list[LabelRecord]:
    return [await catalog.labels.add(kind, project, name, Change(1), active=True) for name in names]


def named(label: LabelRecord) -> Named:
    return Named(id=label.id, name=label.name)


async def names(catalog: Catalog, kind: Kind, project: int, **query: object) -> list[str]:
    search, page = str(query.get("search", "")), int(str(query.get("page", 1)))
    column = query.get("sort")
    sort = Sort(str(column), descending=bool(query.get("down"))) if column else None
    labels = await catalog.labels.find_page(kind, project, search=search, sort=sort, page=page)
    return [record.name for record in labels.items]


async def counts(location: str | Path, project: int, kind: str) -> int:
    """Return the total that is kept."""
    async with (
        open_database(database_url(location), create=False) as database,
        database.reading() as connection,
    ):
        return await counters.find(connection, project, kind)


async def link(
    location: str | Path, project: int, stream: int, *wanted: int | str
) -> tuple[Named, ...]:
    """Give a stream these tags, and return those it has then."""
    async with open_database(database_url(location), create=False) as database:
        async with database.writing() as connection:
            await labels.link_tags(connection, project, "stream", stream, wanted, 5)
        async with database.reading() as connection:
            return (await labels.tags_of(connection, "stream", [stream]))[stream]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_label_is_found_by_its_number(catalog: Catalog, kind: Kind) -> None:
    project = (await catalog.projects.add("One", Change(1))).id
    (label,) = await made(catalog, kind, project, "Știri de azi 🎬")
    assert label == LabelRecord(id=label.id, project=project, name="Știri de azi 🎬", active=True)
    assert await catalog.labels.find(kind, label.id) == label
    for number in FAR:
        assert await catalog.labels.find(kind, number) is None


@ON_BOTH
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("twin", ["Știri", "știri", "ȘTIRI", "S\u0326tiri"])
async def test_a_name_is_there_once_whatever_its_case(
    catalog: Catalog, kind: Kind, twin: str
) -> None:
    one = (await catalog.projects.add("One", Change(1))).id
    two = (await catalog.projects.add("Two", Change(1))).id
    news, sport = await made(catalog, kind, one, "Știri", "Sport")
    with pytest.raises(NameTaken):
        await made(catalog, kind, one, twin)
    with pytest.raises(NameTaken):
        await catalog.labels.edit(kind, sport.id, Change(2), name=twin)
    # A refused change has no effect, and another project may use the name.
    assert await names(catalog, kind, one) == ["Sport", "Știri"]
    await made(catalog, kind, two, twin)
    # A label may take its own name in another case.
    renamed = await catalog.labels.edit(kind, news.id, Change(2), name=twin)
    assert renamed is not None
    assert (renamed.id, renamed.name) == (news.id, twin)


@pytest.mark.parametrize("kind", KINDS)
async def test_an_edit_changes_only_the_fields_that_it_names(catalog: Catalog, kind: Kind) -> None:
    project = (await catalog.projects.add("One", Change(1))).id
    (label,) = await made(catalog, kind, project, "News")
    off = await catalog.labels.edit(kind, label.id, Change(2, by=7), active=False)
    assert off == LabelRecord(id=label.id, project=project, name="News", active=False)
    named = await catalog.labels.edit(kind, label.id, Change(3, by=7), name="Sport")
    assert named == LabelRecord(id=label.id, project=project, name="Sport", active=False)
    assert await catalog.labels.edit(kind, label.id, Change(4, by=7)) == named
    assert await catalog.labels.edit(kind, 999, Change(4, by=7), name="X") is None
    logged = (await catalog.events.find_page(project)).items
    assert [(each.kind, each.facts, each.token) for each in logged[:2]] == [
        (f"{kind} edited", {kind: label.id, "keys": ["name"]}, 7),
        (f"{kind} edited", {kind: label.id, "keys": ["active"]}, 7),
    ]


@ON_BOTH
@pytest.mark.parametrize("kind", KINDS)
async def test_a_list_is_searched_sorted_and_paged(catalog: Catalog, kind: Kind) -> None:
    project = (await catalog.projects.add("One", Change(1))).id
    other = (await catalog.projects.add("Two", Change(1))).id
    await made(catalog, kind, other, "elsewhere")
    await made(catalog, kind, project, "b 100%", "Ärzte", "a_b", "Zoo", "apfel")
    zoo = (await catalog.labels.find_page(kind, project)).items[1]
    await catalog.labels.edit(kind, zoo.id, Change(2), active=False)
    assert await names(catalog, kind, project) == ["apfel", "Zoo", "a_b", "Ärzte", "b 100%"]
    by_name = ["a_b", "apfel", "b 100%", "Zoo", "Ärzte"]
    assert await names(catalog, kind, project, sort="name") == by_name
    assert await names(catalog, kind, project, sort="name", down=True) == by_name[::-1]
    assert (await names(catalog, kind, project, sort="active"))[0] == "Zoo"
    assert (await names(catalog, kind, project, sort="id", down=False))[0] == "b 100%"
    assert await names(catalog, kind, project, search="ÄRZ") == ["Ärzte"]
    assert await names(catalog, kind, project, search="%") == ["b 100%"]
    assert await names(catalog, kind, project, search="_") == ["a_b"]
    await made(catalog, kind, project, *(f"more {number}" for number in range(7)))
    last = await catalog.labels.find_page(kind, project, page=2)
    assert (last.total, last.last, len(last.items)) == (12, 2, 2)
    beyond = await catalog.labels.find_page(kind, project, page=10**17)
    assert (beyond.total, beyond.items) == (12, ())


@pytest.mark.parametrize("kind", KINDS)
async def test_totals_follow_what_is_added_and_deleted(
    location: str | Path, catalog: Catalog, kind: Kind
) -> None:
    project = (await catalog.projects.add("One", Change(1))).id
    table = "tags" if kind == "tag" else "categories"
    one, _, _ = await made(catalog, kind, project, "a", "b", "c")
    with pytest.raises(NameTaken):
        await made(catalog, kind, project, "A")
    assert await counts(location, project, table) == 3
    assert await catalog.labels.remove(kind, one.id, Change(2))
    assert not await catalog.labels.remove(kind, one.id, Change(2))
    assert await counts(location, project, table) == 2
    assert await names(catalog, kind, project) == ["c", "b"]
    # A number is never given twice.
    (again,) = await made(catalog, kind, project, "a")
    assert again.id > one.id


@pytest.mark.parametrize("kind", KINDS)
async def test_a_label_of_no_project_is_refused(catalog: Catalog, kind: Kind) -> None:
    with pytest.raises(NoSuchProject):
        await made(catalog, kind, 99, "lost")


@ON_BOTH
async def test_tags_are_linked_by_number_and_by_name(
    location: str | Path, catalog: Catalog
) -> None:
    project = (await catalog.projects.add("One", Change(1))).id
    stream = (await catalog.streams.add(project, "A stream", Change(1))).id
    news, sport = await made(catalog, "tag", project, "News", "Sport")
    linked = await link(
        location, project, stream,
        "new one", sport.id, "NEWS", "NEW ONE",
        sport.id,
    )  # fmt: skip
    assert [tag.name for tag in linked] == ["new one", "News", "Sport"]
    assert linked[1:] == (named(news), named(sport))
    assert await counts(location, project, "tags") == 3
    # The list is replaced whole.
    assert await link(location, project, stream, news.id) == (named(news),)
    assert await link(location, project, stream) == ()
    assert await names(catalog, "tag", project) == ["new one", "Sport", "News"]


@ON_BOTH
async def test_many_tags_are_linked_at_once(location: str | Path, catalog: Catalog) -> None:
    project = (await catalog.projects.add("One", Change(1))).id
    stream = (await catalog.streams.add(project, "A stream", Change(1))).id
    linked = await link(location, project, stream, *(f"tag {n}" for n in range(600)))
    assert len(linked) == 600
    again = await link(location, project, stream, *(tag.id for tag in linked))
    assert again == linked
    assert await counts(location, project, "tags") == 600


async def test_a_number_of_no_tag_of_the_project_is_refused_whole(
    location: str | Path, catalog: Catalog
) -> None:
    one = (await catalog.projects.add("One", Change(1))).id
    two = (await catalog.projects.add("Two", Change(1))).id
    stream = (await catalog.streams.add(one, "A stream", Change(1))).id
    (mine,) = await made(catalog, "tag", one, "mine")
    (theirs,) = await made(catalog, "tag", two, "theirs")
    assert await link(location, one, stream, mine.id) == (named(mine),)
    for number in (theirs.id, *FAR):
        with pytest.raises(NoSuchLabel) as refused:
            await link(location, one, stream, "fresh", number)
        assert (refused.value.kind, refused.value.number) == ("tag", number)
    async with (
        open_database(database_url(location), create=False) as database,
        database.reading() as connection,
    ):
        assert await labels.tags_of(connection, "stream", [stream, 999]) == {
            stream: (named(mine),),
            999: (),
        }
    assert await names(catalog, "tag", one) == ["mine"]


async def test_a_deleted_tag_is_taken_from_what_had_it(
    location: str | Path, catalog: Catalog
) -> None:
    project = (await catalog.projects.add("One", Change(1))).id
    stream = (await catalog.streams.add(project, "A stream", Change(1))).id
    news, sport = await link(location, project, stream, "News", "Sport")
    assert await catalog.labels.remove("tag", news.id, Change(2))
    async with (
        open_database(database_url(location), create=False) as database,
        database.reading() as connection,
    ):
        assert await labels.tags_of(connection, "stream", [stream]) == {stream: (sport,)}


async def test_a_category_is_of_its_project(location: str | Path, catalog: Catalog) -> None:
    one = (await catalog.projects.add("One", Change(1))).id
    two = (await catalog.projects.add("Two", Change(1))).id
    (film,) = await made(catalog, "category", one, "Film")
    async with (
        open_database(database_url(location), create=False) as database,
        database.writing() as connection,
    ):
        await labels.require_category(connection, one, film.id)
        found = await named_rows.find_named(connection, categories, [film.id, 999])
        assert found == {film.id: named(film)}
        assert await named_rows.find_named(connection, categories, ()) == {}
        for project, number in [(two, film.id), *((one, far) for far in FAR)]:
            with pytest.raises(NoSuchLabel) as refused:
                await labels.require_category(connection, project, number)
            assert (refused.value.kind, refused.value.number) == ("category", number)


# Makes tags with the same names as the other processes, in both ways, and deletes some.
MAKER = """
import asyncio, sys
from storage.catalog import open_catalog
from storage.catalog.engine.database import database_url, open_database
from storage.catalog.library import labels
from storage.catalog.records.common import Change
from storage.errors import NameTaken

async def main(place, project, stream, rounds):
    async with (open_catalog(place, migrate=False) as catalog,
                open_database(database_url(place), create=False) as database):
        together()
        made = 0
        for number in range(rounds):
            async with database.writing() as connection:
                wanted = [f"linked {number}", f"LINKED {number + 1}"]
                await labels.link_tags(connection, project, "stream", stream, wanted, number)
            try:
                await catalog.labels.add("tag", project, f"Added {number}", Change(number, by=1),
                                         active=True)
                made += 1
            except NameTaken:
                pass
        print(made, flush=True)

asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:])))
"""
ROUNDS = 20
PROCESSES = 3


@ON_BOTH
async def test_processes_that_make_the_same_tags_make_one_of_each(
    location: str | Path, catalog: Catalog
) -> None:
    project = (await catalog.projects.add("One", Change(1))).id
    streams = [
        (await catalog.streams.add(project, f"Stream {number}", Change(1))).id
        for number in range(PROCESSES)
    ]
    outputs = await run_together(
        *((MAKER, str(location), str(project), str(stream), str(ROUNDS)) for stream in streams)
    )
    assert sum(map(int, outputs)) == ROUNDS
    assert await counts(location, project, "tags") == 2 * ROUNDS + 1
    stored_names = {
        name for page in range(1, 6) for name in await names(catalog, "tag", project, page=page)
    }
    assert {name.casefold() for name in stored_names} == {
        *(f"added {number}" for number in range(ROUNDS)),
        *(f"linked {number}" for number in range(ROUNDS + 1)),
    }
    async with (
        open_database(database_url(location), create=False) as database,
        database.reading() as connection,
    ):
        linked = await labels.tags_of(connection, "stream", streams)
    assert [len(tags) for tags in linked.values()] == [2] * PROCESSES


@ON_BOTH
async def test_a_tag_that_is_deleted_while_it_is_linked_is_linked_or_refused(
    location: str | Path, catalog: Catalog
) -> None:
    project = (await catalog.projects.add("One", Change(1))).id
    stream = (await catalog.streams.add(project, "A stream", Change(1))).id
    outcomes: set[str] = set()
    for number in range(20):
        (tag,) = await made(catalog, "tag", project, f"tag {number}")

        async def linking(tag: int = tag.id) -> None:
            try:
                await link(location, project, stream, tag)
                outcomes.add("linked")
            except CatalogError as error:
                # Never an error that a client would see as an internal one.
                assert isinstance(error, NoSuchLabel)
                outcomes.add("refused")

        async def deleting(tag: int = tag.id) -> None:
            assert await catalog.labels.remove("tag", tag, Change(2))

        async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
            tasks.create_task(linking())
            tasks.create_task(deleting())
        assert (await catalog.labels.find_page("tag", project)).total == 0
    assert outcomes <= {"linked", "refused"}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_check_that_raises_keeps_the_label_as_it_is(catalog: Catalog, kind: Kind) -> None:
    project = (await catalog.projects.add("One", Change(1))).id
    (label,) = await made(catalog, kind, project, "News")
    records: list[LabelRecord] = []

    def refuse(record: LabelRecord) -> None:
        records.append(record)
        raise LookupError

    with pytest.raises(LookupError):
        await catalog.labels.edit(kind, label.id, Change(2), name="x", check=refuse)
    assert records == [label]
    assert await catalog.labels.find(kind, label.id) == label
    assert await catalog.labels.edit(kind, 999, Change(2), name="x", check=refuse) is None
