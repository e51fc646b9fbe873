"""The origin in a process without live runs: it serves the newest state on disk."""

import asyncio
import os
from pathlib import Path

import pytest
from litestar.types import HTTPReceiveMessage, Message, Scope

from api.http.response import HttpResponse
from api.origin.origin import Origin
from api.origin.visibility import VisibilityCache
from delivery.edge.memory import MemoryEdge
from media.hls import m3u8
from media.hls.playlist import MediaPlaylist, MultivariantPlaylist
from storage.catalog.records.common import PublicRecord
from storage.objects.base import ObjectStat
from storage.objects.disk import DiskObjects
from tests.support.api.origin_client import later
from tests.support.manual_clock import ManualClock
from tests.support.storage.engine_reports import (
    HASH,
    LOW,
    RUN,
    TOP,
    ReportMaker,
    append_all,
    begin_epoch,
    open_run,
)
from tests.support.waiting import until

PLAYLIST = f"/live/{HASH}/{RUN}/720p/index.m3u8"
VARIANTS = f"/live/{HASH}/index.m3u8"


class PublishedRecords:
    """Public records: every hash is a published stream."""

    async def find(self, hash_: str, /) -> PublicRecord | None:
        return PublicRecord(
            hash=hash_, project=1, title="", description="",
            published=True, hidden=False, live=True,
        )  # fmt: skip


async def never_owner(authorization: str | None, hash_: str, /) -> bool:
    return False


async def get(origin: Origin, path: str) -> tuple[int, str]:
    """Send a request as a server does: on the fast path if possible, otherwise through ASGI."""
    response = origin.fast_path("GET", path, [])
    if response is not None:
        answer = response if isinstance(response, HttpResponse) else await later(response)
        answer.close()
        return answer.status, answer.body.decode()
    messages: list[Message] = []

    async def send(message: Message) -> None:
        messages.append(message)

    async def receive() -> HTTPReceiveMessage:
        raise AssertionError("there is no body")

    scope: Scope = {"type": "http", "method": "GET", "path": path, "headers": []}  # type: ignore[typeddict-item]  # what the origin reads
    await origin(scope, receive, send)
    body = b"".join(part["body"] for part in messages if part["type"] == "http.response.body")
    status = next(part["status"] for part in messages if part["type"] == "http.response.start")
    return status, body.decode()


async def test_media_of_another_process_are_served_as_soon_as_they_are_on_disk(
    tmp_path: Path,
) -> None:
    """After each step, the playlists exist, and all media in them."""

    objects = DiskObjects(tmp_path)
    origin = Origin(
        objects=DiskObjects(tmp_path),
        edge=MemoryEdge(),
        visibility=VisibilityCache(PublishedRecords(), never_owner),
        clock=ManualClock(),
    )
    publication = await open_run(objects, MemoryEdge(), ManualClock())
    maker = ReportMaker(TOP, LOW)
    await begin_epoch(publication, maker)
    assert (await get(origin, VARIANTS))[0] == 404
    for number in range(4):
        await append_all(publication, maker.step(size=1000))
        variants = m3u8.parse((await get(origin, VARIANTS))[1])
        assert isinstance(variants, MultivariantPlaylist)
        for variant in variants.variants:
            address = f"/live/{HASH}/{variant.uri}"
            playlist = m3u8.parse((await get(origin, address))[1])
            assert isinstance(playlist, MediaPlaylist)
            assert len(playlist.segments) == number + 1
            folder = address.rpartition("/")[0]
            for segment in playlist.segments:
                assert (await get(origin, f"{folder}/{segment.uri}"))[0] == 200
    await publication.finish()
    assert "#EXT-X-ENDLIST" in (await get(origin, PLAYLIST))[1]


@pytest.mark.parametrize("seconds", [1.0, 5.0])
async def test_a_playlist_that_looks_unchanged_is_read_again_after_a_second(
    tmp_path: Path, seconds: float
) -> None:
    """Same size and time, as when both are written within one tick of the file system's clock."""

    clock = ManualClock()
    origin = Origin(
        objects=DiskObjects(tmp_path),
        edge=MemoryEdge(),
        visibility=VisibilityCache(PublishedRecords(), never_owner),
        clock=clock,
    )
    file = tmp_path / PLAYLIST[1:]
    file.parent.mkdir(parents=True)
    for text in ("#EXTM3U 1", "#EXTM3U 2"):
        file.write_text(text)
        os.utime(file, (1_800_000_000, 1_800_000_000))
        assert (await get(origin, PLAYLIST)) == (200, text)
        clock.now += seconds


class SlowObjects(DiskObjects):
    """A disk that answers once the test allows it, and counts the requests."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.may_answer = asyncio.Event()
        self.asked: list[str] = []

    async def stat(self, address: str) -> ObjectStat | None:
        self.asked.append(f"stat {address}")
        await self.may_answer.wait()
        return await super().stat(address)

    async def get(self, address: str) -> bytes:
        self.asked.append(f"get {address}")
        return await super().get(address)


async def test_a_playlist_is_read_once_for_concurrent_requests(tmp_path: Path) -> None:
    objects = SlowObjects(tmp_path)
    clock = ManualClock()
    origin = Origin(
        objects=objects,
        edge=MemoryEdge(),
        visibility=VisibilityCache(PublishedRecords(), never_owner),
        clock=clock,
    )
    await objects.put(PLAYLIST[1:], b"#EXTM3U 1")
    reads = [f"stat {PLAYLIST[1:]}", f"get {PLAYLIST[1:]}"]
    for _ in range(2):
        async with asyncio.TaskGroup() as tasks:
            requests = [tasks.create_task(get(origin, PLAYLIST)) for _ in range(30)]
            await until(lambda: bool(objects.asked))
            objects.may_answer.set()
        assert {each.result() for each in requests} == {(200, "#EXTM3U 1")}
        assert objects.asked == reads
        objects.asked.clear()
        objects.may_answer.clear()
        clock.now += 1.5
