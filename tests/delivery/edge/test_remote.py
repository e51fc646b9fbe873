"""What viewers of another process get from a real Redis, and what that costs Redis."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from delivery.edge.base import NORMAL_LATENCY, EdgeReader
from delivery.edge.changes import EdgeChange, EdgeMessage, EdgeState
from delivery.edge.publishing import PublishingEdge
from delivery.edge.redis import EdgeWrite, RedisEdgeStore, open_edge_store
from delivery.edge.remote import RemoteEdge, open_remote_edge
from media.hls.timeline import Timeline
from storage.objects.disk import DiskObjects
from tests.support.manual_clock import ManualClock
from tests.support.media.timelines import extended
from tests.support.redis_server import RedisServer, redis_server
from tests.support.storage.edge_runs import (
    FOLDER,
    NEXT_RUN,
    PLAYLIST,
    VARIANTS,
    part_data,
    put,
    put_next_part,
)
from tests.support.storage.engine_reports import (
    HASH,
    LOW,
    TOP,
    ReportMaker,
    append_all,
    begin_epoch,
    open_run,
)
from tests.support.waiting import SCALE, until

READERS = 1000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with redis_server(tmp_path_factory.mktemp("redis")) as running:
        yield running


class EdgePair:
    """A process that makes a stream, and another that serves it."""

    def __init__(self, server: RedisServer, store: RedisEdgeStore, remote: RemoteEdge) -> None:
        self.server = server
        self.store = store
        self.clock = ManualClock()
        self.maker = PublishingEdge(store, clock=self.clock)
        self.remote = remote

    async def shows(self, timeline: Timeline | None) -> None:
        """Wait until the other process has this timeline."""
        await until(lambda: self.remote.timeline(PLAYLIST) == timeline, within=20)

    def reads(self, command: str = "get") -> int:
        """Return how often Redis was asked for a value, without the generations within scripts."""
        lines = self.server.command("INFO", "commandstats")
        statistics = lines.get(f"cmdstat_{command}", {"calls": 0})
        writes = lines.get("cmdstat_eval", {"calls": 0}) if command == "get" else {"calls": 0}
        return statistics["calls"] - writes["calls"]  # each script reads a generation


@asynccontextmanager
async def hosts_on(server: RedisServer, **options: float) -> AsyncGenerator[EdgePair, None]:
    async with (
        open_edge_store(server.url, namespace="one") as store,
        open_remote_edge(store, **options) as remote,
    ):
        yield EdgePair(server, store, remote)


@pytest.fixture
async def hosts(server: RedisServer) -> AsyncGenerator[EdgePair, None]:
    server.command("FLUSHALL")
    server.command("CONFIG", "RESETSTAT")
    async with hosts_on(server) as pair:
        yield pair


def texts(edge: EdgeReader, names: Iterable[str]) -> list[bytes | None]:
    """Return all playlists that a viewer could get."""
    addresses = [f"{FOLDER}/{name}/index.m3u8" for name in names]
    playlists = [
        edge.local_playlist(address, low_latency=low_latency, skip=skip)
        for address in (VARIANTS, VARIANTS + NORMAL_LATENCY, *addresses)
        for low_latency, skip in ((True, False), (True, True), (False, False))
    ]
    return [None if each is None else each.body for each in playlists]


async def shows_the_same(remote: EdgeReader, maker: EdgeReader, names: Iterable[str]) -> None:
    """Wait until viewers of one process get what those of the other one get."""
    await until(lambda: texts(remote, names) == texts(maker, names), within=20)


async def test_every_playlist_of_a_run_is_the_same_in_both_processes(
    hosts: EdgePair, tmp_path: Path
) -> None:
    """So are the listed parts, and the playlists of a process that begins to follow late."""
    publication = await open_run(DiskObjects(tmp_path), hosts.maker, ManualClock())
    maker = ReportMaker(TOP, LOW)
    await begin_epoch(publication, maker)
    await hosts.remote.catch_up(PLAYLIST)
    async with open_remote_edge(hosts.store) as late:
        for number in range(10):
            for report in maker.step(gaps={"360p"} if number == 4 else ()):
                await append_all(publication, [report])
                await hosts.maker.publish()
            if number == 5:
                await late.catch_up(VARIANTS)
            await shows_the_same(hosts.remote, hosts.maker, maker.names)
            if number >= 5:
                await shows_the_same(late, hosts.maker, maker.names)
        assert None not in texts(late, maker.names)
        for name in maker.names:
            timeline = hosts.maker.timeline(f"{FOLDER}/{name}/index.m3u8")
            assert timeline is not None
            for one in timeline.recent[-1].parts:
                address = f"{FOLDER}/{name}/{one.uri}"
                part_data = hosts.maker.local_part(address)
                assert await hosts.remote.get_part(address) == part_data is not None
        await publication.finish()
        await hosts.maker.publish()
        await shows_the_same(late, hosts.maker, maker.names)


async def test_a_stream_is_not_known_before_it_is_followed(hosts: EdgePair) -> None:
    timeline = await put_next_part(hosts.maker, extended(Timeline(), 3))
    await hosts.maker.put_playlists({VARIANTS: "#EXTM3U\n"})
    await hosts.maker.publish()
    assert not hosts.remote.knows(PLAYLIST)
    assert hosts.remote.local_playlist(VARIANTS) is None
    assert hosts.remote.knows("videos/abcdefABCDEF/1-1/720p/index.m3u8")
    async with asyncio.TaskGroup() as tasks:
        for _ in range(20):
            tasks.create_task(hosts.remote.catch_up(PLAYLIST))
    assert hosts.remote.knows(VARIANTS)
    assert hosts.remote.timeline(PLAYLIST) == timeline
    assert hosts.remote.local_playlist(VARIANTS) is not None
    assert hosts.reads("lrange") == 1


async def test_a_stream_that_is_off_air_is_known_to_have_nothing(hosts: EdgePair) -> None:
    await hosts.remote.catch_up(PLAYLIST)
    assert hosts.remote.knows(PLAYLIST)
    assert hosts.remote.local_playlist(VARIANTS) is None
    timeline = await put_next_part(hosts.maker, Timeline())
    await hosts.maker.publish()
    await hosts.shows(timeline)


def readers_wait(edge: EdgeReader, index: int) -> list[bytes | None]:
    """Let many readers wait for a part; return what each gets once it is listed."""
    address = f"{FOLDER}/720p/3.{index}.m4s"
    bodies: list[bytes | None] = []
    for _ in range(READERS):
        edge.wait(PLAYLIST, 3, index, lambda: bodies.append(edge.local_part(address)))
    return bodies


async def all_have(bodies: list[bytes | None]) -> None:
    await until(lambda: len(bodies) == READERS, within=20)


async def test_a_thousand_readers_of_a_stream_cost_redis_one_read_a_part(hosts: EdgePair) -> None:
    """Each waits for the next part, then requests it, as a player does."""
    timeline = await put_next_part(hosts.maker, extended(Timeline(), 3))
    await hosts.maker.publish()
    await hosts.remote.catch_up(PLAYLIST)
    before = hosts.reads()
    parts = 12
    for index in range(1, parts + 1):
        bodies = readers_wait(hosts.remote, index)
        timeline = await put_next_part(hosts.maker, timeline)
        await hosts.maker.publish()
        await all_have(bodies)
        # The part existed when the playlist listed it: no reader had to wait again.
        assert set(bodies) == {part_data(3, index)}
    assert hosts.reads() - before == parts


async def test_readers_at_the_same_time_share_one_read(hosts: EdgePair) -> None:
    """So do readers that do not wait for parts, even if one of them leaves."""
    timeline = await put_next_part(hosts.maker, extended(Timeline(), 3))
    await hosts.maker.publish()
    await hosts.remote.catch_up(PLAYLIST)
    await hosts.shows(timeline)
    before = hosts.reads()
    address = f"{FOLDER}/720p/3.0.m4s"
    async with asyncio.TaskGroup() as tasks:
        readers = [tasks.create_task(hosts.remote.get_part(address)) for _ in range(READERS)]
        await asyncio.sleep(0)
        readers[0].cancel()
    assert {each.result() for each in readers[1:]} == {part_data(3, 0)}
    assert await hosts.remote.get_part(address) == part_data(3, 0)
    assert hosts.reads() - before == 1


async def test_parts_that_no_viewer_requests_are_not_read(hosts: EdgePair) -> None:
    timeline = await put_next_part(hosts.maker, Timeline())
    await hosts.maker.publish()
    await hosts.remote.catch_up(PLAYLIST)
    before = hosts.reads()
    for _ in range(5):
        timeline = await put_next_part(hosts.maker, timeline)
        await hosts.maker.publish()
    await hosts.shows(timeline)
    assert hosts.reads() == before


async def test_a_segment_that_is_not_stored_is_joined_from_its_parts(hosts: EdgePair) -> None:
    timeline = await put_next_part(hosts.maker, Timeline())
    timeline = await put_next_part(hosts.maker, timeline)
    timeline = timeline.close("0.m4s", 90_000)
    address = f"{FOLDER}/720p/0.m4s"
    data = part_data(0, 0) + part_data(0, 1)
    await hosts.maker.put_part(address, data)
    await put(hosts.maker, timeline)
    await hosts.maker.publish()
    assert await hosts.store.read_part(address, 0) is None
    assert await hosts.remote.get_part(address) == data
    assert hosts.remote.local_part(address) == data


async def test_a_segment_that_cannot_be_stored_outlasts_its_parts(hosts: EdgePair) -> None:
    address = f"{FOLDER}/720p/0.m4s"
    await put(hosts.maker, extended(Timeline(), 1))
    await hosts.maker.put_part(address, b"segment")
    hosts.clock.now += 6
    await hosts.maker.publish()
    assert await hosts.remote.get_part(address) == b"segment"


async def test_guesses_at_what_is_not_listed_reach_redis_a_few_times_a_second(
    hosts: EdgePair,
) -> None:
    await put_next_part(hosts.maker, extended(Timeline(), 3))
    await hosts.maker.publish()
    await hosts.remote.catch_up(PLAYLIST)
    before = hosts.reads()
    began = asyncio.get_running_loop().time()
    for number in range(500):
        assert await hosts.remote.get_part(f"{FOLDER}/720p/{number}.77.m4s") is None
    seconds = asyncio.get_running_loop().time() - began
    assert hosts.reads() - before <= 20 * (seconds + 2)
    assert await hosts.remote.get_part(f"{FOLDER}/720p/3.0.m4s") == part_data(3, 0)


async def test_changes_that_were_missed_are_read(hosts: EdgePair, server: RedisServer) -> None:
    timeline = await put_next_part(hosts.maker, Timeline())
    await hosts.maker.publish()
    await hosts.remote.catch_up(PLAYLIST)
    for _ in range(3):
        server.command("CLIENT", "KILL", "TYPE", "pubsub")
        timeline = await put_next_part(hosts.maker, timeline)
        await hosts.maker.publish()
        await hosts.shows(timeline)


async def test_the_next_run_replaces_one_whose_end_was_not_published(hosts: EdgePair) -> None:
    timeline = await put_next_part(hosts.maker, Timeline())
    await hosts.maker.publish()
    await hosts.remote.catch_up(PLAYLIST)
    await hosts.shows(timeline)
    wakes: list[int] = []
    hosts.remote.wait(PLAYLIST, 0, 1, lambda: wakes.append(1))
    await hosts.maker.put_timelines(NEXT_RUN, {"720p": timeline}, low_latency=True)
    await hosts.maker.publish()
    await until(lambda: hosts.remote.timeline(f"{NEXT_RUN}/720p/index.m3u8") == timeline)
    assert hosts.remote.timeline(PLAYLIST) is None
    assert wakes == [1]


async def test_a_run_that_ended_stays_for_its_viewers_beside_the_next(hosts: EdgePair) -> None:
    timeline = await put_next_part(hosts.maker, extended(Timeline(), 2))
    await hosts.maker.publish()
    await hosts.remote.catch_up(PLAYLIST)
    ended = timeline.close("2.m4s", 90_000).end()
    await put(hosts.maker, ended)
    await hosts.maker.publish()
    await hosts.maker.put_timelines(NEXT_RUN, {"720p": timeline}, low_latency=True)
    await hosts.maker.publish()
    await until(lambda: hosts.remote.timeline(f"{NEXT_RUN}/720p/index.m3u8") == timeline)
    assert hosts.remote.timeline(PLAYLIST) == ended


async def test_viewers_follow_a_stream_to_its_next_owner(hosts: EdgePair) -> None:
    """The next owner's parts have the same names; the former owner wakes up without effect."""
    timeline = await put_next_part(hosts.maker, extended(Timeline(), 2), generation=1)
    await hosts.maker.publish()
    await hosts.remote.catch_up(PLAYLIST)
    await hosts.shows(timeline)
    next_maker = PublishingEdge(hosts.store)
    bodies: list[bytes | None] = []
    address = f"{FOLDER}/720p/2.1.m4s"
    hosts.remote.wait(PLAYLIST, 2, 1, lambda: bodies.append(hosts.remote.local_part(address)))
    after = await put_next_part(next_maker, timeline, generation=2)
    await next_maker.publish()
    await hosts.shows(after)
    assert bodies == [part_data(2, 1)]
    stale = f"{FOLDER}/720p/2.2.m4s"
    await hosts.maker.put_part(stale, b"of the owner before")
    await put(hosts.maker, extended(timeline.close("2.m4s", 90_000), 3), generation=1)
    await hosts.maker.publish()
    newest = await put_next_part(next_maker, after, generation=2)
    await next_maker.publish()
    await hosts.shows(newest)
    assert await hosts.remote.get_part(stale) == part_data(2, 2)


