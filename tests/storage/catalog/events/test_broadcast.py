"""Notices on both databases: sent exactly when their transaction commits, and in which order."""

import asyncio
from pathlib import Path

import pytest

from media.countries import find_country
from storage.catalog import Catalog, open_catalog
from storage.catalog.engine.database import Database
from storage.catalog.events.broadcast import KEPT_US, OutboxEvent
from storage.catalog.records.common import Change
from storage.catalog.records.details import StreamDetails, VideoDetails
from storage.catalog.videos import creation
from storage.errors import CatalogError
from tests.support.e2e.service import SCALE
from tests.support.shared_engines import ON_BOTH
from tests.support.storage.new_videos import new_video
from tests.support.storage.query_plans import caught_statements

NOW_US = 1_700_000_000_123_456


async def publish_events(catalog: Catalog, *names: str, now_us: int = NOW_US) -> None:
    events = [OutboxEvent(channels=("a",), event=name, body="{}") for name in names]
    await catalog.outbox.publish(events, now_us)


@ON_BOTH
async def test_a_reader_that_continues_from_the_last_misses_nothing_while_others_write(
    location: str | Path,
) -> None:
    heard: list[str] = []
    writers, each = 4, 15

    async def write(catalog: Catalog, name: str) -> None:
        for number in range(each):
            await publish_events(catalog, f"{name}.{number}", f"{name}.{number}+")

    async def read(catalog: Catalog) -> None:
        last = 0
        while len(heard) < writers * each * 2:
            notices, gone = await catalog.outbox.read_after(last, 7)
            assert not gone
            heard.extend(notice.event for notice in notices)
            last = notices[-1].id if notices else last
            await asyncio.sleep(0)

    async with (
        open_catalog(location, migrate=True) as one,
        open_catalog(location, migrate=False) as two,
        asyncio.timeout(60 * SCALE),
        asyncio.TaskGroup() as tasks,
    ):
        tasks.create_task(read(one))
        for number in range(writers):
            tasks.create_task(write(one if number % 2 else two, f"{number}"))
    assert len(heard) == len(set(heard)) == writers * each * 2
    for number in range(writers):
        mine = [name for name in heard if name.startswith(f"{number}.")]
        assert mine == [f"{number}.{n}{end}" for n in range(each) for end in ("", "+")]


@ON_BOTH
async def test_what_was_undone_is_not_there_and_its_hole_loses_nothing(catalog: Catalog) -> None:
    delivered: list[int] = []
    catalog.outbox.on_commit(lambda: delivered.append(1))
    await publish_events(catalog, "before")
    last = await catalog.outbox.newest()
    broken = OutboxEvent(channels=("a", None), event="x", body="{}")  # pyright: ignore[reportArgumentType]  # on purpose
    with pytest.raises(CatalogError):
        await catalog.outbox.publish([broken], NOW_US)
    await publish_events(catalog, "after")
    notices, gone = await catalog.outbox.read_after(last, 10)
    assert ([notice.event for notice in notices], gone) == (["after"], False)
    assert len(delivered) == 2


async def test_a_change_without_notices_nudges_no_reader(catalog: Catalog) -> None:
    delivered: list[int] = []
    catalog.outbox.on_commit(lambda: delivered.append(1))
    await catalog.projects.add("a project", Change(NOW_US))
    assert delivered == []


async def test_old_notices_are_removed_and_a_reader_that_was_away_is_told(catalog: Catalog) -> None:
    await publish_events(catalog, *(f"{number}" for number in range(60)))
    last = await catalog.outbox.newest() - 20
    await publish_events(
        catalog, *(f"new {number}" for number in range(60)), now_us=NOW_US + KEPT_US + 1
    )
    notices, gone = await catalog.outbox.read_after(last, 1000)
    assert gone
    assert {notice.event[:3] for notice in notices} == {"new"}
    assert (await catalog.outbox.read_after(notices[0].id, 1000))[1] is False


async def test_an_old_time_among_recent_ones_leaves_no_gap(catalog: Catalog) -> None:
    await publish_events(catalog, "old", now_us=NOW_US - KEPT_US - 1)
    await publish_events(catalog, "far ahead", now_us=NOW_US + 1000 * KEPT_US)
    await publish_events(catalog, "recent")
    await publish_events(catalog, "of a late clock", now_us=NOW_US - KEPT_US - 1)
    await publish_events(catalog, *(f"{number}" for number in range(60)))
    notices, gone = await catalog.outbox.read_after(1, 1000)
    assert gone
    assert [each.event for each in notices[:3]] == ["recent", "of a late clock", "0"]
    assert [each.id for each in notices] == list(range(3, 65))


