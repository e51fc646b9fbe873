"""Processes on one database, as an ingest and two APIs are: nothing that either writes is lost."""

import json
from pathlib import Path

import pytest

from storage.catalog import open_catalog
from tests.support.concurrent_programs import run_together
from tests.support.shared_engines import ON_BOTH
from tests.support.sql import run_sql

EDITORS = 8
# Rounds of each process, all at once; `make proofs` runs more of them.
rounds = pytest.mark.parametrize("rounds", [20, pytest.param(60, marks=pytest.mark.prove)])
edits = pytest.mark.parametrize("edits", [6, pytest.param(15, marks=pytest.mark.prove)])

# Adds streams, and reads each back, as callers of the API do.
CALLER = """
import asyncio, sys
from storage.catalog import open_catalog
from storage.catalog.records.common import Change

async def main(place, rounds):
    async with open_catalog(place, migrate=False) as catalog:
        together()
        for number in range(rounds):
            added = await catalog.streams.add(1, f"Stream {number}", Change(number))
            assert await catalog.streams.find(added.id) == added

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""

# Writes another state each time, as ingest does, and looks keys up in between.
TAKER = """
import asyncio, sys
from storage.catalog import open_catalog

async def main(place, rounds):
    async with open_catalog(place, migrate=False) as catalog:
        first = (await catalog.streams.find_all())[0]
        together()
        for number in range(rounds):
            on = number % 2 == 0
            await catalog.live_state.set(first.id, live=on, processing=on, on_air=None,
                                         sending=frozenset({0} if on else ()), no_audio=False,
                                         now_us=number)
            assert (await catalog.live_state.find_ingest(first.key)) is not None

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


# Updates the same two rows as all others, based on what it read; retries when told to.
EDITOR = """
import asyncio, json, sys
from sqlalchemy import select, update
from storage.catalog.engine.database import database_url, open_database
from storage.catalog.schema.tables import projects, streams
from storage.errors import CatalogBusy

async def edit(database, me):
    async with database.writing() as connection:
        for table in (projects, streams):  # the order in which all lock
            asked = select(table.c.settings).where(table.c.id == 1).with_for_update()
            counted = json.loads((await connection.execute(asked)).scalar_one())
            await asyncio.sleep(0)
            counted[me] = counted.get(me, 0) + 1
            await connection.execute(update(table).where(table.c.id == 1).values(
                settings=json.dumps(counted), version=table.c.version + 1))

async def main(place, rounds, me):
    async with open_database(database_url(place), create=False) as database:
        together()
        for _ in range(rounds):
            while True:
                try:
                    await edit(database, me)
                    break
                except CatalogBusy:
                    pass

asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
"""


# Makes events of the first stream in every way there is: by itself, with a change of the stream,
# with its state, with the answer to a command.
WITNESS = """
import asyncio, sys
from media.stream_events import RungShedEvent, SlateEvent, SwitchedEvent
from storage.catalog import open_catalog
from storage.catalog.records.common import Change
from storage.catalog.records.details import StreamDetails
from storage.catalog.streams.commands import CommandKind, StreamCommand
from storage.errors import CatalogBusy

SHED = RungShedEvent(renditions=["720p"], late=1.0)
SWITCHED = SwitchedEvent(from_="primary", to="backup-1", reason="lost", gap_ms=1)

async def main(place, rounds, me):
    async with open_catalog(place, migrate=False) as catalog:
        (first,) = await catalog.streams.find_all()

        async def ended(turn):
            number = await catalog.commands.add(
                StreamCommand(stream=first.id, hash=first.hash, kind=CommandKind.END, by=me), turn)
            await catalog.commands.answer(number, {"ended": True}, turn)

        ways = (
            lambda turn: catalog.events.add(first.hash, SHED, turn),
            lambda turn: catalog.streams.edit(
                first.id, StreamDetails.edit(title=f"{me} {turn}"), Change(turn, by=me)),
            lambda turn: catalog.live_state.set(
                first.id, live=True, processing=True, on_air=0, sending=(0,), no_audio=False,
                now_us=turn, happened=(SWITCHED, SlateEvent(reason="lost"))),
            ended,
        )
        together()
        for turn in range(rounds):
            while True:
                try:
                    await ways[(turn + me) % len(ways)](turn)
                    break
                except CatalogBusy:
                    pass

asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
"""


@ON_BOTH
@edits
async def test_eight_processes_that_change_the_same_rows_lose_no_change(
    location: str | Path, edits: int
) -> None:
    async with open_catalog(location, migrate=True) as catalog:
        await catalog.installation.first_start(1)
    before = run_sql(location, "SELECT version FROM projects UNION ALL SELECT version FROM streams")
    await run_together(*((EDITOR, str(location), str(edits), f"e{me}") for me in range(EDITORS)))
    rows = run_sql(
        location,
        "SELECT version, settings FROM projects UNION ALL SELECT version, settings FROM streams",
    )
    for (was,), (version, counted) in zip(before, rows, strict=True):
        assert json.loads(str(counted)) == {f"e{me}": edits for me in range(EDITORS)}
        assert (was, version) == (1, 1 + EDITORS * edits)


@ON_BOTH
@edits
async def test_eight_processes_number_a_streams_events_without_a_hole_or_a_twin(
    location: str | Path, edits: int
) -> None:
    async with open_catalog(location, migrate=True) as catalog:
        await catalog.installation.first_start(1)
    await run_together(*((WITNESS, str(location), str(edits), str(me)) for me in range(EDITORS)))
    rows = run_sql(location, "SELECT number, kind FROM events WHERE subject != '' ORDER BY id")
    kinds = [kind for _, kind in rows]
    # Each way its share of the rounds; two events of each state.
    ways = [(turn + me) % 4 for me in range(EDITORS) for turn in range(edits)]
    assert kinds.count("rung shed") == ways.count(0)
    assert kinds.count("stream edited") == ways.count(1)
    assert kinds.count("switched") == kinds.count("slate") == ways.count(2)
    assert kinds.count("stream ended") == ways.count(3)
    assert sorted(int(str(number)) for number, _ in rows) == list(range(1, len(rows) + 1))
    assert run_sql(location, "SELECT event_number FROM streams") == [(len(rows),)]


@ON_BOTH
@rounds
async def test_writers_of_several_processes_lose_nothing(location: str | Path, rounds: int) -> None:
    async with open_catalog(location, migrate=True) as catalog:
        first = (await catalog.installation.first_start(1)).stream
        assert first is not None
        before = first.version
    await run_together(*((each, str(location), str(rounds)) for each in (CALLER, TAKER, CALLER)))
    async with open_catalog(location, migrate=False) as catalog:
        streams = await catalog.streams.find_all()
        titles = sorted(stream.title for stream in streams[1:])
        assert titles == sorted(2 * [f"Stream {number}" for number in range(rounds)])
        # Each write said something new, and the version counted each.
        assert (streams[0].version, streams[0].published_us) == (before + rounds, 0)