async def test_media_of_two_owners_are_never_mixed(hosts: EdgePair) -> None:
    """The next owner makes a segment that the former owner had begun again, and longer."""
    begun = extended(Timeline(), 2)
    timeline = await put_next_part(hosts.maker, begun, size=7, generation=1)
    await hosts.maker.publish()
    await hosts.remote.catch_up(PLAYLIST)
    await hosts.shows(timeline)
    assert await hosts.remote.get_part(f"{FOLDER}/720p/2.0.m4s") == part_data(2, 0, 7)
    next_maker = PublishingEdge(hosts.store)
    after = await put_next_part(next_maker, begun, generation=2)
    after = await put_next_part(next_maker, after, generation=2)
    await put(next_maker, after.close("2.m4s", 90_000), generation=2)
    await next_maker.publish()
    await hosts.shows(after.close("2.m4s", 90_000))
    assert await hosts.remote.get_part(f"{FOLDER}/720p/2.0.m4s") == part_data(2, 0)
    segment = await hosts.remote.get_part(f"{FOLDER}/720p/2.m4s")
    assert segment == part_data(2, 0) + part_data(2, 1)


async def test_a_stream_is_followed_until_no_viewer_has_asked_for_some_time(
    server: RedisServer,
) -> None:
    server.command("FLUSHALL")
    clock = ManualClock()
    async with (
        open_edge_store(server.url, namespace="one") as store,
        store.receive_changes() as bus,
        asyncio.TaskGroup() as tasks,
    ):
        edge = RemoteEdge(store, bus, tasks, clock=clock, max_streams=1)
        maker = PublishingEdge(store)
        timeline = await put_next_part(maker, Timeline())
        await maker.publish()
        await edge.catch_up(PLAYLIST)
        await edge.get_part(f"{FOLDER}/720p/0.0.m4s")
        await edge.catch_up("live/ABCDEFabcdef/index.m3u8")
        assert edge.followed == (HASH,)  # no more at a time
        clock.now += 29
        await edge.catch_up(PLAYLIST)
        assert edge.timeline(PLAYLIST) == timeline
        clock.now += 29
        timeline = await put_next_part(maker, timeline)
        await maker.publish()
        await until(lambda: edge.held_bytes > 0 and edge.followed == (HASH,))
        clock.now += 31
        await put_next_part(maker, timeline)
        await maker.publish()
        await until(lambda: edge.followed == ())
        assert edge.held_bytes == 0
        assert edge.timeline(PLAYLIST) is None
        await until(lambda: server.command("PUBSUB", "CHANNELS") == [b"one.edge:"])
        edge.close()


