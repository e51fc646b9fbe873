"""The origin with a CDN that may read what the docs' policy allows, in a real bucket.

The CDN is the bucket itself, asked without credentials.
"""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from litestar import Litestar

from delivery.edge.memory import MemoryEdge
from headend.roles.origin_role import OriginRole
from media.countries import find_country
from storage.catalog import Catalog, open_catalog
from storage.catalog.records.details import StreamDetails, VideoDetails
from storage.cleanup.withdrawn_copies import GRACE_SECONDS, CopyWithdrawal
from storage.objects.addresses import live_segment, live_state, video_segment, video_source
from storage.objects.disk import DiskObjects
from storage.objects.s3 import S3Objects
from storage.objects.s3_bucket import S3Location
from tests.support.api.application import ADDRESSES, NOW_US
from tests.support.headend.installed import settings_of
from tests.support.sql import migrated
from tests.support.storage.cdn_policy import policy_of_the_docs
from tests.support.storage.new_videos import complete_video, new_video
from tests.support.storage.s3_server import S3Server
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

RUN = "20260131T120000123"


class Site:
    """An origin with a film and a stream, both public."""

    def __init__(
        self, server: S3Server, bucket: S3Location, catalog: Catalog, objects: S3Objects
    ) -> None:
        self.server = server
        self.bucket = bucket
        self.catalog = catalog
        self.objects = objects
        self.cdn = f"{server.endpoint}/{bucket.bucket}/{bucket.prefix}"
        self.withdrawal = CopyWithdrawal(objects, catalog.cdn_folders)
        self.film = self.stream = ""
        self.client = httpx.AsyncClient()

    async def add_media(self) -> None:
        self.film = new_video().hash
        video = (await self.catalog.videos.add(1, new_video(self.film), NOW_US, by=None)).video
        self.video_number = video.id
        await complete_video(self.catalog, NOW_US)
        (stream,) = await self.catalog.streams.find_all()
        self.stream, self.stream_number = stream.hash, stream.id
        await self.catalog.streams.publish(stream.id, now_us=NOW_US, by=None)
        self.segment = video_segment(self.film, "1-1", "720p", 0)
        self.live = live_segment(self.stream, RUN, "720p", 7)
        self.private = [
            video_source(self.film, 1), live_state(self.stream, RUN), "installation",
            f"uploads/{self.film}", f"pieces/{self.film}/0-1", f"trash/now/videos/{self.film}/1",
            f"videos/{self.film}/1-1/720p/index.m3u8",
        ]  # fmt: skip
        for address in (self.segment, self.live, *self.private):
            await self.objects.put(address, address.encode())

    def open(self, address: str) -> bytes | None:
        """Return what the CDN has at an address."""
        return self.server.open_to_all(self.bucket.bucket, f"{self.bucket.prefix}/{address}")

    async def redirected(self, address: str) -> str:
        """Wait until viewers are redirected, and return where to, below the CDN's URL."""
        found: list[str] = []

        async def is_redirected() -> bool:
            answer = await self.client.get(f"/{address}")
            assert answer.status_code in {200, 302}
            found[:] = [answer.headers.get("location", "")]
            return answer.status_code == 302

        await until(is_redirected)
        assert found[0].startswith(f"{self.cdn}/cdn/")
        return found[0].removeprefix(f"{self.cdn}/")


