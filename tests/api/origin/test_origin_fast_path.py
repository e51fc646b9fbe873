"""The fast path of the origin, and the cost of an audience that arrives all at once."""

import asyncio
import gzip
from pathlib import Path

import pytest

from api.http.response import HttpResponse
from api.origin.origin import Origin
from api.origin.visibility import VisibilityCache
from delivery.edge.memory import MemoryEdge
from storage.catalog.records.common import PublicRecord
from storage.objects.disk import DiskObjects
from tests.support.api.origin_client import (
    PLAYLIST,
    SEGMENT,
    TOKEN,
    FakePublicRecords,
    OnSite,
    OriginSite,
    is_owner,
    later,
    origin_of,
)
from tests.support.shared_engines import ON_SHARED
from tests.support.storage.engine_reports import HASH


async def test_concurrent_viewers_cost_one_query(tmp_path: Path) -> None:
    public_records, opened = SlowRecords(), asyncio.Event()
    public_records.put()
    public_records.opened = opened
    origin = Origin(
        objects=DiskObjects(tmp_path),
        edge=MemoryEdge(),
        visibility=VisibilityCache(public_records, is_owner),
    )
    async with asyncio.TaskGroup() as tasks:
        for _ in range(20):
            tasks.create_task(origin_of(origin, f"/live/{HASH}/index.m3u8"))
        leaves = tasks.create_task(origin_of(origin, f"/live/{HASH}/index.m3u8"))
        await public_records.was_asked.wait()
        leaves.cancel()
        opened.set()
    assert public_records.asked == 1


async def test_other_viewers_are_answered_when_the_first_one_leaves(tmp_path: Path) -> None:
    public_records, opened = SlowRecords(), asyncio.Event()
    public_records.put()
    public_records.opened = opened
    origin = Origin(
        objects=DiskObjects(tmp_path),
        edge=MemoryEdge(),
        visibility=VisibilityCache(public_records, is_owner),
    )
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(origin_of(origin, f"/live/{HASH}/index.m3u8"))
        await public_records.was_asked.wait()
        other = tasks.create_task(origin_of(origin, f"/live/{HASH}/index.m3u8"))
        await asyncio.sleep(0)
        first.cancel()
    assert other.result() in {404, 503}
    opened.set()
    assert await origin_of(origin, f"/live/{HASH}/index.m3u8") == 404


class SlowRecords(FakePublicRecords):
    """Public records that are found once the test allows it."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: asyncio.Event | None = None
        self.was_asked = asyncio.Event()

    async def find(self, hash_: str, /) -> PublicRecord | None:
        self.was_asked.set()
        if self.opened is not None:
            await self.opened.wait()
        return await super().find(hash_)


@pytest.mark.skipif(ON_SHARED, reason="the origin of a process that makes the run")
def test_the_fast_path_serves_only_reads_of_available_open_media(on_site: OnSite) -> None:
    async def scenario(site: OriginSite) -> None:
        ask = site.origin.fast_path
        assert ask("POST", SEGMENT, []) is None
        assert ask("GET", "/api/streams", []) is None
        assert ask("GET", SEGMENT.replace("720p", "720%70"), []) is None
        assert ask("HEAD", SEGMENT, []) is None  # access was not checked yet
        await site.get(SEGMENT)
        playlist = ask("GET", f"{PLAYLIST}?latency=normal", [(b"accept-encoding", b"gzip")])
        assert isinstance(playlist, HttpResponse)
        assert gzip.decompress(playlist.body) == await site.objects.get(PLAYLIST[1:])
        file = ask("GET", SEGMENT, [])
        assert isinstance(file, HttpResponse)
        assert file.stop - file.start == 300_000
        file.close()
        # Without the edge, the playlist is read from disk once, then known by its time and size.
        await site.edge.drop_folder("live")
        assert (await later(ask("GET", PLAYLIST, []))).status == 200
        assert isinstance(ask("GET", PLAYLIST, []), HttpResponse)
        await site.objects.put(PLAYLIST[1:], b"#EXTM3U\n#CHANGED\n")
        assert (await later(ask("GET", PLAYLIST, []))).body == b"#EXTM3U\n#CHANGED\n"

    on_site(scenario)


def test_on_the_fast_path_a_hidden_stream_is_visible_to_its_owner_only(on_site: OnSite) -> None:
    async def scenario(site: OriginSite) -> None:
        site.public_records.put(hidden=True)
        for headers, status in (([], 404), ([(b"authorization", TOKEN.encode())], 200)):
            pending = site.origin.fast_path("GET", SEGMENT, headers)
            answer = await later(pending)
            assert answer.status == status
            answer.close()

    on_site(scenario)
