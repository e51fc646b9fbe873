"""What a process publishes of its streams to a real Redis, and what an outage costs it."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from delivery.edge.base import NORMAL_LATENCY
from delivery.edge.changes import EdgeState
from delivery.edge.memory import MemoryEdge
from delivery.edge.publishing import MAX_CHANGES, PublishingEdge
from delivery.edge.redis import EdgeUnavailable, RedisEdgeStore, open_edge_store
from media.hls.timeline import Timeline
from storage.objects.disk import DiskObjects
from tests.support.manual_clock import ManualClock
from tests.support.media.timelines import NOON_US, extended, part
from tests.support.redis_server import RedisServer, redis_server
from tests.support.storage.edge_runs import (
    FOLDER,
    NEXT_RUN,
    PLAYLIST,
    VARIANTS,
    part_data,
    published,
    put,
    put_next_part,
)
from tests.support.storage.engine_reports import (
    HASH,
    TOP,
    ReportMaker,
    append_all,
    begin_epoch,
    open_run,
)
from tests.support.waiting import until


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with redis_server(tmp_path_factory.mktemp("redis")) as running:
        yield running


@pytest.fixture
async def store(server: RedisServer) -> AsyncGenerator[RedisEdgeStore, None]:
    server.command("FLUSHALL")
    async with open_edge_store(server.url, namespace="one") as opened:
        yield opened


@asynccontextmanager
async def running(edge: PublishingEdge) -> AsyncGenerator[None, None]:
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(edge.run())
        yield
        task.cancel()


async def test_a_later_generation_is_published_whatever_its_run_is_named(
    store: RedisEdgeStore,
) -> None:
    edge = PublishingEdge(store)
    older = {"720p": extended(Timeline(), 3)}
    await edge.put_timelines(NEXT_RUN, older, low_latency=True, generation=1)
    await put(edge, extended(Timeline(), 1), generation=2)
    await edge.put_timelines(NEXT_RUN, older, low_latency=True, generation=1)
    await edge.publish()
    assert (await published(store)).folder == FOLDER


async def test_a_run_is_published_as_it_is_in_memory(store: RedisEdgeStore, tmp_path: Path) -> None:
    """At any moment what is listed can be read, and the playlists are those of this process."""
    edge = PublishingEdge(store)
    publication = await open_run(DiskObjects(tmp_path), edge, ManualClock())
    maker = ReportMaker(TOP)
    state = EdgeState()
    await begin_epoch(publication, maker)
    for number in range(12):
        for report in maker.step(discontinuity=number == 7):
            await append_all(publication, [report])
            await edge.publish()
            state = await published(store)
            assert state.timelines == {
                name: edge.timeline(f"{FOLDER}/{name}/index.m3u8") for name in state.timelines
            }
            for name, timeline in state.timelines.items():
                for one in timeline.parts:
                    address = f"{FOLDER}/{name}/{one.uri}"
                    assert await store.read_part(address, 0) == edge.local_part(address) is not None
    assert state.folder == FOLDER
    assert set(state.timelines) == {"720p", "audio"}
    for address, text in state.playlists.items():
        playlist = edge.local_playlist(address)
        assert playlist is not None
        assert playlist.body.decode() == text
    assert set(state.playlists) == {VARIANTS, VARIANTS + NORMAL_LATENCY}
    assert await store.read_part(f"{FOLDER}/720p/init-0.mp4", 0) == b"init 720p 0 "
    await publication.finish()
    await edge.publish()
    assert (await published(store)).has_ended


async def test_several_changes_between_two_writes_are_one(store: RedisEdgeStore) -> None:
    edge = PublishingEdge(store)
    timeline = extended(Timeline(), 3)
    await put(edge, timeline)
    await edge.publish()
    for _ in range(5):
        timeline = await put_next_part(edge, timeline)
    await edge.publish()
    state = await store.read_state(HASH)
    assert state is not None
    assert len(state) == 2
    assert (await published(store)).timelines == {"720p": timeline}
    revision = await store.read_revision(HASH)
    await edge.publish()
    assert await store.read_revision(HASH) == revision


async def test_the_whole_is_written_again_after_many_changes(store: RedisEdgeStore) -> None:
    edge = PublishingEdge(store)
    timeline = Timeline()
    lengths: list[int] = []
    for _ in range(MAX_CHANGES + 2):
        timeline = await put_next_part(edge, timeline)
        await edge.publish()
        lengths.append(len(await store.read_state(HASH) or ()))
    assert lengths == [*range(1, MAX_CHANGES + 2), 1]
    assert (await published(store)).timelines == {"720p": timeline}


async def test_another_run_replaces_the_one_before_and_is_not_replaced_by_it(
    store: RedisEdgeStore,
) -> None:
    edge = PublishingEdge(store)
    await put(edge, extended(Timeline(), 3))
    await edge.put_timelines(NEXT_RUN, {"360p": extended(Timeline(), 1)}, low_latency=False)
    await put(edge, extended(Timeline(), 3).end())
    await edge.publish()
    state = await published(store)
    assert (state.folder, list(state.timelines), state.low_latency) == (NEXT_RUN, ["360p"], False)


async def test_a_segment_is_written_only_if_it_is_not_stored_in_time(
    store: RedisEdgeStore,
) -> None:
    clock = ManualClock()
    edge = PublishingEdge(store, clock=clock)
    await put(edge, Timeline())
    early, late = (f"{FOLDER}/720p/{number}.m4s" for number in range(2))
    for address in (early, late):
        await edge.put_part(address, b"segment")
    await edge.publish()
    await edge.drop_parts([early])
    clock.now += 6
    await edge.publish()
    assert await store.read_part(early, 0) is None
    assert await store.read_part(late, 0) == b"segment"
    await edge.drop_parts([late])
    await edge.publish()
    assert await store.read_part(late, 0) is None


async def test_a_new_generation_fences_the_old_one(
    store: RedisEdgeStore, caplog: pytest.LogCaptureFixture
) -> None:
    old, new = PublishingEdge(store), PublishingEdge(store)
    before, after = extended(Timeline(), 2), extended(Timeline(), 3)
    await put(old, before, generation=1)
    await old.publish()
    await put(new, after, generation=2)
    await new.publish()
    name = f"{FOLDER}/720p/9.0.m4s"
    for number in range(2):
        await old.put_part(name, b"old")
        await put(old, extended(before, 5 + number), generation=1)
        await old.publish()
    assert await store.read_part(name, 2) is None
    assert (await published(store)).timelines == {"720p": after}
    assert [each.message for each in caplog.records] == ["stream published by another process"]
    assert old.queued_bytes == 0
    # The old owner's viewers keep what they have, and it may make the stream again.
    assert old.local_part(name) == b"old"
    await put(old, before, generation=3)
    await put(old, extended(before, 9), generation=1)  # of the run that it had
    await old.publish()
    assert (await published(store)).timelines == {"720p": before}


async def test_the_next_owner_takes_over_what_the_last_one_showed(store: RedisEdgeStore) -> None:
    old, new = PublishingEdge(store), PublishingEdge(store)
    assert await new.take_over(FOLDER, generation=1) is None
    timeline = await put_next_part(old, extended(Timeline(), 2), generation=1)
    await old.put_playlists({VARIANTS: "#EXTM3U"})
    await old.publish()
    shown = await new.take_over(FOLDER, generation=2)
    assert shown is not None
    assert shown.timelines == {"720p": timeline}
    assert shown.playlists == {VARIANTS: "#EXTM3U"}
    here, gone = (f"{FOLDER}/720p/2.{index}.m4s" for index in range(2))
    assert await shown.read([gone, here]) == {here: part_data(2, 0)}
    # What the old owner goes on to show is seen by its own viewers alone.
    await put_next_part(old, timeline, generation=1)
    await old.publish()
    assert (await published(store)).timelines == {"720p": timeline}
    assert await new.take_over(NEXT_RUN, generation=2) is None
    assert await old.take_over(FOLDER, generation=1) is None


async def test_nothing_is_known_of_a_run_while_redis_is_away(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        server = stack.enter_context(redis_server(tmp_path))
        store = await stack.enter_async_context(open_edge_store(server.url, namespace="one"))
        edge = PublishingEdge(store)
        await put_next_part(edge, Timeline())
        await edge.publish()
        shown = await edge.take_over(FOLDER, generation=0)
        assert shown is not None
        server.stop()
        assert await shown.read([f"{FOLDER}/720p/0.0.m4s"]) == {}
        assert await edge.take_over(FOLDER, generation=1) is None


async def test_what_redis_has_is_reported_up_to_the_end_of_all_renditions(tmp_path: Path) -> None:
    reports: list[tuple[str, int]] = []
    async with AsyncExitStack() as stack:
        server = stack.enter_context(redis_server(tmp_path))
        store = await stack.enter_async_context(open_edge_store(server.url, namespace="one"))
        edge = PublishingEdge(store)
        edge.on_published = lambda hash_, until_us: reports.append((hash_, until_us))
        long, short = extended(Timeline(), 2), extended(Timeline(), 1)
        short = short.open("init-0.mp4", wall_us=NOON_US + 2_000_000).with_part(part(1, 0))
        await edge.put_timelines(FOLDER, {"720p": long, "audio": Timeline()}, low_latency=True)
        await edge.publish()
        assert reports == []
        await edge.put_timelines(FOLDER, {"audio": short}, low_latency=True)
        assert reports == []
        await edge.publish()
        assert reports == [(HASH, NOON_US + 2_500_000)]
        server.stop()
        await edge.put_timelines(FOLDER, {"audio": short.with_part(part(1, 1))}, low_latency=True)
        with pytest.raises(EdgeUnavailable):
            await edge.publish()
        assert len(reports) == 1


async def test_a_state_that_another_process_wrote_is_replaced_as_a_whole(
    store: RedisEdgeStore,
) -> None:
    one, other = PublishingEdge(store), PublishingEdge(store)
    await put(one, extended(Timeline(), 2))
    await one.publish()
    await put(other, extended(Timeline(), 3))
    await other.publish()
    after = extended(Timeline(), 4)
    await put(one, after)
    for _ in range(2):  # the first attempt learns of the other process
        await one.publish()
    assert (await published(store)).timelines == {"720p": after}


async def test_a_redis_that_lost_everything_gets_the_present_state(
    store: RedisEdgeStore, server: RedisServer
) -> None:
    edge = PublishingEdge(store)
    timeline = await put_next_part(edge, Timeline())
    async with running(edge):
        await until(lambda: server.command("DBSIZE") > 0)
        server.command("FLUSHALL")
        timeline = await put_next_part(edge, timeline)

        async def is_there() -> bool:
            return (await published(store)).timelines == {"720p": timeline}

        await until(is_there)


async def test_viewers_of_the_process_notice_no_outage_and_memory_stays_bounded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """While Redis is away parts are dropped beyond a bound; afterwards the newest are there."""
    caplog.set_level(logging.INFO, "delivery.edge.publishing")
    async with AsyncExitStack() as stack:
        server = stack.enter_context(redis_server(tmp_path))
        store = await stack.enter_async_context(open_edge_store(server.url, namespace="one"))
        edge = PublishingEdge(store, max_queued_bytes=5_000)
        beside = MemoryEdge()
        await stack.enter_async_context(running(edge))
        timelines = [Timeline(), Timeline()]
        for number in range(60):
            for index, each in enumerate((edge, beside)):
                timelines[index] = await put_next_part(each, timelines[index], size=1000)
            if number == 20:
                server.stop()
            await asyncio.sleep(0)
            assert edge.queued_bytes <= 5_000
            assert edge.local_playlist(PLAYLIST, low_latency=True) == beside.local_playlist(
                PLAYLIST, low_latency=True
            )
        await until(lambda: "edge not published" in caplog.text)
        server.start()

        async def is_there() -> bool:
            try:
                return (await published(store)).timelines == {"720p": timelines[0]}
            except EdgeUnavailable:
                return False

        await until(is_there)
        await until(lambda: "edge published again" in caplog.text)
        assert edge.queued_bytes == 0
        assert await store.read_part(f"{FOLDER}/720p/0.59.m4s", 0) == part_data(0, 59, 1000)
    assert [each.message for each in caplog.records if each.message.startswith("edge ")] == [
        "edge not published",
        "edge published again",
    ]


async def test_parts_are_written_before_what_lists_them_in_writes_of_some_megabytes(
    store: RedisEdgeStore,
) -> None:
    edge = PublishingEdge(store)
    timeline = Timeline()
    for _ in range(3):
        timeline = await put_next_part(edge, timeline, size=3 << 20)
    await edge.publish()
    assert (await published(store)).timelines == {}
    await edge.publish()
    assert (await published(store)).timelines == {"720p": timeline}
    assert edge.queued_bytes == 0


async def test_a_deleted_stream_and_an_ended_run_are_forgotten(store: RedisEdgeStore) -> None:
    edge = PublishingEdge(store)
    await put_next_part(edge, Timeline())
    await edge.drop_folder(f"live/{HASH}")
    assert edge.queued_bytes == 0
    await edge.publish()
    assert await store.read_state(HASH) is None
    await put(edge, extended(Timeline(), 1).end())
    await edge.publish()
    after = extended(Timeline(), 2)
    await edge.put_timelines(NEXT_RUN, {"720p": after}, low_latency=True)
    await edge.publish()
    assert (await published(store)).timelines == {"720p": after}


async def test_a_run_is_forgotten_once_its_last_segments_are_stored(store: RedisEdgeStore) -> None:
    edge = PublishingEdge(store)
    segment = f"{FOLDER}/720p/0.m4s"
    await edge.put_part(segment, b"media")
    await put(edge, extended(Timeline(), 1))
    await edge.publish()
    await edge.drop_parts([segment])
    assert edge.makes(HASH)
    await edge.put_part(segment, b"media")
    await put(edge, extended(Timeline(), 1).end())
    await edge.publish()
    assert edge.makes(HASH)
    await edge.drop_parts([segment])
    assert not edge.makes(HASH)
    assert (await published(store)).has_ended


async def test_a_full_queue_drops_the_oldest_parts_of_all_streams(store: RedisEdgeStore) -> None:
    edge = PublishingEdge(store, max_queued_bytes=3_000)
    other = f"live/OTHERstream1/{FOLDER.rpartition('/')[2]}"
    timeline = await put_next_part(edge, Timeline(), size=1000)
    await put_next_part(edge, timeline, size=1000)
    await edge.put_timelines(other, {"720p": extended(Timeline(), 1)}, low_latency=True)
    for index in range(2):
        await edge.put_part(f"{other}/720p/1.{index}.m4s", part_data(1, index, 1000))
    assert (edge.queued_bytes, edge.dropped_parts) == (3_000, 1)
    await edge.publish()
    assert edge.queued_bytes == 0
    assert await store.read_part(f"{FOLDER}/720p/0.0.m4s", 0) is None
    assert await store.read_part(f"{FOLDER}/720p/0.1.m4s", 0) == part_data(0, 1, 1000)
    for index in range(2):
        assert await store.read_part(f"{other}/720p/1.{index}.m4s", 0) == part_data(1, index, 1000)


async def test_a_part_stays_in_redis_until_it_is_dropped(store: RedisEdgeStore) -> None:
    edge = PublishingEdge(store)
    timeline = Timeline()
    for _ in range(3):
        timeline = await put_next_part(edge, timeline)
    await edge.publish()
    names = [f"{FOLDER}/720p/0.{index}.m4s" for index in range(3)]
    assert all([await store.read_part(name, 0) for name in names])
    await edge.drop_parts(names[:2])
    await edge.publish()
    assert [await store.read_part(name, 0) for name in names] == [None, None, part_data(0, 2)]
    assert edge.local_part(names[0]) is None
    await put(edge, timeline.close("0.m4s", 3 * 45_000).end())
    await edge.publish()
    assert not edge.makes(HASH), "nothing of an ended run is waited for"