@asynccontextmanager
async def edge_on(
    server: RedisServer, clock: ManualClock
) -> AsyncGenerator[tuple[RemoteEdge, Timeline], None]:
    """Yield the edge of a process that follows a stream by `clock`, and the stream's timeline."""
    server.command("FLUSHALL")
    async with (
        open_edge_store(server.url, namespace="one") as store,
        store.receive_changes() as bus,
        asyncio.TaskGroup() as tasks,
    ):
        edge = RemoteEdge(store, bus, tasks, clock=clock)
        maker = PublishingEdge(store)
        timeline = await put_next_part(maker, Timeline())
        await maker.publish()
        await edge.catch_up(PLAYLIST)
        assert edge.timeline(PLAYLIST) == timeline
        yield edge, timeline
        edge.close()


async def publish_parts(server: RedisServer, timeline: Timeline, count: int) -> Timeline:
    async with open_edge_store(server.url, namespace="one") as store:
        maker = PublishingEdge(store)
        for _ in range(count):
            timeline = await put_next_part(maker, timeline, generation=2)
            await maker.publish()
    return timeline


async def test_a_process_that_was_stopped_shows_nothing_before_it_has_the_newest(
    server: RedisServer,
) -> None:
    """It does not show what was published meanwhile either, which it receives one by one."""
    clock = ManualClock()
    async with edge_on(server, clock) as (edge, timeline):
        with ThreadPoolExecutor() as others:
            work = others.submit(asyncio.run, publish_parts(server, timeline, 6))
            newest = work.result()  # this event loop is blocked meanwhile
        clock.now += 10
        part = f"{FOLDER}/720p/{timeline.next_msn}.0.m4s"
        assert edge.timeline(PLAYLIST) is None
        assert edge.local_playlist(PLAYLIST) is None
        assert edge.local_part(part) is None
        assert not edge.knows(PLAYLIST)
        await edge.catch_up(PLAYLIST)
        assert edge.knows(PLAYLIST)
        assert edge.timeline(PLAYLIST) == newest


