"""Viewers at another process than their stream's: low latency over Redis, or stored media."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from api.http.response import HttpResponse, PendingResponse
from api.origin.origin import Origin
from api.origin.viewer import Viewer
from api.origin.visibility import VisibilityCache
from delivery.edge.publishing import PublishingEdge
from delivery.edge.redis import open_edge_store
from delivery.edge.remote import RemoteEdge, open_remote_edge
from media.hls.timeline import Timeline
from storage.objects.disk import DiskObjects
from tests.support.api.origin_client import PLAYLIST, VARIANTS, FakePublicRecords, is_owner, later
from tests.support.manual_clock import ManualClock
from tests.support.media.timelines import extended
from tests.support.redis_server import RedisServer, redis_server
from tests.support.storage.edge_runs import FOLDER, part_data, put, put_next_part
from tests.support.storage.engine_reports import (
    HASH,
    TOP,
    ReportMaker,
    append_all,
    begin_epoch,
    open_run,
)
from tests.support.waiting import until


class RemoteOrigin:
    """An origin on the edge of another process, which makes the stream."""

    def __init__(
        self, folder: Path, server: RedisServer, maker: PublishingEdge, edge: RemoteEdge
    ) -> None:
        self.server = server
        self.maker = maker
        self.edge = edge
        self.objects = DiskObjects(folder / "objects")
        self.public_records = FakePublicRecords()
        self.public_records.put()
        visibility = VisibilityCache(self.public_records, is_owner)
        self.visibility = visibility
        self.origin = Origin(objects=self.objects, edge=edge, visibility=visibility)
        self.timeline = Timeline()

    async def begin(self) -> None:
        """Make a stream of three segments and a part."""
        self.timeline = await put_next_part(self.maker, extended(Timeline(part_target=45_000), 3))
        await self.maker.publish()
        await self.visibility.lookup(HASH, Viewer(None, []))

    async def publish_part(self) -> None:
        self.timeline = await put_next_part(self.maker, self.timeline)
        await self.maker.publish()

    async def answer(self, path: str) -> HttpResponse:
        """Return the answer to a request, at once or later."""
        response = self.origin.fast_path("GET", path, [])
        return response if isinstance(response, HttpResponse) else await later(response)

    async def park(self, path: str) -> asyncio.Future[HttpResponse]:
        """Send a request that has to wait; return its pending answer."""
        pending = self.origin.fast_path("GET", path, [])
        if not isinstance(pending, PendingResponse):
            assert asyncio.iscoroutine(pending)
            pending = await pending
        assert isinstance(pending, PendingResponse)
        answer = asyncio.get_running_loop().create_future()
        pending.subscribe(answer.set_result)
        return answer


@asynccontextmanager
async def site_on(
    folder: Path, *, silence_seconds: float = 3.0
) -> AsyncGenerator[RemoteOrigin, None]:
    with redis_server(folder) as server:
        async with (
            open_edge_store(server.url, namespace="one") as store,
            open_remote_edge(store, silence_seconds=silence_seconds) as remote,
        ):
            yield RemoteOrigin(folder, server, PublishingEdge(store), remote)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncGenerator[RemoteOrigin, None]:
    async with site_on(tmp_path) as remote_origin:
        await remote_origin.begin()
        yield remote_origin


async def test_the_first_viewer_gets_low_latency_and_the_next_at_once(site: RemoteOrigin) -> None:
    answer = await later(site.origin.fast_path("GET", PLAYLIST, []))
    assert answer.status == 200
    assert b'URI="3.0.m4s"' in answer.body
    assert b"CAN-BLOCK-RELOAD=YES" in answer.body
    again = site.origin.fast_path("GET", PLAYLIST, [])
    assert isinstance(again, HttpResponse)
    assert again.body == answer.body


async def test_a_blocking_request_waits_at_a_process_that_did_not_follow_yet(
    site: RemoteOrigin,
) -> None:
    answer = await site.park(f"{PLAYLIST}?_HLS_msn=3&_HLS_part=1")
    await site.publish_part()
    async with asyncio.timeout(20):
        assert b"3.1.m4s" in (await answer).body
    after = await site.park(f"{PLAYLIST}?_HLS_msn=3&_HLS_part=2&_HLS_skip=YES")
    await site.publish_part()
    async with asyncio.timeout(20):
        assert b"3.2.m4s" in (await after).body


async def test_a_request_too_far_ahead_is_refused_there_too(site: RemoteOrigin) -> None:
    assert (await site.answer(f"{PLAYLIST}?_HLS_msn=9")).status == 400


async def test_a_part_is_served_and_one_that_comes_next_is_waited_for(site: RemoteOrigin) -> None:
    folder = PLAYLIST.removesuffix("/index.m3u8")
    listed = await site.answer(f"{folder}/3.0.m4s")
    assert (listed.status, listed.body) == (200, part_data(3, 0))
    assert isinstance(site.origin.fast_path("GET", f"{folder}/3.0.m4s", []), HttpResponse)
    hinted = await site.park(f"{folder}/3.1.m4s")
    await site.publish_part()
    async with asyncio.timeout(20):
        assert (await hinted).body == part_data(3, 1)
    assert (await site.answer(f"{folder}/3.9.m4s")).status == 404


async def test_a_segment_that_is_not_stored_yet_is_served(site: RemoteOrigin) -> None:
    await site.publish_part()
    data = part_data(3, 0) + part_data(3, 1)
    await site.maker.put_part(f"{FOLDER}/720p/3.m4s", data)
    await put(site.maker, site.timeline.close("3.m4s", 90_000))
    await site.maker.publish()
    path = PLAYLIST.replace("index.m3u8", "3.m4s")
    assert (await site.answer(path)).body == data
    assert isinstance(site.origin.fast_path("GET", path, []), HttpResponse)
    assert (await site.answer(PLAYLIST.replace("index.m3u8", "99.m4s"))).status == 404


async def test_a_stream_is_not_followed_for_viewers_without_access(site: RemoteOrigin) -> None:
    site.public_records.put(hidden=True)
    origin = Origin(
        objects=site.objects,
        edge=site.edge,
        visibility=VisibilityCache(site.public_records, is_owner),
    )
    for path in (PLAYLIST, VARIANTS, PLAYLIST.replace("index.m3u8", "3.0.m4s")):
        assert (await later(origin.fast_path("GET", path, []))).status == 404
    assert site.edge.followed == ()


async def test_while_redis_is_away_viewers_get_what_is_stored(tmp_path: Path) -> None:
    """The last part of the run is not stored; afterwards viewers have low latency again."""
    async with site_on(tmp_path, silence_seconds=0.3) as site, asyncio.TaskGroup() as tasks:
        publication = await open_run(site.objects, site.maker, ManualClock())
        maker = ReportMaker(TOP)
        await begin_epoch(publication, maker)
        for _ in range(3):
            await append_all(publication, maker.step())
        reports = maker.step()
        for report in reports[:2]:
            await publication.append(report)
        await site.maker.publish()
        writing = tasks.create_task(site.maker.run())
        await site.visibility.lookup(HASH, Viewer(None, []))
        assert b"EXT-X-PART" in (await site.answer(PLAYLIST)).body
        waiting = await site.park(f"{PLAYLIST}?_HLS_msn=3&_HLS_part=1")
        site.server.stop()
        async with asyncio.timeout(20):
            assert (await waiting).status == 503
        stored = await site.answer(f"{PLAYLIST}?_HLS_msn=3&_HLS_part=1")
        assert stored.status == 200
        assert b"2.m4s" in stored.body
        assert b"EXT-X-PART" not in stored.body
        # It is cached, and the next viewer gets it at once.
        assert isinstance(site.origin.fast_path("GET", PLAYLIST, []), HttpResponse)
        assert (await site.answer(VARIANTS)).status == 200
        assert (await site.answer(PLAYLIST.replace("index.m3u8", "2.m4s"))).status == 200
        site.server.start()
        for report in reports[2:]:
            await publication.append(report)

        async def is_low_latency() -> bool:
            return b"EXT-X-PART" in (await site.answer(PLAYLIST)).body

        await until(is_low_latency, within=20)
        writing.cancel()
