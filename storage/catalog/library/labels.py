"""Tags and categories (`catalog.labels`): a project's names to find streams and videos by.

A name is unique in its project, ignoring case (`storage.catalog.queries.casefold`). A stream or
video has any number of tags and at most one category. The functions run within the caller's
transaction.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Final, Literal

from sqlalchemy import Table, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.engine.database import Repository
from storage.catalog.events.announcement import announce
from storage.catalog.events.kinds import LABEL_EVENTS
from storage.catalog.library import label_locks, label_removal
from storage.catalog.queries import counters, named_rows, project_lookup
from storage.catalog.queries.casefold import fold
from storage.catalog.queries.insert_missing import insert_missing
from storage.catalog.queries.row_reader import RowReader
from storage.catalog.queries.text_search import searchable
from storage.catalog.records.common import Change, LabelRecord, Named, Page, Sort
from storage.catalog.schema.tables import categories, stream_tags, tags, video_tags
from storage.errors import CatalogBusy, NameTaken, NoSuchLabel

Kind = Literal["tag", "category"]

COLUMNS: Final = ("id", "name", "active")  # what lists are sorted by
_TABLES: Final[dict[Kind, Table]] = {"tag": tags, "category": categories}
_READERS: Final = {kind: RowReader(LabelRecord, table) for kind, table in _TABLES.items()}
# The tables that link a record with its tags, and their column for the record.
_LINKS: Final = {"stream": (stream_tags, "stream_id"), "video": (video_tags, "video_id")}
_TRIES: Final = 3


def _row(project: int, name: str, active: bool, now_us: int) -> dict[str, object]:
    return {
        "project_id": project,
        "name": name,
        **searchable("name", name),
        "active": active,
        "created_us": now_us,
        "updated_us": now_us,
        "version": 1,
    }


async def link_tags(
    connection: AsyncConnection,
    project: int,
    table: Literal["stream", "video"],
    record: int,
    new_tags: Sequence[int | str],
    now_us: int,
) -> None:
    """Replace a record's tags, each by its number or name; a new name adds a tag.

    The caller holds the record's row.

    Raises:
        NoSuchLabel: a number is that of no tag of the project.
        CatalogBusy: other processes keep adding and deleting tags of these names.
    """
    links, owner = _LINKS[table]
    ids = [tag for tag in new_tags if isinstance(tag, int)]
    numbers = await _lock(connection, project, ids)
    for number in ids:
        if number not in numbers:
            raise NoSuchLabel("tag", number)
    # By their folded names: the first spelling of a name counts.
    names: dict[str, str] = {}
    for tag in new_tags:
        if isinstance(tag, str):
            names.setdefault(fold(tag), tag)
    numbers |= await _find_or_add(connection, project, names, now_us)
    await connection.execute(delete(links).where(links.c[owner] == record))
    if numbers:
        rows = [{owner: record, "tag_id": number} for number in sorted(numbers)]
        await connection.execute(insert(links), rows)


async def _lock(connection: AsyncConnection, project: int, ids: Collection[int]) -> set[int]:
    """Return those ids that are of tags of the project, locked against deletion."""
    numbers = {number for number in ids if 0 < number <= named_rows.MAX_ID}
    query = select(tags.c.id).where(tags.c.project_id == project, tags.c.id.in_(numbers))
    # In one order everywhere, so that two transactions with several locks never wait for each
    # other.
    statement = query.order_by(tags.c.id).with_for_update(read=True, key_share=True)
    return set((await connection.execute(statement)).scalars())


async def _find_or_add(
    connection: AsyncConnection, project: int, names: dict[str, str], now_us: int
) -> set[int]:
    """Return the numbers of the tags with these names (by folded form); add the missing ones."""
    ids_by_fold: dict[str, int] = {}
    added = 0
    for _ in range(_TRIES):
        ids_by_fold |= await _find_by_folds(connection, project, set(names) - set(ids_by_fold))
        # In one order everywhere, as above.
        for folded in sorted(set(names) - set(ids_by_fold)):
            number = await _insert(connection, _row(project, names[folded], True, now_us))
            if number is not None:
                ids_by_fold[folded] = number
                added += 1
        if len(ids_by_fold) == len(names):
            break
        # Another process added the rest after the query: query again.
    else:
        raise CatalogBusy("the tags change too fast")
    if added:
        counters.add(connection, project, tags.name, added)
    return set(ids_by_fold.values())


async def _find_by_folds(
    connection: AsyncConnection, project: int, folds: Collection[str]
) -> dict[str, int]:
    query = select(tags.c.name_fold, tags.c.id).where(
        tags.c.project_id == project, tags.c.name_fold.in_(folds)
    )
    statement = query.order_by(tags.c.id).with_for_update(read=True, key_share=True)
    return dict((await connection.execute(statement)).all())


async def _insert(connection: AsyncConnection, row: dict[str, object]) -> int | None:
    """Add a tag; return None if its name exists (a failing insert would undo the rest)."""
    statement = insert_missing(connection, tags, row).returning(tags.c.id)
    return (await connection.execute(statement)).scalar_one_or_none()


async def tags_of(
    connection: AsyncConnection, table: Literal["stream", "video"], records: Sequence[int]
) -> dict[int, tuple[Named, ...]]:
    """Return the tags of each of these records, in the order of their names."""
    links, owner = _LINKS[table]
    tags_by_record: dict[int, list[Named]] = {record: [] for record in records}
    query = (
        select(links.c[owner].label("record"), tags.c.id, tags.c.name)
        .join(tags, tags.c.id == links.c.tag_id)
        .where(links.c[owner].in_(records))
    )
    for row in await connection.execute(query.order_by(tags.c.name_fold, tags.c.id)):
        tags_by_record[row.record].append(Named(id=row.id, name=row.name))
    return {record: tuple(labels) for record, labels in tags_by_record.items()}


async def tag_numbers(
    connection: AsyncConnection, table: Literal["stream", "video"], record: int
) -> tuple[int, ...]:
    """Return the numbers of a record's tags, in their order."""
    links, owner = _LINKS[table]
    query = select(links.c.tag_id).where(links.c[owner] == record).order_by(links.c.tag_id)
    return tuple((await connection.execute(query)).scalars())