async def test_what_redis_has_is_shown_as_soon_as_it_answers_again(tmp_path: Path) -> None:
    """The stored playlists are not shown: viewers of other processes may be ahead of them."""
    clock = ManualClock()
    with redis_server(tmp_path) as server:
        async with edge_on(server, clock) as (edge, timeline):
            server.freeze()
            clock.now += 10
            await edge.catch_up(PLAYLIST)
            await until(lambda: edge.knows(PLAYLIST), within=20)
            assert edge.timeline(PLAYLIST) is None
            await edge.catch_up(PLAYLIST)  # which asks once in a second
            server.thaw()
            assert edge.timeline(PLAYLIST) is None
            clock.now += 1
            assert not edge.knows(PLAYLIST)
            await edge.catch_up(PLAYLIST)
            assert edge.timeline(PLAYLIST) == timeline


async def test_a_state_that_expired_is_gone_and_its_waiting_viewers_are_answered(
    server: RedisServer,
) -> None:
    """The process that made it was killed, and no other continues the stream."""
    server.command("FLUSHALL")
    async with (
        open_edge_store(server.url, namespace="one", state_seconds=0.5) as store,
        open_remote_edge(store, silence_seconds=0.2) as remote,
    ):
        maker = PublishingEdge(store)
        await put_next_part(maker, Timeline())
        await maker.publish()
        await remote.catch_up(PLAYLIST)
        wakes: list[int] = []
        remote.wait(PLAYLIST, 0, 1, lambda: wakes.append(1))
        await until(lambda: wakes == [1])
        assert remote.timeline(PLAYLIST) is None
        assert remote.knows(PLAYLIST)


