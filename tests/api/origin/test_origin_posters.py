"""The origin's posters of streams: available once named, with the access rules of the stream."""

from collections.abc import AsyncGenerator
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
from storage.objects.addresses import live_poster
from storage.objects.disk import DiskObjects
from tests.support.manual_clock import ManualClock

HASH = "Stream012345"
CARD = Asset.of("card.jpg", b"\xff\xd8 a card")
STREAM = PublicRecord(
    hash=HASH, project=1, title="", description="", published=True, hidden=False, live=True,
    poster_labels=("360p", "720p"),
)  # fmt: skip
SMALL, LARGE, DEFAULT = (
    f"/live/{HASH}/poster/{label}.jpg" for label in ("360p", "720p", "default")
)


class PosterSite:
    """An origin with one stream, whose record can be changed, effective after a second."""

    def __init__(self, objects: DiskObjects) -> None:
        self.stream = STREAM
        self.queries = 0
        self.objects = objects
        self.clock = ManualClock()
        visibility = VisibilityCache(self, self.is_owner, lambda peer, _: peer, clock=self.clock)
        self.origin = Origin(
            objects=objects, edge=MemoryEdge(), visibility=visibility, card=CARD, clock=self.clock
        )

    async def find(self, hash_: str, /) -> PublicRecord | None:
        self.queries += 1
        return self.stream if hash_ == HASH else None

    async def is_owner(self, authorization: str | None, hash_: str, /) -> bool:
        return authorization == f"Bearer owner of {hash_}"

    def change(self, **facts: Any) -> None:
        self.stream = msgspec.structs.replace(self.stream, **facts)
        self.clock.now += 1.0

    async def get(self, path: str, country: str = "DE", **headers: str) -> httpx.Response:
        """Send a request through ASGI, from a peer whose address is its country."""
        other: Any = Litestar([], logging_config=None)
        app: Any = OriginFirst(self.origin, other)  # Any: httpx has its own ASGI types
        transport = httpx.ASGITransport(app=app, client=(country, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://origin") as client:
            return await client.get(path, headers=headers)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncGenerator[PosterSite]:
    with DiskObjects(tmp_path) as objects:
        for label, body in (("360p", b"small"), ("720p", b"large"), ("1080p", b"of before")):
            await objects.put(live_poster(HASH, label), b"\xff\xd8 " + body)
        yield PosterSite(objects)


@pytest.mark.parametrize(
    ("path", "body"),
    [(SMALL, b"\xff\xd8 small"), (LARGE, b"\xff\xd8 large"), (DEFAULT, b"\xff\xd8 large")],
)
async def test_a_poster_is_fresh_for_half_a_minute(
    site: PosterSite, path: str, body: bytes
) -> None:
    answer = await site.get(path)
    assert (answer.status_code, answer.content) == (200, body)
    assert answer.headers["content-type"] == "image/jpeg"
    assert answer.headers["cache-control"] == "public, max-age=30"
    assert answer.headers["access-control-allow-origin"] == "*"
    again = await site.get(path, **{"If-None-Match": answer.headers["etag"]})
    assert again.status_code == 304
    assert (await site.get(f"{path}?v=2")).content == body


async def test_the_next_poster_has_another_validator(site: PosterSite) -> None:
    before = await site.get(SMALL)
    await site.objects.put(live_poster(HASH, "360p"), b"\xff\xd8 other")
    after = await site.get(SMALL, **{"If-None-Match": before.headers["etag"]})
    assert (after.status_code, after.content) == (200, b"\xff\xd8 other")


async def test_the_fast_path_answers_the_same(site: PosterSite) -> None:
    answer = await site.get(SMALL)
    fast_answer = site.origin.fast_path("GET", SMALL, [], "DE")
    assert isinstance(fast_answer, HttpResponse)
    headers = {name.decode(): value.decode() for name, value in fast_answer.headers}
    assert headers == dict(answer.headers)
    fast_answer.close()


@pytest.mark.parametrize(
    "path",
    [
        f"/live/{HASH}/poster/1080p.jpg",
        f"/live/{HASH}/poster/480p.jpg",
        f"/live/{HASH}/poster/360p.png",
        f"/live/{HASH}/poster/",
        f"/videos/{HASH}/poster/360p.jpg",
        f"/videos/{HASH}/poster/default.jpg",
        "/live/zzzzzzzzzzzz/poster/default.jpg",
    ],
)
async def test_what_the_record_does_not_name_does_not_exist(site: PosterSite, path: str) -> None:
    assert (await site.get(path)).status_code == 404


async def test_before_the_first_poster_only_the_default_address_has_a_card(
    site: PosterSite,
) -> None:
    site.change(poster_labels=(), published=False)
    assert (await site.get(SMALL)).status_code == 404
    card = await site.get(DEFAULT)
    assert (card.status_code, card.content) == (200, CARD.body)
    assert card.headers["cache-control"] == "public, max-age=10"


async def test_a_missing_default_poster_is_replaced_by_the_card(site: PosterSite) -> None:
    await site.objects.delete(live_poster(HASH, "720p"))
    assert (await site.get(LARGE)).status_code == 404
    assert (await site.get(DEFAULT)).content == CARD.body


async def test_the_default_poster_changes_as_soon_as_its_file_is_replaced(
    site: PosterSite,
) -> None:
    assert (await site.get(DEFAULT)).content == b"\xff\xd8 large"
    site.stream = msgspec.structs.replace(STREAM, poster_labels=("360p",))
    await site.objects.delete(live_poster(HASH, "720p"))
    site.clock.now += 0.5  # the record that names the large one is still remembered
    assert (await site.get(DEFAULT)).content == b"\xff\xd8 small"


async def test_a_missing_poster_costs_few_queries(site: PosterSite) -> None:
    await site.objects.delete(live_poster(HASH, "720p"))
    for _ in range(50):
        await site.get(DEFAULT)
        site.clock.now += 0.01
    assert site.queries <= 6


@pytest.mark.parametrize("path", [SMALL, DEFAULT])
async def test_posters_of_an_unpublished_stream_are_visible_to_its_owner_only(
    site: PosterSite, path: str
) -> None:
    site.change(hidden=True)
    refused = await site.get(path)
    assert (refused.status_code, refused.headers["cache-control"]) == (404, "no-store")
    owners = await site.get(path, Authorization=f"Bearer owner of {HASH}")
    assert (owners.status_code, owners.headers["cache-control"]) == (200, "private, no-store")


@pytest.mark.parametrize("path", [SMALL, DEFAULT])
async def test_posters_are_visible_in_the_streams_countries_only(
    site: PosterSite, path: str
) -> None:
    site.change(countries=frozenset({"RO"}))
    for peer in ("DE", ""):
        assert (await site.get(path, peer)).status_code == 451
    inside = await site.get(path, "RO")
    assert (inside.status_code, inside.headers["cache-control"]) == (200, "private, no-store")