@ON_BOTH
async def test_a_batch_is_written_in_one_statement_and_in_its_order(catalog: Catalog) -> None:
    events = [
        OutboxEvent(channels=("a", "b", "c"), event=f"{number}", body="{}") for number in range(100)
    ]
    with caught_statements() as statements:
        await catalog.outbox.publish(events, NOW_US)
    assert sum(statement.startswith("INSERT INTO notices") for statement, _ in statements) == 1
    notices, gone = await catalog.outbox.read_after(0, 1000)
    assert not gone
    written = [(each.event, each.channel) for each in notices]
    assert written == [(each.event, channel) for each in events for channel in each.channels]
    await catalog.outbox.publish([], NOW_US)


@ON_BOTH
async def test_any_text_that_can_be_stored_comes_back(catalog: Catalog) -> None:
    delivered = OutboxEvent(
        channels=("c" * 200,),
        event="\u00fc" * 200,
        body="\u2028\U0001f3a5" * 2000,
        except_socket="1.2",
    )
    await catalog.outbox.publish([delivered], NOW_US)
    ((notice,), _) = await catalog.outbox.read_after(0, 10)
    assert (notice.channel, notice.event, notice.body, notice.except_socket) == (
        delivered.channels[0], delivered.event, delivered.body, delivered.except_socket,
    )  # fmt: skip


async def _public_channels(catalog: Catalog, after: int) -> tuple[list[str], int]:
    """Return the public channels of the notices after a number, and the newest number."""
    notices, _ = await catalog.outbox.read_after(after, 100)
    for notice in notices:
        assert "private-project.1" in notice.channel.split()
    names = [name for each in notices for name in each.channel.split()]
    public = [name for name in names if not name.startswith("private-")]
    return public, notices[-1].id if notices else after


async def test_the_public_channel_of_a_stream_is_silent_while_its_page_is_not_for_everyone(
    catalog: Catalog,
) -> None:
    await catalog.installation.first_start(NOW_US)
    stream = await catalog.streams.add(1, "x", Change(NOW_US))
    romania = find_country("RO")
    assert romania is not None
    _, last = await _public_channels(catalog, 0)
    own = f"stream.{stream.hash}"
    steps: list[tuple[str, list[str]]] = []
    for name in ("published", "unpublished", "published again", "restricted"):
        match name:
            case "unpublished":
                await catalog.streams.unpublish(stream.id, Change(NOW_US))
            case "restricted":
                change = StreamDetails.edit(countries=(romania.number,))
                await catalog.streams.edit(stream.id, change, Change(NOW_US))
                await catalog.streams.unpublish(stream.id, Change(NOW_US))
                await catalog.streams.publish(stream.id, Change(NOW_US))
            case _:
                await catalog.streams.publish(stream.id, Change(NOW_US))
        public, last = await _public_channels(catalog, last)
        steps.append((name, public))
    assert steps == [
        ("published", [own]),
        ("unpublished", []),
        ("published again", [own]),
        ("restricted", []),
    ]


async def test_the_public_channel_of_a_video_is_silent_while_its_page_is_not_for_everyone(
    catalog: Catalog, database: Database
) -> None:
    await catalog.installation.first_start(NOW_US)
    file = new_video()
    video = (await catalog.videos.add(1, file, Change(NOW_US))).video.id
    romania = find_country("RO")
    assert romania is not None
    own = f"video.{file.hash}"
    _, last = await _public_channels(catalog, 0)
    steps: list[tuple[str, list[str]]] = []
    for name in ("new", "unpublished", "published again", "restricted", "for everyone again"):
        match name:
            case "new":
                pass
            case "unpublished":
                await catalog.videos.unpublish(video, Change(NOW_US))
            case "published again":
                await catalog.videos.publish(video, Change(NOW_US))
            case "restricted":
                change = VideoDetails.edit(countries=(romania.number,))
                await catalog.videos.edit(video, change, Change(NOW_US))
            case _:
                change = VideoDetails.edit(countries=())
                await catalog.videos.edit(video, change, Change(NOW_US))
        before = last
        async with database.writing() as connection:
            await creation.report_received(connection, video, 1, 2, NOW_US)
        public, last = await _public_channels(catalog, last)
        assert last > before, "the private channels hear of it"
        steps.append((name, public))
    assert steps == [
        ("new", [own]),
        ("unpublished", []),
        ("published again", [own, own]),
        ("restricted", []),
        ("for everyone again", [own]),
    ]