@pytest.fixture
async def site(
    s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[Site]:
    for name, value in s3_server.credentials.items():
        monkeypatch.setenv(name, value)
    bucket = s3_server.new_bucket("media")
    s3_server.set_policy(bucket.bucket, policy_of_the_docs(bucket))
    async with open_catalog(migrated(tmp_path / "catalog.db"), migrate=False) as catalog:
        await catalog.installation.first_start(NOW_US)
        with DiskObjects(tmp_path / "scratch") as scratch:
            objects = S3Objects(bucket, scratch, cache_bytes=1 << 20, has_cdn_copies=True)
            opened = Site(s3_server, bucket, catalog, objects)
            settings = settings_of(
                tmp_path,
                storage__url=str(bucket),
                storage__endpoint=bucket.endpoint,
                storage__delivery="cdn",
                storage__cdn_url=opened.cdn,
            )
            role = OriginRole.create(settings, catalog, objects, MemoryEdge(), ADDRESSES)
            app: Any = role.wrap(Litestar([], logging_config=None), "off")  # Any: httpx' own
            transport = httpx.ASGITransport(app)
            opened.client = httpx.AsyncClient(transport=transport, base_url="http://a.example")
            await opened.add_media()
            async with opened.client:
                yield opened


async def test_viewers_of_public_media_are_sent_to_copies_that_a_hash_does_not_name(
    site: Site,
) -> None:
    for address in (site.segment, site.live):
        place = await site.redirected(address)
        assert site.open(place) == address.encode()
        hash_, token = place.split("/")[1:3]
        assert hash_ in {site.film, site.stream}
        assert len(bytes.fromhex(token)) == 16
        path = urlsplit(f"{site.cdn}/{place}")
        assert path.path.endswith(address.split("/", 2)[2])
    # Whoever knows a hash gets nothing of it.
    for address in (site.segment, site.live, *site.private):
        assert site.open(address) is None
    assert site.server.open_to_all(site.bucket.bucket, "?list-type=2&prefix=media/cdn/") is None
    copies = site.server.keys(site.bucket.bucket, "media/cdn")
    assert len(copies) == 2


@pytest.mark.parametrize("way", ["countries", "unpublished", "deleted"])
async def test_an_earlier_address_opens_nothing_after_a_restriction(site: Site, way: str) -> None:
    before = [await site.redirected(address) for address in (site.segment, site.live)]
    streams, videos = site.catalog.streams, site.catalog.videos
    germany = find_country("DE")
    assert germany is not None
    match way:
        case "countries":
            change = VideoDetails.edit(countries=(germany.number,))
            await videos.edit(site.video_number, change, NOW_US, by=None)
            limited = StreamDetails.edit(countries=(germany.number,))
            await streams.edit(site.stream_number, limited, now_us=NOW_US, by=None)
        case "unpublished":
            await videos.unpublish(site.video_number, NOW_US, by=None)
            await streams.unpublish(site.stream_number, now_us=NOW_US, by=None)
        case _:
            await videos.remove(site.video_number, NOW_US, by=None)
            await streams.remove(site.stream_number, now_us=NOW_US, by=None)
    assert await site.withdrawal.run(NOW_US) == 2
    assert all(site.open(place) for place in before), "caches still lead there"
    await site.withdrawal.run(NOW_US + GRACE_SECONDS * 1_000_000)
    assert [site.open(place) for place in before] == [None, None]
    assert site.server.keys(site.bucket.bucket, "media/cdn") == []
    # The objects are where they were.
    assert await site.objects.get(site.segment) == site.segment.encode()
    if way == "deleted":
        return
    # Public again, they have other addresses.
    await videos.edit(site.video_number, VideoDetails.edit(countries=()), NOW_US, by=None)
    await videos.publish(site.video_number, NOW_US, by=None)
    after = await site.redirected(site.segment)
    assert site.open(after) == site.segment.encode()
    assert after.split("/")[1] == before[0].split("/")[1]
    assert after.split("/")[2] != before[0].split("/")[2]
    assert [site.open(place) for place in before] == [None, None]


async def test_a_restricted_stream_on_air_adds_nothing_to_its_copies(site: Site) -> None:
    await site.redirected(site.live)
    germany = find_country("DE")
    assert germany is not None
    change = StreamDetails.edit(countries=(germany.number,))
    await site.catalog.streams.edit(site.stream_number, change, now_us=NOW_US, by=None)

    async def is_restricted() -> bool:  # within a second
        return (await site.client.get(f"/{site.live}")).status_code == 451

    await until(is_restricted)
    newer = live_segment(site.stream, RUN, "720p", 8)
    await site.objects.put(newer, b"eight")
    assert (await site.client.get(f"/{newer}")).status_code == 451
    copies = site.server.keys(site.bucket.bucket, "media/cdn")
    assert [each.rpartition("/")[2] for each in copies] == ["7.m4s"]