async def test_while_redis_is_away_there_is_nothing_and_afterwards_everything(
    tmp_path: Path,
) -> None:
    with redis_server(tmp_path) as server:
        async with hosts_on(server, silence_seconds=0.3) as hosts, asyncio.TaskGroup() as tasks:
            writing = tasks.create_task(hosts.maker.run())
            timeline = await put_next_part(hosts.maker, Timeline())
            await until(lambda: server.command("DBSIZE") > 0)
            await hosts.remote.catch_up(PLAYLIST)
            await hosts.shows(timeline)
            server.stop()
            await hosts.shows(None)
            assert hosts.remote.knows(PLAYLIST)
            assert await hosts.remote.get_part(f"{FOLDER}/720p/0.5.m4s") is None
            timeline = await put_next_part(hosts.maker, timeline)
            server.start()
            await hosts.shows(timeline)
            timeline = await put_next_part(hosts.maker, timeline)
            await hosts.shows(timeline)
            writing.cancel()


async def test_a_redis_that_restarts_at_once_is_not_noticed(tmp_path: Path) -> None:
    with redis_server(tmp_path) as server:
        async with (
            hosts_on(server, silence_seconds=60.0) as hosts,
            asyncio.TaskGroup() as tasks,
        ):
            writing = tasks.create_task(hosts.maker.run())
            timeline = await put_next_part(hosts.maker, Timeline())
            await until(lambda: server.command("DBSIZE") > 0)
            await hosts.remote.catch_up(PLAYLIST)
            await hosts.shows(timeline)
            bodies: list[bytes | None] = []
            hosts.remote.wait(
                PLAYLIST, 0, 1,
                lambda: bodies.append(hosts.remote.local_part(f"{FOLDER}/720p/0.1.m4s")),
            )  # fmt: skip
            server.stop()
            server.start()
            await until(lambda: b"one.edge:" in server.command("PUBSUB", "CHANNELS"))
            timeline = await put_next_part(hosts.maker, timeline)
            await hosts.shows(timeline)
            assert len(bodies) == 1
            writing.cancel()


