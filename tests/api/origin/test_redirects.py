"""Redirects to media: still valid when they are followed, and cacheable for public media only."""

import asyncio

import msgspec
import pytest

from api.http.response import HttpResponse
from api.origin.access import AccessLevel
from api.origin.redirects import CdnRedirects, Method, SignedRedirects
from api.origin.visibility import ViewerAccess
from storage.catalog.records.common import PublicRecord
from storage.errors import CatalogBusy
from tests.support.manual_clock import ManualClock

pytestmark = pytest.mark.anyio

MEDIA = "videos/Video0123456/1-2/720p/0.m4s"
LIVE = "live/Stream012345/20260131T120000123/720p/7.m4s"
LIVE_POSTER = "live/Stream012345/poster/720p.jpg"
CDN = "https://cdn.example/media"
HASH, RUN, TOKEN = "Video0123456", "20260131T120000123", "0123456789abcdef" * 2
SHOWN = PublicRecord(
    hash=HASH, project=1, title="", description="", published=True, hidden=False, live=False,
    kind="video", media="1-2", cdn_token=TOKEN,
)  # fmt: skip
OPEN = ViewerAccess(AccessLevel.OPEN, SHOWN)


class CountingSigner:
    """A bucket that counts its signatures."""

    def __init__(self) -> None:
        self.stored: set[str] = set()
        self.lookups = 0
        self.signed = 0
        self.copied: list[str] = []
        self.opened: list[str] = []
        self.fails = False

    async def is_stored(self, address: str) -> bool:
        self.lookups += 1
        await asyncio.sleep(0)
        return address in self.stored

    async def copy(self, address: str, copy: str) -> bool:
        if not await self.is_stored(address):
            return False
        self.copied.append(copy)
        return True

    async def open_folder(self, hash_: str) -> None:
        self.opened.append(hash_)
        if self.fails:
            raise CatalogBusy("locked")

    async def sign(self, address: str, method: Method, seconds: float) -> str:
        self.signed += 1
        await asyncio.sleep(0)
        return f"https://s3.example/{address}?{method}&{seconds:g}&{self.signed}"


def redirect_of(response: HttpResponse | None) -> tuple[str, str] | None:
    """Return a redirect's target and cache header."""
    if response is None:
        return None
    assert response.status == 302
    headers = {name.decode(): value.decode() for name, value in response.headers}
    assert headers["access-control-allow-origin"] == "*"
    return headers["location"], headers["cache-control"]


async def test_an_address_is_signed_once_and_used_for_a_quarter_of_its_time() -> None:
    bucket, clock = CountingSigner(), ManualClock()
    redirects = SignedRedirects(bucket.sign, bucket.is_stored, seconds=60, clock=clock)
    assert redirects.known("GET", MEDIA, OPEN) is None
    async with asyncio.TaskGroup() as tasks:
        for _ in range(20):
            tasks.create_task(redirects.find("GET", MEDIA, OPEN))
    first = (f"https://s3.example/{MEDIA}?GET&60&1", "public, max-age=15")
    clock.now += 14.9
    assert redirect_of(redirects.known("GET", MEDIA, OPEN)) == first
    clock.now += 0.2
    assert redirects.known("GET", MEDIA, OPEN) is None
    second = redirect_of(await redirects.find("GET", MEDIA, OPEN))
    assert second == (f"https://s3.example/{MEDIA}?GET&60&2", "public, max-age=15")
    # A signature is for one method. Rows name what videos have: the bucket is not asked.
    assert "?HEAD&" in str(redirect_of(await redirects.find("HEAD", MEDIA, OPEN)))
    assert (bucket.signed, bucket.lookups) == (3, 0)


