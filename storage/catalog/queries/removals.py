"""Objects that are to be deleted, since no row names them any more (`catalog.removals`).

A transaction that removes the last row that names objects adds theirs. Whoever removes such a row
usually deletes the objects at once, too; `storage.cleanup.removals` works off the rows, so that
neither a killed process nor a store that is away leaves objects for good. Addresses are never used
again for other objects, so that it makes no difference when, and how often, they are deleted. What
has expired by a clock is moved to the trash instead.

While a backup copies what its snapshot of the catalog names, it holds them: what is deleted
meanwhile is gone from every address, and its objects are deleted soon after. Whoever deletes them
asks after the transaction that recorded them: one that came after the snapshot sees the hold, which
came before it.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec
from sqlalchemy import case, delete, func, select, update

from media.ticks import MICROSECONDS
from storage.catalog.engine.clock import now_in
from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.engine.database import Repository
from storage.catalog.queries.insert_missing import insert_missing
from storage.catalog.queries.row_reader import RowReader
from storage.catalog.schema.tables import installation
from storage.catalog.schema.upload_tables import removals as table
from storage.objects.addresses import (
    live_stream,
    slate_folder,
    upload,
    upload_pieces,
    video,
    video_sources,
)

# By then whoever removed the rows has deleted the objects, or was killed. Ending the run of a
# deleted stream takes up to 30 s, in which the last of it is recorded.
FIRST_US: Final = 60 * MICROSECONDS
_LONGEST_CAUSE: Final = 100  # characters, as the column has it
_ROW: Final = table.c


class Removal(msgspec.Struct, frozen=True, kw_only=True):
    """An object, or a folder with all that is in it, that is to be deleted, or moved to the trash.

    `cause` is why that failed last; "" if it did not.
    """

    address: str
    is_folder: bool
    recorded_us: int
    to_trash: bool = False
    cause: str = ""


_READER: Final = RowReader(Removal, table)


class Overdue(msgspec.Struct, frozen=True, kw_only=True):
    """How many removals are overdue, the first of them, and why the latest failed (if not "")."""

    count: int
    first: tuple[Removal, ...]
    cause: str


async def record(
    connection: AsyncConnection,
    *,
    folders: Iterable[str] = (),
    objects: Iterable[str] = (),
    to_trash: bool = False,
) -> None:
    """Record that folders and objects are to be deleted once the caller's transaction is over.

    With `to_trash` they are to be moved to the trash.
    """
    kinds = (*((each, True) for each in folders), *((each, False) for each in objects))
    if not kinds:
        return
    now_us = (await connection.execute(select(now_in(connection)))).scalar_one()
    values = {"recorded_us": now_us, "due_us": now_us + FIRST_US, "to_trash": to_trash}
    rows = [{"address": address, "is_folder": is_folder, **values} for address, is_folder in kinds]
    await connection.execute(insert_missing(connection, table), rows)


async def of_videos(
    connection: AsyncConnection, hashes: Sequence[str], *, to_trash: bool = False
) -> None:
    """Record that all media of videos or recordings are to be deleted."""
    folders = [*map(video, hashes), *map(video_sources, hashes)]
    await record(connection, folders=folders, to_trash=to_trash)


async def of_streams(
    connection: AsyncConnection, hashes: Sequence[str], *, to_trash: bool = False
) -> None:
    """Record that all media of streams are to be deleted; recordings are videos of their own."""
    slates = [slate_folder(f"s-{hash_}") for hash_ in hashes]
    folders = [*map(live_stream, hashes), *slates]
    await record(connection, folders=folders, to_trash=to_trash)


async def of_uploads(connection: AsyncConnection, names: Sequence[str]) -> None:
    """Record that the bytes of unfinished uploads are to be deleted."""
    await record(connection, folders=map(upload_pieces, names), objects=map(upload, names))


async def find_recorded(connection: AsyncConnection, addresses: Iterable[str]) -> frozenset[str]:
    """Return those of some addresses (a few hundred at most) that are to be deleted.

    They are recorded themselves, or a folder that they are in is. No cleanup may take them for
    orphans meanwhile: what owners deleted is not kept in the trash.
    """
    places = {each: {each, *_folders_of(each)} for each in addresses}
    query = select(_ROW.address).where(_ROW.address.in_(set[str]().union(*places.values())))
    recorded = set((await connection.execute(query)).scalars())
    return frozenset(each for each, above in places.items() if not above.isdisjoint(recorded))


def _folders_of(address: str) -> Iterator[str]:
    while address := address.rpartition("/")[0]:
        yield address


async def are_held(connection: AsyncConnection) -> bool:
    """Return whether a backup holds removals now."""
    query = select(installation.c.id).where(installation.c.removals_held_us > now_in(connection))
    return (await connection.execute(query)).first() is not None


class Removals(Repository):
    """The rows of what is to be deleted; each method is one transaction."""

    async def find_due(self, now_us: int, most: int) -> tuple[Removal, ...]:
        """Return up to `most` removals that are due, those that have been for longest first."""
        query = select(*_READER.columns).where(_ROW.due_us <= now_us)
        query = query.order_by(_ROW.due_us, _ROW.address).limit(most)
        async with self._database.reading() as connection:
            if await are_held(connection):
                return ()
            return await _READER.find_all(connection, query)

    async def are_held(self) -> bool:
        """Return whether nothing may be deleted now; what was recorded is deleted later."""
        async with self._database.reading() as connection:
            return await are_held(connection)

    async def hold(self, seconds: float) -> bool:
        """Have nothing be deleted for so long; return whether it was held until now.

        A hold ends by itself, so that a backup which is killed leaves none.
        """
        async with self._database.beating() as connection:
            was_held = await are_held(connection)
            until = now_in(connection) + round(seconds * MICROSECONDS)
            held = func.coalesce(installation.c.removals_held_us, 0)
            later = case((held > until, held), else_=until)  # another backup's
            await connection.execute(update(installation).values(removals_held_us=later))
            return was_held

    async def find_overdue(self, until_us: int, most: int) -> Overdue:
        """Return the removals that were recorded until a time, up to `most` of them one by one."""
        old = _ROW.recorded_us <= until_us
        query = (
            select(*_READER.columns).where(old).order_by(_ROW.recorded_us, _ROW.address).limit(most)
        )
        # Failures are tried again after ever longer, but for those that wait for an hour already.
        latest = select(_ROW.cause).where(old, _ROW.cause != "").order_by(_ROW.due_us.desc())
        async with self._database.reading_all() as connection:
            count = select(func.count()).select_from(table).where(old)
            return Overdue(
                count=(await connection.execute(count)).scalar_one(),
                first=await _READER.find_all(connection, query),
                cause=(await connection.execute(latest.limit(1))).scalar_one_or_none() or "",
            )

    async def postpone(self, addresses: Sequence[str], due_us: int, *, cause: str = "") -> None:
        """Have removals be due at a later time; `cause` is why they failed, "" if they did not."""
        values = {"due_us": due_us, "cause": cause[:_LONGEST_CAUSE]}
        change = update(table).where(_ROW.address.in_(addresses)).values(values)
        async with self._database.writing() as connection:
            await connection.execute(change)

    async def forget(self, addresses: Sequence[str]) -> None:
        """Remove the rows of objects that are deleted."""
        async with self._database.writing() as connection:
            await connection.execute(delete(table).where(_ROW.address.in_(addresses)))