async def test_a_redis_that_does_not_answer_is_as_one_that_is_away(tmp_path: Path) -> None:
    with redis_server(tmp_path) as server:
        async with hosts_on(server, silence_seconds=0.3) as hosts:
            timeline = await put_next_part(hosts.maker, Timeline())
            await hosts.maker.publish()
            await hosts.remote.catch_up(PLAYLIST)
            await hosts.shows(timeline)
            server.freeze()
            await hosts.shows(None)
            async with asyncio.timeout(20 * SCALE):
                await hosts.remote.catch_up("live/ABCDEFabcdef/index.m3u8")
            server.thaw()
            timeline = await put_next_part(hosts.maker, timeline)
            await hosts.maker.publish()
            await hosts.shows(timeline)


async def test_a_redis_that_is_not_there_delays_the_first_viewer_by_a_bounded_time(
    tmp_path: Path,
) -> None:
    server = RedisServer(1, tmp_path)  # nothing listens there
    async with hosts_on(server) as hosts, asyncio.timeout(10 * SCALE):
        await hosts.remote.catch_up(PLAYLIST)
        assert hosts.remote.knows(PLAYLIST)
        assert hosts.remote.local_playlist(VARIANTS) is None
        assert await hosts.remote.get_part(f"{FOLDER}/720p/0.0.m4s") is None


async def test_a_state_of_another_form_is_no_state(
    hosts: EdgePair, caplog: pytest.LogCaptureFixture
) -> None:
    """While processes are replaced by those of another version."""
    state = EdgeState().with_playlists({VARIANTS: "#EXTM3U\n"})
    message = EdgeMessage(None, 1, 0, EdgeChange.between(EdgeState(), state), form=2).encode()
    write = EdgeWrite(stream=HASH, generation=0, revision=1, whole=message, change=message)
    await hosts.store.write([write])
    await hosts.remote.catch_up(PLAYLIST)
    assert hosts.remote.knows(PLAYLIST)
    assert hosts.remote.local_playlist(VARIANTS) is None
    assert [each.message for each in caplog.records] == ["edge not read"]
    timeline = await put_next_part(hosts.maker, Timeline())
    await hosts.maker.publish()
    await hosts.shows(timeline)