async def require_category(connection: AsyncConnection, project: int, category: int) -> None:
    """Check that the project has a category with that number, and lock it.

    Raises:
        NoSuchLabel: it has none.
    """
    if not await named_rows.lock(connection, categories, project, category):
        raise NoSuchLabel("category", category)


class Labels(Repository):
    """The catalog's tags and categories: each method is one transaction, but for `remove`."""

    async def find(self, kind: Kind, label: int) -> LabelRecord | None:
        """Return the label with that number."""
        async with self._database.reading() as connection:
            if label > named_rows.MAX_ID:
                return None
            table = _TABLES[kind]
            is_present = project_lookup.is_of_present(table.c.project_id)
            reader = _READERS[kind]
            query = select(*reader.columns).where(table.c.id == label, is_present)
            return await reader.find(connection, query)

    async def find_page(
        self,
        kind: Kind,
        project: int,
        *,
        search: str = "",
        sort: Sort | None = None,
        page: int = 1,
        size: int = named_rows.PAGE_SIZE,
    ) -> Page[LabelRecord]:
        """Return a page of a project's labels, newest first unless `sort` says otherwise."""
        async with self._database.reading() as connection:
            return await named_rows.find_page(
                connection, _TABLES[kind], project, _READERS[kind],
                search=search, sort=sort or Sort(), page=page, size=size,
            )  # fmt: skip

    async def add(
        self, kind: Kind, project: int, name: str, change: Change, *, active: bool
    ) -> LabelRecord:
        """Add a label.

        Raises:
            NoSuchProject: there is no such project.
            NameTaken: the project has one of that name.
        """
        table, reader = _TABLES[kind], _READERS[kind]
        async with self._database.writing() as connection:
            await project_lookup.require(connection, project)
            statement = insert(table).values(_row(project, name, active, change.now_us))
            statement = statement.returning(*reader.columns)
            try:
                row = (await connection.execute(statement)).one()
            except IntegrityError as error:
                raise NameTaken(kind, name) from error
            counters.add(connection, project, table.name, 1)
            record = reader.read(row)
            event = LABEL_EVENTS[kind].added(label=record.id, name=name)
            await announce(connection, project, "", event, change=change)
            return record

    async def edit(
        self,
        kind: Kind,
        label: int,
        change: Change,
        *,
        name: str | None = None,
        active: bool | None = None,
        check: Callable[[LabelRecord], None] | None = None,
    ) -> LabelRecord | None:
        """Change what is not None; return None if there is no such label.

        `check` may raise to keep the label as it is; it gets the record before the change, locked
        against other changes.

        Raises:
            NameTaken: the project has another of that name.
        """
        changes = {"name": name, "active": active}
        keys = [key for key, value in changes.items() if value is not None]
        if not keys:
            return await self.find(kind, label)
        table, reader = _TABLES[kind], _READERS[kind]
        values: dict[str, object] = {"version": table.c.version + 1, "updated_us": change.now_us}
        if name is not None:
            values |= {"name": name, **searchable("name", name)}
        if active is not None:
            values["active"] = active
        async with self._database.writing() as connection:
            await label_locks.lock_project(connection, table, label)
            if check is not None:
                locked = select(*reader.columns).where(table.c.id == label).with_for_update()
                before = await reader.find(connection, locked)
                if before is not None:
                    check(before)
            statement = update(table).where(table.c.id == label).values(values)
            try:
                record = await reader.find(connection, statement.returning(*reader.columns))
            except IntegrityError as error:
                raise NameTaken(kind, name or "") from error
            if record is None:
                return None
            event = LABEL_EVENTS[kind].edited(label=label, keys=keys)
            await announce(connection, record.project, "", event, change=change)
            return record

    async def remove(self, kind: Kind, label: int, change: Change) -> bool:
        """Delete a label, also from records that had it; return False if there is none.

        A category is taken from the records first, in batches.
        """
        column = "category_id" if kind == "category" else None
        return await label_removal.remove(
            self._database, kind, _TABLES[kind], label, change, column=column
        )
