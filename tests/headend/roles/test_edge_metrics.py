"""The edge's metrics of processes that publish, follow, do both, or neither."""

import asyncio
from pathlib import Path

from delivery.edge.memory import MemoryEdge
from delivery.edge.publishing import PublishingEdge
from delivery.edge.redis import open_edge_store
from delivery.edge.remote import RemoteEdge, open_remote_edge
from delivery.edge.shared import Edges
from headend.roles.edge_metrics import EdgeMetrics
from media.hls.timeline import Timeline
from tests.support.redis_server import redis_server
from tests.support.storage.edge_runs import PLAYLIST, part_data, put_next_part
from tests.support.waiting import until


def values(own: PublishingEdge | None = None, remote: RemoteEdge | None = None) -> dict[str, float]:
    """Return the values by the names of their families."""
    memory = MemoryEdge()
    edges = Edges(writer=memory, reader=memory, publishing=own, remote=remote)
    return {
        family.name: sample.value
        for family in EdgeMetrics(edges).collect()
        for sample in family.samples
    }


def test_without_redis_there_are_no_values() -> None:
    assert values() == {}


async def test_what_is_published_and_read_is_counted(tmp_path: Path) -> None:
    with redis_server(tmp_path) as redis:
        async with (
            open_edge_store(redis.url, namespace="one") as store,
            open_remote_edge(store) as remote,
        ):
            own = PublishingEdge(store)
            await put_next_part(own, Timeline())
            before = values(own)
            assert before["headend_edge_queued_bytes"] == len(part_data(0, 0))
            assert before["headend_edge_written_bytes"] == 0
            await own.publish()
            after = values(own)
            assert (after["headend_edge_queued_bytes"], after["headend_edge_published"]) == (0, 1)
            assert after["headend_edge_written_bytes"] == len(part_data(0, 0))
            part = PLAYLIST.replace("index.m3u8", "0.0.m4s")
            assert await remote.get_part(part) == part_data(0, 0)
            followed = values(remote=remote)
            assert followed["headend_edge_followed_streams"] == 1
            assert followed["headend_edge_read_bytes"] == len(part_data(0, 0))
            assert values(own, remote) == after | followed
            redis.stop()
            async with asyncio.TaskGroup() as tasks:
                running = tasks.create_task(own.run())
                await put_next_part(own, Timeline())
                await until(lambda: values(own)["headend_edge_published"] == 0)
                running.cancel()


async def test_parts_that_find_no_room_are_counted(tmp_path: Path) -> None:
    with redis_server(tmp_path) as redis:
        async with open_edge_store(redis.url, namespace="one") as store:
            own = PublishingEdge(store, max_queued_bytes=25)
            timeline = Timeline()
            for _ in range(5):
                timeline = await put_next_part(own, timeline)
            assert values(own)["headend_edge_dropped_parts"] == 3
