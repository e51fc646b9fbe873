"""What strangers' made-up names cost a real bucket, whose requests HAProxy counts."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from litestar import Litestar

from api.origin.absences import Absences
from api.origin.origin import Origin, OriginFirst
from api.origin.redirects import CdnRedirects, Redirects
from api.origin.visibility import VisibilityCache, no_owner
from delivery.edge.memory import MemoryEdge
from media.hls.timeline import Timeline
from media.no_op import do_nothing_async
from storage.catalog.records.common import PublicRecord
from storage.objects.cdn_copies import copy_for_cdn
from storage.objects.disk import DiskObjects
from storage.objects.s3 import S3Objects
from tests.support.manual_clock import ManualClock
from tests.support.media.timelines import extended
from tests.support.storage.failing_front import FailingFront, failing_front
from tests.support.storage.s3_server import S3Server

pytestmark = pytest.mark.anyio

HASH, FILM, RUN = "Stream012345", "Video0123456", "20260131T120000123"
OLD_RUN = "20260130T120000123"
STREAM = PublicRecord(
    hash=HASH, project=1, title="", description="", published=True, hidden=False, live=True,
)  # fmt: skip
VIDEO = PublicRecord(
    hash=FILM, project=1, title="", description="", published=True, hidden=False, live=False,
    kind="video", media="2-1", previews="previews-2-1",
)  # fmt: skip
VARIANTS = "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\n{}720p/index.m3u8\n"
MEDIA = '#EXTM3U\n#EXT-X-MAP:URI="init-0.mp4"\n#EXTINF:4,\n7.m4s\n#EXTINF:4,\n8.m4s\n{}'
STORED = {
    f"live/{HASH}/index.m3u8": VARIANTS.format(f"{RUN}/"),
    f"live/{HASH}/{RUN}/720p/index.m3u8": MEDIA.format(""),
    f"live/{HASH}/{RUN}/720p/init-0.mp4": "init",
    f"live/{HASH}/{RUN}/720p/7.m4s": "seven",
    f"live/{HASH}/{OLD_RUN}/720p/3.m4s": "older",
    f"videos/{FILM}/2-1/index.m3u8": VARIANTS.format(""),
    f"videos/{FILM}/2-1/720p/index.m3u8": MEDIA.format("#EXTINF:4,\n../../1-s0-1-1/720p/9.m4s\n"),
    f"videos/{FILM}/2-1/720p/7.m4s": "seven",
    f"videos/{FILM}/1-s0-1-1/720p/9.m4s": "of a span",
    f"videos/{FILM}/previews-2-1/previews.vtt": "WEBVTT\n\n0:00 --> 0:01\nsheet-0.jpg#x\n",
    f"videos/{FILM}/previews-2-1/sheet-0.jpg": "a sheet",
}
LIVE_MEDIA = f"/live/{HASH}/{RUN}/720p"


class Site:
    """An origin on a bucket whose requests are counted."""

    def __init__(self, front: FailingFront, objects: S3Objects, *, with_cdn: bool) -> None:
        self.front = front
        self.objects = objects
        self.clock = ManualClock()
        self.edge = MemoryEdge()
        self.records = {HASH: STREAM, FILM: VIDEO}
        redirects: Redirects | None = None
        if with_cdn:
            copy = partial(copy_for_cdn, objects)
            redirects = CdnRedirects("https://cdn.example", copy, do_nothing_async_for)
            self.records = {
                hash_: msgspec.structs.replace(record, cdn_token="1" * 32)
                for hash_, record in self.records.items()
            }
        self.origin = Origin(
            objects=objects,
            edge=self.edge,
            visibility=VisibilityCache(self, no_owner, clock=self.clock),
            redirects=redirects,
            absences=Absences(),
            clock=self.clock,
        )

    async def find(self, hash_: str, /) -> PublicRecord | None:
        return self.records.get(hash_)

    async def get(self, *paths: str) -> list[tuple[int, str]]:
        """Return the statuses and bodies of concurrent requests."""
        app: Any = OriginFirst(self.origin, Litestar([], logging_config=None))  # Any: httpx' own
        transport = httpx.ASGITransport(app=app)
        async with (
            httpx.AsyncClient(transport=transport, base_url="http://origin") as client,
            asyncio.TaskGroup() as tasks,
        ):
            sent = [tasks.create_task(client.get(path)) for path in paths]
        return [(each.result().status_code, each.result().text) for each in sent]

    async def cost(self, paths: Sequence[str]) -> tuple[int, set[int]]:
        """Return how many requests of the bucket some requests cost, and their statuses."""
        before = self.front.requests()
        statuses = {status for status, _ in await self.get(*paths)}
        return self.front.requests() - before, statuses


async def do_nothing_async_for(_hash: str) -> None:
    await do_nothing_async()


@pytest.fixture(params=["proxy", "cdn"])
async def site(
    request: pytest.FixtureRequest,
    s3_server: S3Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncGenerator[Site]:
    for name, value in s3_server.credentials.items():
        monkeypatch.setenv(name, value)
    bucket = s3_server.new_bucket("some/prefix")
    with (
        failing_front(tmp_path / "front", s3_server.endpoint) as front,
        DiskObjects(tmp_path / "scratch") as scratch,
    ):
        location = msgspec.structs.replace(bucket, endpoint=front.endpoint)
        objects = S3Objects(location, scratch, cache_bytes=1 << 20)
        await objects.put_all({address: text.encode() for address, text in STORED.items()})
        yield Site(front, objects, with_cdn=request.param == "cdn")


# A look-up with a CDN: HEAD of the copy, HEAD of the object, GET. Beside them, the lists of what
# there is.
MOST = 3 * 20 + 8


MADE_UP = (
    f"{LIVE_MEDIA}/{{}}.m4s",
    f"{LIVE_MEDIA}/init-{{}}.mp4",
    f"/live/{HASH}/2026013{{:01}}T120000123/720p/1.m4s",
    f"/live/{HASH}/{RUN}/{{}}p/index.m3u8",
    f"/videos/{FILM}/2-1/720p/{{}}.m4s",
    f"/videos/{FILM}/1-{{}}/720p/1.m4s",
    f"/videos/{FILM}/previews-1-{{}}/sheet-0.jpg",
)


@pytest.mark.parametrize(
    ("site", "name"),
    [
        pytest.param(way, name, marks=[pytest.mark.prove] if way == "proxy" and number > 1 else [])
        for number, name in enumerate(MADE_UP)
        for way in ("cdn", "proxy")
    ],
    indirect=["site"],
)
async def test_made_up_names_cost_a_bounded_number_of_requests(site: Site, name: str) -> None:
    names = [name.format(number) for number in range(1000, 1200)]
    if "T12" in name:
        names = [f"/live/{HASH}/2026{number}T120000123/720p/1.m4s" for number in range(1000, 1200)]
    written = site.front.writes()
    cost, statuses = await site.cost(names)
    assert cost <= MOST
    assert statuses == {404, 503}  # what is not known to be missing may be asked for again
    cost, statuses = await site.cost(names[:1] * 200)
    assert (cost, statuses <= {404, 503}) == (0, True)
    site.clock.now += 1.0
    cost, statuses = await site.cost(names[:1] * 200)
    assert cost <= 3 + 4  # and the lists of what there is
    assert statuses == {404}
    assert site.front.writes() == written


async def test_a_segment_is_copied_for_a_cdn_once(site: Site) -> None:
    written = site.front.writes()
    path = f"/videos/{FILM}/2-1/720p/7.m4s"
    for _ in range(2):
        (answer,) = set(await site.get(*[path] * 20))
        assert answer[0] in {200, 302}
        is_copied = answer[0] == 302
        assert site.front.writes() - written == is_copied


async def test_what_playlists_name_is_served_in_any_crowd(site: Site) -> None:
    names = [f"{LIVE_MEDIA}/{number}.m4s" for number in range(1000, 1100)]
    names += [f"/videos/{FILM}/2-1/720p/{number}.m4s" for number in range(1000, 1100)]
    await site.get(*names)
    for address, text in STORED.items():
        path = f"/{address}".replace("2-1/index", "index")
        (answer,) = await site.get(path)
        if OLD_RUN in path:
            assert answer[0] == 503  # and a second later
            site.clock.now += 1.0
            (answer,) = await site.get(path)
            await site.get(*names)
        assert answer[0] == 302 or answer == (200, text), path
    # Eight is named, but missing: that costs few requests too.
    cost, statuses = await site.cost([f"{LIVE_MEDIA}/8.m4s"] * 100)
    assert cost <= 3
    cost, statuses = await site.cost([f"{LIVE_MEDIA}/8.m4s"] * 100)
    assert (cost, statuses) == (0, {404})


async def test_an_absence_does_not_hide_what_is_stored_and_named_since(site: Site) -> None:
    path = f"{LIVE_MEDIA}/9.m4s"
    assert await site.get(path) == [(404, "not found\n")]
    await site.objects.put(path[1:], b"nine")
    assert await site.get(path) == [(404, "not found\n")]
    playlist = f"{LIVE_MEDIA}/index.m3u8"
    await site.objects.put(playlist[1:], f"{STORED[playlist[1:]]}#EXTINF:4,\n9.m4s\n".encode())
    site.clock.now += 1.0
    assert (await site.get(path))[0][0] in {200, 302}


async def test_a_viewer_with_the_newest_playlist_gets_what_a_stranger_asked_for_too_early(
    site: Site,
) -> None:
    path, playlist = f"{LIVE_MEDIA}/9.m4s", f"{LIVE_MEDIA}/index.m3u8"
    assert (await site.get(path))[0][0] == 404
    await site.objects.put(path[1:], b"nine")
    newer = f"{STORED[playlist[1:]]}#EXTINF:4,\n9.m4s\n"
    await site.objects.put(playlist[1:], newer.encode())
    site.clock.now += 0.5
    assert await site.get(playlist) == [(200, newer)]
    assert (await site.get(path))[0][0] in {200, 302}


async def test_segments_ahead_of_a_timeline_cost_nothing(site: Site) -> None:
    timeline = extended(Timeline(part_target=45_000), 3)
    await site.edge.put_timelines(f"live/{HASH}/{RUN}", {"720p": timeline}, low_latency=False)
    names = [f"{LIVE_MEDIA}/{timeline.next_msn + number}.m4s" for number in range(1, 300)]
    assert await site.cost(names) == (0, {404})
    await site.edge.put_part(names[0][1:], b"in memory")
    assert await site.get(names[0]) == [(200, "in memory")]


async def test_a_stream_that_was_never_on_air_costs_a_request_a_second(site: Site) -> None:
    await site.objects.delete(f"live/{HASH}/index.m3u8")
    path = f"/live/{HASH}/index.m3u8"
    assert (await site.cost([path]))[1] == {404}
    assert await site.cost([path] * 100) == (0, {404})
    await site.objects.put(path[1:], b"#EXTM3U\n")
    site.clock.now += 1.0
    assert await site.get(path) == [(200, "#EXTM3U\n")]


async def test_a_poster_that_is_lost_costs_two_requests_a_second(site: Site) -> None:
    record = msgspec.structs.replace(
        site.records[FILM], posters="poster-1-1", poster_labels=("720p",), cdn_token=None
    )
    site.records[FILM] = record
    site.clock.now += 1.0
    path = f"/videos/{FILM}/poster/720p.jpg"
    assert (await site.cost([path]))[1] == {404}
    assert await site.cost([path] * 100) == (0, {404})
    await site.objects.put(f"videos/{FILM}/poster-1-1/720p.jpg", b"a poster")
    site.clock.now += 1.0
    assert await site.get(path) == [(200, "a poster")]