@pytest.mark.parametrize("level", [AccessLevel.RESTRICTED_OPEN, AccessLevel.OWNER])
async def test_a_redirect_to_restricted_media_is_not_cacheable(level: AccessLevel) -> None:
    access = ViewerAccess(level, SHOWN)
    bucket = CountingSigner()
    signed = SignedRedirects(bucket.sign, bucket.is_stored, seconds=60)
    for response in (await signed.find("GET", MEDIA, access), signed.known("GET", MEDIA, access)):
        answer = redirect_of(response)
        assert answer is not None
        assert answer[1] == "private, no-store"
    # A CDN would serve it to everyone.
    cdn = CdnRedirects(CDN, bucket.copy, bucket.open_folder)
    assert cdn.known("GET", MEDIA, access) is None
    assert await cdn.find("GET", MEDIA, access) is None
    assert (bucket.copied, bucket.opened) == ([], [])


async def test_listed_media_that_are_not_stored_yet_are_not_redirected() -> None:
    bucket = CountingSigner()
    for redirects in (
        SignedRedirects(bucket.sign, bucket.is_stored, seconds=60),
        CdnRedirects(CDN, bucket.copy, bucket.open_folder),
    ):
        bucket.stored.clear()
        bucket.lookups = 0
        assert await redirects.find("GET", LIVE, OPEN) is None
        assert redirects.known("GET", LIVE, OPEN) is None
        bucket.stored.add(LIVE)
        async with asyncio.TaskGroup() as tasks:
            requests = [tasks.create_task(redirects.find("GET", LIVE, OPEN)) for _ in range(9)]
        assert all(each.result() is not None for each in requests)
        assert redirects.known("GET", LIVE, OPEN) is not None
        assert bucket.lookups == 2


async def test_only_media_that_never_change_are_redirected_to_a_cdn() -> None:
    bucket = CountingSigner()
    bucket.stored.update({LIVE, LIVE_POSTER, MEDIA})
    redirects = CdnRedirects(f"{CDN}/", bucket.copy, bucket.open_folder)
    film, stream = (
        f"cdn/{HASH}/{TOKEN}/1-2/720p/0.m4s",
        f"cdn/Stream012345/{TOKEN}/{RUN}/720p/7.m4s",
    )
    assert redirects.known("GET", MEDIA, OPEN) is None
    for address, copy in ((MEDIA, film), (LIVE, stream)):
        answer = redirect_of(await redirects.find("HEAD", address, OPEN))
        assert answer == (f"{CDN}/{copy}", "public, max-age=50")
        assert redirect_of(redirects.known("GET", address, OPEN)) == answer
    assert bucket.copied == [film, stream]
    assert await redirects.find("GET", LIVE_POSTER, OPEN) is None


async def test_a_new_folder_means_new_copies() -> None:
    bucket = CountingSigner()
    bucket.stored.add(MEDIA)
    redirects = CdnRedirects(CDN, bucket.copy, bucket.open_folder)
    assert await redirects.find("GET", MEDIA, OPEN) is not None
    anew = ViewerAccess(AccessLevel.OPEN, msgspec.structs.replace(SHOWN, cdn_token="f" * 32))
    assert redirects.known("GET", MEDIA, anew) is None
    answer = redirect_of(await redirects.find("GET", MEDIA, anew))
    assert answer is not None
    assert f"/{'f' * 32}/" in answer[0]


async def test_a_folder_is_asked_for_once_in_five_seconds_and_may_fail() -> None:
    bucket, clock = CountingSigner(), ManualClock()
    redirects = CdnRedirects(CDN, bucket.copy, bucket.open_folder, clock=clock)
    without = ViewerAccess(AccessLevel.OPEN, msgspec.structs.replace(SHOWN, cdn_token=None))
    bucket.fails = True
    for _ in range(3):
        assert await redirects.find("GET", MEDIA, without) is None
    assert bucket.opened == [HASH]
    clock.now += 5.1
    assert await redirects.find("GET", MEDIA, without) is None
    assert (bucket.opened, bucket.copied) == ([HASH, HASH], [])
    # Pictures exist before anything is published; those of a stream change.
    early = ViewerAccess(AccessLevel.OPEN, msgspec.structs.replace(SHOWN, published=False))
    clock.now += 5.1
    for address, decision in ((MEDIA, early), (LIVE_POSTER, without)):
        assert await redirects.find("GET", address, decision) is None
    assert len(bucket.opened) == 2
