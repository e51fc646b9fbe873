"""What follows from an event, and that numbers rise in the order in which transactions end."""

import asyncio
import json

import pytest
from sqlalchemy import select

from media.stream_events import EngineLostEvent, LiveEvent
from storage.catalog import Catalog
from storage.catalog.engine.database import Database
from storage.catalog.events.announcement import announce
from storage.catalog.events.kinds import (
    BytesReceived,
    ProjectEditedEvent,
    StreamState,
    UnpublishedEvent,
)
from storage.catalog.records.common import Change, StreamRecord
from storage.catalog.schema.tables import events, projects
from tests.support.sql import WAITING, run_sql
from tests.support.storage.new_videos import new_video
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

LOST = EngineLostEvent(cause="x")
WRITERS, TURNS = 6, 15


ON_POSTGRES = pytest.mark.parametrize("either_database", ["postgresql"], indirect=True)


async def _stream(catalog: Catalog) -> str:
    stream = (await catalog.installation.first_start(1)).stream
    assert stream is not None
    return stream.hash


async def test_an_event_is_logged_and_broadcast_as_its_type_says(
    catalog: Catalog, database: Database
) -> None:
    hash_ = await _stream(catalog)
    video = (await catalog.videos.add(1, new_video(), Change(2))).video
    newest = await catalog.outbox.newest()
    last = (await catalog.events.find_page(1)).items[0].id
    async with database.writing() as connection:
        await announce(connection, 1, hash_, LOST, change=Change(5), host="one")
        await announce(
            connection, 1, video.hash, BytesReceived(received_bytes=3, size=9), change=Change(5)
        )
    async with database.writing() as connection:
        shown = (StreamState(), LiveEvent(), UnpublishedEvent(stream=1))
        await announce(connection, 1, hash_, *shown, change=Change(6))
    async with database.writing() as connection:
        event = ProjectEditedEvent(project=1, keys=["name"])
        await announce(connection, 1, "", event, change=Change(7, by=4))
    logged = [each for each in (await catalog.events.find_page(1)).items[::-1] if each.id > last]
    assert [(each.kind, each.facts, each.number, each.token) for each in logged] == [
        ("engine lost", {"cause": "x", "host": "one"}, 2, None),
        ("live", {}, 3, None),
        ("unpublished", {"stream": 1}, 4, None),
        ("project edited", {"project": 1, "keys": ["name"]}, None, 4),
    ]
    notices, _ = await catalog.outbox.read_after(newest, 99)
    assert [each.event for each in notices] == ["progress", "live"], "a state once"
    assert json.loads(notices[0].body)["received_bytes"] == 3
    assert "received_bytes" not in json.loads(notices[1].body)


async def test_what_is_only_logged_wakes_no_web_socket(
    catalog: Catalog, database: Database
) -> None:
    woken: list[bool] = []
    hash_ = await _stream(catalog)
    database.after_outbox_commit = lambda: woken.append(True)
    async with database.writing() as connection:
        await announce(connection, 1, hash_, LOST, change=Change(5))
    assert woken == []


@ON_POSTGRES
async def test_a_lower_number_is_never_seen_after_a_higher_one(
    catalog: Catalog, database: Database
) -> None:
    """The first transaction announces first, and ends last."""
    hash_ = await _stream(catalog)
    announced, goes_on = asyncio.Event(), asyncio.Event()
    query = select(events.c.kind).order_by(events.c.id)

    async def kinds() -> list[str]:
        async with database.reading() as connection:
            return list((await connection.execute(query)).scalars())

    async def slow() -> None:
        async with database.writing() as connection:
            await announce(connection, 1, hash_, LOST, change=Change(5))
            announced.set()
            await goes_on.wait()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(slow())
        await announced.wait()
        async with database.writing() as connection:
            event = ProjectEditedEvent(project=1, keys=[])
            await announce(connection, 1, "", event, change=Change(6))
        first = await kinds()
        goes_on.set()
    assert (await kinds())[: len(first)] == first
    assert first[-1] == "project edited"


@ON_POSTGRES
async def test_a_reader_misses_nothing_of_what_many_write(catalog: Catalog) -> None:
    await catalog.installation.first_start(1)
    streams = [await catalog.streams.add(1, f"{number}", Change(1)) for number in range(WRITERS)]
    read: list[int] = []
    over = asyncio.Event()

    async def read_on() -> None:
        while True:
            is_last = over.is_set()
            found = await catalog.events.find_after(1, read[-1] if read else 0)
            read.extend(each.id for each in found.items)
            if is_last and not found.items:
                return

    async def write(stream: StreamRecord) -> None:
        for turn in range(TURNS):
            await catalog.events.add(stream.hash, LOST, turn)

    async with asyncio.TaskGroup() as reading:
        reading.create_task(read_on())
        async with asyncio.TaskGroup() as writing:
            for stream in streams:
                writing.create_task(write(stream))
        over.set()
    assert len(read) == len({*read}) == 1 + WRITERS * (1 + TURNS)


@ON_POSTGRES
async def test_an_event_and_the_deletion_of_its_project_do_not_deadlock(
    catalog: Catalog, database: Database, location: str
) -> None:
    """Who holds the project waits for the lock of the numbers; who has that waits for nothing."""
    await catalog.installation.first_start(1)
    announced, is_held, is_over = asyncio.Event(), asyncio.Event(), asyncio.Event()

    def waits() -> bool:
        return run_sql(location, WAITING) != [(0,)]

    async def edit() -> None:
        async with database.writing() as connection:
            event = ProjectEditedEvent(project=1, keys=[])
            await announce(connection, 1, "", event, change=Change(6))
            announced.set()
            await until(lambda: is_held.is_set() or waits(), within=10)
        is_over.set()

    async def delete() -> None:
        await announced.wait()
        async with database.writing() as connection:
            locked = select(projects.c.id).where(projects.c.id == 1).with_for_update()
            await connection.execute(locked)
            is_held.set()
            await until(lambda: is_over.is_set() or waits(), within=10)
            event = ProjectEditedEvent(project=1, keys=["name"])
            await announce(connection, 1, "", event, change=Change(7))

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(edit())
        tasks.create_task(delete())
