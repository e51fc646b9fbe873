"""The origin of videos: it serves the media that a record names, and nothing else."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from litestar import Litestar

from api.http.response import HttpResponse
from api.http.static_files import Asset
from api.origin.origin import Origin, OriginFirst
from api.origin.visibility import VisibilityCache
from delivery.edge.memory import MemoryEdge
from storage.catalog.records.common import PublicRecord
from storage.objects.disk import DiskObjects
from tests.support.api.origin_client import later
from tests.support.manual_clock import ManualClock

HASH = "Video0123456"
PLAYLIST = "application/vnd.apple.mpegurl"
CARD = Asset.of("card.jpg", b"\xff\xd8 a card")
VIDEO = PublicRecord(
    hash=HASH, project=1, title="", description="", published=True, hidden=False, live=False,
    kind="video", media="1-2", posters="poster-1-1", poster_labels=("360p", "720p"),
)  # fmt: skip
OBJECTS = {
    f"videos/{HASH}/1-2/index.m3u8": b"#EXTM3U\n1-2/720p/index.m3u8\n",
    f"videos/{HASH}/1-2/720p/index.m3u8": b"#EXTM3U\n0.m4s\n#EXT-X-ENDLIST\n",
    f"videos/{HASH}/1-2/720p/init-0.mp4": b"head",
    f"videos/{HASH}/1-2/720p/0.m4s": b"picture",
    f"videos/{HASH}/1-2/audio/0.m4s": b"sound",
    f"videos/{HASH}/0-1/index.m3u8": b"#EXTM3U\n0-1/720p/index.m3u8\n",
    f"videos/{HASH}/0-1/720p/index.m3u8": b"#EXTM3U\n",
    f"videos/{HASH}/0-1/720p/0.m4s": b"made of an older file",
    f"videos/{HASH}/2-1/720p/index.m3u8": b"#EXTM3U\n",
    f"videos/{HASH}/2-1/720p/0.m4s": b"being made of a newer file",
    f"videos/{HASH}/1-2/notes.json": b"notes",
    f"videos/{HASH}/poster-1-1/360p.jpg": b"\xff\xd8 small",
    f"videos/{HASH}/poster-1-1/720p.jpg": b"\xff\xd8 large",
    f"videos/{HASH}/poster-1-1/1080p.jpg": b"\xff\xd8 not named",
    f"videos/{HASH}/poster-1-0/360p.jpg": b"\xff\xd8 older",
    f"sources/{HASH}/1": b"what was uploaded",
}


class VideoSite:
    """An origin with one video, whose record can be changed, effective after a second."""

    def __init__(self, folder: Path) -> None:
        self.video = VIDEO
        self.clock = ManualClock()
        self.objects = DiskObjects(folder)
        visibility = VisibilityCache(self, self.is_owner, lambda peer, _: peer, clock=self.clock)
        self.origin = Origin(
            objects=self.objects,
            edge=MemoryEdge(),
            visibility=visibility,
            card=CARD,
            clock=self.clock,
        )

    async def find(self, hash_: str, /) -> PublicRecord | None:
        return self.video if hash_ == HASH else None

    async def is_owner(self, authorization: str | None, hash_: str, /) -> bool:
        return authorization == "Bearer owner"

    def change(self, **facts: Any) -> None:
        self.video = msgspec.structs.replace(self.video, **facts)
        self.clock.now += 1.0

    async def get(self, path: str, country: str = "DE", **headers: str) -> httpx.Response:
        """Send a request through ASGI, from a peer whose address is its country."""
        other: Any = Litestar([], logging_config=None)
        app: Any = OriginFirst(self.origin, other)  # Any: httpx has its own ASGI types
        transport = httpx.ASGITransport(app=app, client=(country, 1))
        request_headers = {"Accept-Encoding": "identity", **headers}
        async with httpx.AsyncClient(transport=transport, base_url="http://origin") as client:
            return await client.get(path, headers=request_headers)


Scene = Callable[[VideoSite], Awaitable[None]]


@pytest.fixture
def on_site(tmp_path: Path) -> Callable[[Scene], None]:
    def play(scenario: Scene) -> None:
        async def go() -> None:
            site = VideoSite(tmp_path)
            for address, body in OBJECTS.items():
                await site.objects.put(address, body)
            await scenario(site)

        asyncio.run(go())

    return play


OnSite = Callable[[Scene], None]
KINDS = {
    f"/videos/{HASH}/index.m3u8": (PLAYLIST, "public, max-age=5"),
    f"/videos/{HASH}/1-2/720p/index.m3u8": (PLAYLIST, "public, max-age=300"),
    f"/videos/{HASH}/1-2/720p/init-0.mp4": ("video/mp4", "public, max-age=31536000, immutable"),
    f"/videos/{HASH}/1-2/720p/0.m4s": ("video/mp4", "public, max-age=31536000, immutable"),
    f"/videos/{HASH}/1-2/audio/0.m4s": ("audio/mp4", "public, max-age=31536000, immutable"),
    f"/videos/{HASH}/poster/360p.jpg": ("image/jpeg", "public, max-age=60"),
    f"/videos/{HASH}/poster/default.jpg": ("image/jpeg", "public, max-age=60"),
}
OBJECT_AT = {
    f"/videos/{HASH}/index.m3u8": f"videos/{HASH}/1-2/index.m3u8",
    f"/videos/{HASH}/poster/360p.jpg": f"videos/{HASH}/poster-1-1/360p.jpg",
    f"/videos/{HASH}/poster/default.jpg": f"videos/{HASH}/poster-1-1/720p.jpg",
}


def test_everything_that_a_record_names_can_be_fetched(on_site: OnSite) -> None:
    async def scenario(site: VideoSite) -> None:
        for path, (kind, cached) in KINDS.items():
            answer = await site.get(path)
            assert (answer.status_code, answer.headers["content-type"]) == (200, kind), path
            assert answer.content == OBJECTS[OBJECT_AT.get(path, path[1:])]
            assert answer.headers["cache-control"] == cached
            assert answer.headers["access-control-allow-origin"] == "*"
            again = await site.get(path, **{"If-None-Match": answer.headers["etag"]})
            assert again.status_code == 304
            some = await site.get(path, Range="bytes=1-2")
            if path.endswith(".m3u8"):  # a playlist is sent whole
                assert (some.status_code, some.content) == (200, answer.content)
                assert "accept-ranges" not in answer.headers
            else:
                assert (some.status_code, some.content) == (206, answer.content[1:3])
                assert answer.headers["accept-ranges"] == "bytes"

    on_site(scenario)


def test_the_fast_path_answers_the_same(on_site: OnSite) -> None:
    async def scenario(site: VideoSite) -> None:
        for path in KINDS:
            answer = await site.get(path)
            fast_answer = site.origin.fast_path("GET", path, [], "DE")
            assert isinstance(fast_answer, HttpResponse), path
            headers = {name.decode(): value.decode() for name, value in fast_answer.headers}
            assert headers == dict(answer.headers)
            fast_answer.close()

    on_site(scenario)


@pytest.mark.parametrize(
    "path",
    [
        f"/videos/{HASH}/2-1/720p/index.m3u8",
        f"/videos/{HASH}/2-1/720p/0.m4s",
        f"/videos/{HASH}/0-1/index.m3u8",
        f"/videos/{HASH}/1-2/index.m3u8",
        f"/videos/{HASH}/1-2/notes.json",
        f"/videos/{HASH}/1-2/720p/1.m4s",
        f"/videos/{HASH}/1-2/720p/%2e%2e/720p/0.m4s",
        f"/videos/{HASH}/poster/1080p.jpg",
        f"/videos/{HASH}/poster/480p.jpg",
        f"/videos/{HASH}/poster-1-1/360p.jpg",
        f"/videos/{HASH}/poster/360p.png",
        f"/videos/{HASH}",
        "/videos/",
        "/videos/zzzzzzzzzzzz/index.m3u8",
        "/videos/zzzzzzzzzzzz/poster/default.jpg",
        f"/live/{HASH}/index.m3u8",
        f"/live/{HASH}/poster/default.jpg",
        f"/live/{HASH}/poster/360p.jpg",
        f"/sources/{HASH}/1",
        f"/videos/sources/{HASH}/1",
    ],
)
def test_what_a_record_does_not_name_does_not_exist(on_site: OnSite, path: str) -> None:
    async def scenario(site: VideoSite) -> None:
        assert (await site.get(path)).status_code == 404

    on_site(scenario)


def test_a_video_without_media_or_posters_has_a_card_and_no_more(on_site: OnSite) -> None:
    async def scenario(site: VideoSite) -> None:
        site.change(media=None, posters=None, poster_labels=(), published=False)
        for path in KINDS:
            answer = await site.get(path)
            card = path.endswith("default.jpg")
            assert answer.status_code == (200 if card else 404), path
            if card:
                assert answer.content == CARD.body
                assert answer.headers["cache-control"] == "public, max-age=10"
                assert answer.headers["etag"] == CARD.tag
        site.change(media="0-1")
        # A poster may be there before anything is published, media may not.
        assert (await site.get(f"/videos/{HASH}/index.m3u8")).status_code == 404
        site.change(published=True)
        first = await site.get(f"/videos/{HASH}/index.m3u8")
        assert first.content == OBJECTS[f"videos/{HASH}/0-1/index.m3u8"]

    on_site(scenario)


def test_media_of_an_older_file_stay_available(on_site: OnSite) -> None:
    async def scenario(site: VideoSite) -> None:
        old = f"/videos/{HASH}/0-1/720p/0.m4s"
        new = f"/videos/{HASH}/1-2/720p/0.m4s"
        site.change(media="0-1")
        assert (await site.get(old)).status_code == 200
        assert (await site.get(new)).status_code == 404
        site.change(media="1-2")
        assert (await site.get(new)).status_code == 200
        assert (await site.get(old)).content == OBJECTS[old[1:]]
        await site.objects.delete_tree(f"videos/{HASH}/0-1")
        assert (await site.get(old)).status_code == 404
        answer = await site.get(f"/videos/{HASH}/index.m3u8")
        assert answer.content == OBJECTS[f"videos/{HASH}/1-2/index.m3u8"]

    on_site(scenario)


@pytest.mark.parametrize("path", [*KINDS])
def test_restricted_countries_apply_at_every_address(on_site: OnSite, path: str) -> None:
    async def scenario(site: VideoSite) -> None:
        site.change(countries=frozenset({"RO"}))
        for peer in ("DE", ""):
            blocked = await site.get(path, peer)
            assert blocked.status_code == 451
            assert blocked.text == "not available in your country\n"
            assert blocked.headers["cache-control"] == "private, no-store"
            assert blocked.headers["access-control-allow-origin"] == "*"
            fast_refusal = site.origin.fast_path("GET", path, [], peer)
            assert (await later(fast_refusal)).status == 451
        inside = await site.get(path, "RO")
        assert inside.status_code == 200
        assert inside.headers["cache-control"] == "private, no-store"
        fast_answer = site.origin.fast_path("GET", path, [], "RO")
        assert isinstance(fast_answer, HttpResponse)
        assert (b"cache-control", b"private, no-store") in fast_answer.headers
        fast_answer.close()
        owners = await site.get(path, "DE", Authorization="Bearer owner")
        assert owners.status_code == 200
        assert owners.headers["cache-control"] == "private, no-store"

    on_site(scenario)


@pytest.mark.parametrize("path", [*KINDS])
def test_an_unpublished_video_is_visible_to_its_owner_only(on_site: OnSite, path: str) -> None:
    async def scenario(site: VideoSite) -> None:
        site.change(hidden=True, countries=frozenset({"RO"}))
        assert [(await site.get(path, peer)).status_code for peer in ("RO", "DE")] == [404, 404]
        owners = await site.get(path, "DE", Authorization="Bearer owner")
        assert owners.status_code == 200

    on_site(scenario)
