"""The origin with redirects: access is checked before each, and playlists are not redirected."""

from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from litestar import Litestar

from api.http.response import HttpResponse
from api.http.static_files import Asset
from api.origin.origin import Origin, OriginFirst
from api.origin.redirects import CdnRedirects, Method, Redirects, SignedRedirects
from api.origin.visibility import VisibilityCache
from delivery.edge.memory import MemoryEdge
from storage.catalog.records.common import PublicRecord
from storage.objects.addresses import live_poster, live_segment, video_folder
from storage.objects.cdn_copies import copy_for_cdn
from storage.objects.disk import DiskObjects
from tests.support.api.origin_client import later
from tests.support.manual_clock import ManualClock

pytestmark = pytest.mark.anyio

HASH, FILM, RUN = "Stream012345", "Video0123456", "20260131T120000123"
TOKEN = "0123456789abcdef0123456789abcdef"
GERMANY = ("DE",)
STREAM = PublicRecord(
    hash=HASH, project=1, title="", description="", published=True, hidden=False, live=True,
    poster_labels=("720p",), cdn_token=TOKEN,
)  # fmt: skip
VIDEO = PublicRecord(
    hash=FILM, project=1, title="", description="", published=True, hidden=False, live=False,
    kind="video", media="1-2", posters="poster-1-1", poster_labels=("720p",),
    previews="previews-1-1", cdn_token=TOKEN,
)  # fmt: skip
MEDIA = f"/{video_folder(FILM, '1-2')}/720p/0.m4s"
PLAYLIST = f"/{video_folder(FILM, '1-2')}/720p/index.m3u8"
SEGMENT = f"/{live_segment(HASH, RUN, '720p', 7)}"
POSTER = f"/{live_poster(HASH, '720p')}"
CDN = "https://cdn.example"


