"""Two processes that each make streams and serve those of the other, over a real Redis."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from delivery.edge.memory import MemoryEdge
from delivery.edge.publishing import PublishingEdge
from delivery.edge.redis import open_edge_store
from delivery.edge.remote import RemoteEdge, open_remote_edge
from delivery.edge.shared import Edges, SharedEdge
from media.hls.timeline import Timeline
from tests.support.media.timelines import extended
from tests.support.redis_server import redis_server
from tests.support.storage.edge_runs import (
    FOLDER,
    NEXT_RUN,
    PLAYLIST,
    VARIANTS,
    part_data,
    put,
    put_next_part,
)
from tests.support.storage.engine_reports import HASH
from tests.support.waiting import until


class EdgeHost:
    """A process that makes streams and serves all."""

    def __init__(self, own: PublishingEdge, remote: RemoteEdge) -> None:
        self.own = own
        self.edge = SharedEdge(own, remote)
        self.edges = Edges(writer=own, reader=self.edge, publishing=own, remote=remote)

    async def shows(self, timeline: Timeline | None, playlist: str = PLAYLIST) -> None:
        """Wait until viewers of this process get a timeline."""

        async def is_shown() -> bool:
            await self.edge.catch_up(playlist)
            return self.edge.timeline(playlist) == timeline

        await until(is_shown, within=20)


@asynccontextmanager
async def host_on(url: str) -> AsyncGenerator[EdgeHost, None]:
    async with (
        open_edge_store(url, namespace="one") as store,
        open_remote_edge(store) as remote,
    ):
        own = PublishingEdge(store)
        yield EdgeHost(own, remote)


@pytest.fixture
async def hosts(tmp_path: Path) -> AsyncGenerator[tuple[EdgeHost, EdgeHost], None]:
    async with AsyncExitStack() as stack:
        url = stack.enter_context(redis_server(tmp_path)).url
        one, other = [await stack.enter_async_context(host_on(url)) for _ in range(2)]
        yield one, other


async def test_each_serves_its_own_streams_from_memory_and_the_others_from_redis(
    hosts: tuple[EdgeHost, EdgeHost],
) -> None:
    one, other = hosts
    timeline = await put_next_part(one.own, extended(Timeline(), 2))
    await one.own.put_playlists({VARIANTS: "#EXTM3U\n"})
    # Nothing is published yet, and no viewer of this process has to wait.
    assert one.edge.knows(PLAYLIST)
    assert one.edge.timeline(PLAYLIST) == timeline
    assert one.edge.local_part(f"{FOLDER}/720p/2.0.m4s") == part_data(2, 0)
    assert not other.edge.knows(PLAYLIST)
    await one.own.publish()
    await other.shows(timeline)
    assert other.edge.local_playlist(VARIANTS) == one.edge.local_playlist(VARIANTS)
    assert other.edge.local_playlist(PLAYLIST) == one.edge.local_playlist(PLAYLIST)
    assert await other.edge.get_part(f"{FOLDER}/720p/2.0.m4s") == part_data(2, 0)
    waited: list[bool] = []
    for each in hosts:
        each.edge.wait(PLAYLIST, 2, 1, lambda: waited.append(True))
    timeline = await put_next_part(one.own, timeline)
    assert waited == [True]
    await one.own.publish()
    await until(lambda: waited == [True, True])
    await one.own.drop_parts([f"{FOLDER}/720p/2.0.m4s"])
    assert await one.edge.get_part(f"{FOLDER}/720p/2.0.m4s") is None


async def test_viewers_of_the_owner_before_get_what_the_next_owner_makes(
    hosts: tuple[EdgeHost, EdgeHost],
) -> None:
    """So do viewers who were served there before, even if the former owner is not notified."""
    one, other = hosts
    timeline = await put_next_part(one.own, extended(Timeline(), 2), generation=1)
    await one.own.publish()
    await other.shows(timeline)
    timeline = await put_next_part(other.own, timeline, generation=2)
    await other.own.publish()
    await one.edges.drop_folder(f"live/{HASH}")  # the former owner is notified
    await one.shows(timeline)
    timeline = await put_next_part(one.own, timeline, generation=3)
    await one.own.publish()
    await put_next_part(other.own, extended(timeline.close("2.m4s", 90_000), 1), generation=2)
    await other.own.publish()  # the former owner notices
    await other.shows(timeline)


async def test_the_next_owner_takes_over_what_the_last_one_showed(
    hosts: tuple[EdgeHost, EdgeHost],
) -> None:
    one, other = hosts
    timeline = await put_next_part(one.own, extended(Timeline(), 2), generation=1)
    await one.own.publish()
    await other.shows(timeline)
    shown = await other.own.take_over(FOLDER, generation=2)
    assert shown is not None
    assert shown.timelines == {"720p": timeline}
    # Until it publishes them itself, its viewers see what they saw.
    await other.shows(timeline)


async def test_memory_shows_nothing_of_an_owner_before() -> None:
    assert await MemoryEdge().take_over(FOLDER, generation=1) is None


async def test_the_next_run_may_be_made_by_another_process(
    hosts: tuple[EdgeHost, EdgeHost],
) -> None:
    one, other = hosts
    ended = extended(Timeline(), 2).end()
    await put(one.own, ended)
    await one.own.put_playlists({VARIANTS: "of the run before"})
    await one.own.publish()
    await one.shows(ended)
    timeline = extended(Timeline(), 1)
    await other.own.put_timelines(NEXT_RUN, {"720p": timeline}, low_latency=True, generation=1)
    await other.own.put_playlists({VARIANTS: "of this run"})
    await other.own.publish()
    await one.shows(timeline, f"{NEXT_RUN}/720p/index.m3u8")
    playlist = one.edge.local_playlist(VARIANTS)
    assert playlist is not None
    assert playlist.body == b"of this run"


async def test_a_deleted_stream_disappears_here_and_returns_if_another_host_continues_it(
    hosts: tuple[EdgeHost, EdgeHost],
) -> None:
    one, other = hosts
    timeline = await put_next_part(one.own, extended(Timeline(), 2))
    await one.own.publish()
    await other.shows(timeline)
    await other.edges.drop_folder(f"live/{HASH}")
    assert other.edge.timeline(PLAYLIST) is None
    timeline = await put_next_part(one.own, timeline)
    await one.own.publish()
    await other.shows(timeline)