class RedirectingOrigin:
    """An origin with a stream and a video in a store that has their media as well."""

    def __init__(self, objects: DiskObjects, kind: str) -> None:
        self.objects = objects
        self.is_signed = kind == "signed"
        self.records = {HASH: STREAM, FILM: VIDEO}
        self.clock = ManualClock()
        self.edge = MemoryEdge()
        self.opened: list[str] = []
        redirects: Redirects = CdnRedirects(
            CDN, partial(copy_for_cdn, objects), self.open_folder, clock=self.clock
        )
        if self.is_signed:
            redirects = SignedRedirects(self.sign, self.is_stored, seconds=60, clock=self.clock)
        visibility = VisibilityCache(self, self.is_owner, lambda peer, _: peer, clock=self.clock)
        self.origin = Origin(
            objects=objects, edge=self.edge, visibility=visibility, redirects=redirects,
            card=Asset.of("card.jpg", b"\xff\xd8 a card"), clock=self.clock,
        )  # fmt: skip

    async def find(self, hash_: str, /) -> PublicRecord | None:
        return self.records.get(hash_)

    async def is_owner(self, authorization: str | None, hash_: str, /) -> bool:
        return authorization == "Bearer owner"

    async def is_stored(self, address: str) -> bool:
        return await self.objects.stat(address) is not None

    async def open_folder(self, hash_: str) -> None:
        self.opened.append(hash_)
        self.records[hash_] = msgspec.structs.replace(self.records[hash_], cdn_token=TOKEN)

    async def sign(self, address: str, method: Method, seconds: float) -> str:
        return f"https://s3.example/{address}?signed-for={method}"

    def change(self, hash_: str, **facts: Any) -> None:
        self.records[hash_] = msgspec.structs.replace(self.records[hash_], **facts)
        self.clock.now += 1.0

    async def get(
        self, path: str, country: str = "DE", *, method: str = "GET", **headers: str
    ) -> httpx.Response:
        """Send a request through ASGI, from a peer whose address is its country."""
        other: Any = Litestar([], logging_config=None)
        app: Any = OriginFirst(self.origin, other)  # Any: httpx has its own ASGI types
        transport = httpx.ASGITransport(app=app, client=(country, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://origin") as client:
            return await client.request(method, path, headers=headers)


@pytest.fixture(params=["signed", "cdn"])
async def origin(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncGenerator[RedirectingOrigin]:
    with DiskObjects(tmp_path) as objects:
        for address in (MEDIA, PLAYLIST, SEGMENT, POSTER):
            await objects.put(address[1:], b"stored")
        yield RedirectingOrigin(objects, request.param)


def leads(origin: RedirectingOrigin, path: str, method: str = "GET") -> str:
    signed = f"https://s3.example{path}?signed-for={method}"
    _, _, hash_, rest = path.split("/", 3)
    return signed if origin.is_signed else f"{CDN}/cdn/{hash_}/{TOKEN}/{rest}"


async def test_media_are_redirected_and_playlists_are_served(origin: RedirectingOrigin) -> None:
    for path in (MEDIA, SEGMENT):
        for method in ("GET", "HEAD"):
            answer = await origin.get(path, method=method)
            assert (answer.status_code, answer.headers["location"]) == (
                302,
                leads(origin, path, method),
            )
            assert answer.headers["access-control-allow-origin"] == "*"
            assert answer.headers["cache-control"].startswith("public, max-age=")
    text = await origin.get(PLAYLIST)
    assert (text.status_code, text.content) == (200, b"stored")
    previews = f"videos/{FILM}/previews-1-1"
    await origin.objects.put(f"{previews}/previews.vtt", b"WEBVTT")
    await origin.objects.put(f"{previews}/sheet-0.jpg", b"\xff\xd8")
    assert (await origin.get(f"/{previews}/previews.vtt")).content == b"WEBVTT"
    assert origin.opened == []
    sheet = await origin.get(f"/{previews}/sheet-0.jpg")
    assert sheet.headers["location"] == leads(origin, f"/{previews}/sheet-0.jpg")


async def test_the_second_viewer_is_redirected_by_the_fast_path(origin: RedirectingOrigin) -> None:
    first = origin.origin.fast_path("GET", MEDIA, [])
    assert (first if isinstance(first, HttpResponse) else await later(first)).status == 302
    second = origin.origin.fast_path("GET", MEDIA, [])
    assert isinstance(second, HttpResponse)
    assert dict(second.headers)[b"location"].decode() == leads(origin, MEDIA)
    playlist = origin.origin.fast_path("GET", PLAYLIST, [])
    assert (playlist if isinstance(playlist, HttpResponse) else await later(playlist)).status == 200


async def test_viewers_without_access_are_not_redirected(origin: RedirectingOrigin) -> None:
    assert (await origin.get(MEDIA)).status_code == 302  # and cached from now on
    origin.change(FILM, countries=GERMANY)
    blocked = await origin.get(MEDIA, "FR")
    assert (blocked.status_code, blocked.headers["cache-control"]) == (451, "private, no-store")
    allowed = await origin.get(MEDIA, "DE")
    assert allowed.headers["cache-control"] == "private, no-store"
    # A CDN does not check countries, so restricted media are served by the origin.
    assert allowed.status_code == (302 if origin.is_signed else 200)
    origin.change(FILM, countries=(), hidden=True)
    assert (await origin.get(MEDIA)).status_code == 404
    owner = await origin.get(MEDIA, authorization="Bearer owner")
    assert owner.headers["cache-control"] == "private, no-store"
    assert owner.status_code == (302 if origin.is_signed else 200)
    fast = origin.origin.fast_path("GET", MEDIA, [], "DE")
    assert (fast if isinstance(fast, HttpResponse) else await later(fast)).status == 404


async def test_media_that_no_record_names_are_not_found(origin: RedirectingOrigin) -> None:
    for path in (MEDIA.replace("1-2", "9-9"), MEDIA.replace(FILM, "Other0123456"), "/sources/a/1"):
        assert (await origin.get(path)).status_code == 404


async def test_a_segment_that_is_not_stored_yet_is_not_redirected(
    origin: RedirectingOrigin,
) -> None:
    path = SEGMENT.replace("7.m4s", "8.m4s")
    assert (await origin.get(path)).status_code == 404
    await origin.edge.put_part(path[1:], b"in memory")
    assert (await origin.get(path)).content == b"in memory"
    await origin.objects.put(path[1:], b"stored")
    assert (await origin.get(path)).headers["location"] == leads(origin, path)


async def test_posters_of_streams_are_redirected_to_signed_addresses_only(
    origin: RedirectingOrigin,
) -> None:
    answer = await origin.get(POSTER)
    if origin.is_signed:
        assert answer.headers["location"] == leads(origin, POSTER)
    else:
        assert (answer.status_code, answer.content) == (200, b"stored")
    await origin.objects.put(f"videos/{FILM}/poster-1-1/720p.jpg", b"a poster")
    video = await origin.get(f"/videos/{FILM}/poster/720p.jpg")
    assert video.headers["location"] == leads(origin, f"/videos/{FILM}/poster-1-1/720p.jpg")


async def test_a_record_gets_its_folder_with_its_first_public_viewer(tmp_path: Path) -> None:
    with DiskObjects(tmp_path) as objects:
        origin = RedirectingOrigin(objects, "cdn")
        await objects.put(MEDIA[1:], b"stored")
        origin.change(FILM, cdn_token=None, countries=GERMANY)
        assert (await origin.get(MEDIA, "DE")).status_code == 200
        origin.change(FILM, countries=(), published=False)
        owner = await origin.get(MEDIA, authorization="Bearer owner")
        assert (owner.status_code, origin.opened) == (200, [])
        origin.change(FILM, published=True)
        for _ in range(3):  # the cached record is a second old at most
            assert (await origin.get(MEDIA)).status_code == 200
        assert origin.opened == [FILM]
        origin.clock.now += 1.0
        assert (await origin.get(MEDIA)).headers["location"] == leads(origin, MEDIA)
        assert await objects.get(f"cdn/{FILM}/{TOKEN}/1-2/720p/0.m4s") == b"stored"
        assert origin.opened == [FILM]
