"""Redirects to media: still valid when they are followed, and cacheable for public media only."""

import asyncio

import pytest

from api.http.response import HttpResponse
from api.origin.access import AccessLevel
from api.origin.redirects import CdnRedirects, Method, SignedRedirects
from tests.support.manual_clock import ManualClock

pytestmark = pytest.mark.anyio

MEDIA = "videos/Video0123456/1-2/720p/0.m4s"
LIVE = "live/Stream012345/20260131T120000123/720p/7.m4s"
LIVE_POSTER = "live/Stream012345/poster/720p.jpg"
CDN = "https://cdn.example/media"


class CountingSigner:
    """A bucket that counts its signatures."""

    def __init__(self) -> None:
        self.stored: set[str] = set()
        self.lookups = 0
        self.signed = 0

    async def is_stored(self, address: str) -> bool:
        self.lookups += 1
        await asyncio.sleep(0)
        return address in self.stored

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
    assert redirects.known("GET", MEDIA, AccessLevel.OPEN) is None
    async with asyncio.TaskGroup() as tasks:
        for _ in range(20):
            tasks.create_task(redirects.find("GET", MEDIA, AccessLevel.OPEN))
    first = (f"https://s3.example/{MEDIA}?GET&60&1", "public, max-age=15")
    clock.now += 14.9
    assert redirect_of(redirects.known("GET", MEDIA, AccessLevel.OPEN)) == first
    clock.now += 0.2
    assert redirects.known("GET", MEDIA, AccessLevel.OPEN) is None
    second = redirect_of(await redirects.find("GET", MEDIA, AccessLevel.OPEN))
    assert second == (f"https://s3.example/{MEDIA}?GET&60&2", "public, max-age=15")
    # A signature is for one method. Rows name what videos have: the bucket is not asked.
    assert "?HEAD&" in str(redirect_of(await redirects.find("HEAD", MEDIA, AccessLevel.OPEN)))
    assert (bucket.signed, bucket.lookups) == (3, 0)


@pytest.mark.parametrize("access", [AccessLevel.RESTRICTED_OPEN, AccessLevel.OWNER])
async def test_a_redirect_to_restricted_media_is_not_cacheable(
    access: AccessLevel,
) -> None:
    bucket = CountingSigner()
    signed = SignedRedirects(bucket.sign, bucket.is_stored, seconds=60)
    for response in (await signed.find("GET", MEDIA, access), signed.known("GET", MEDIA, access)):
        answer = redirect_of(response)
        assert answer is not None
        assert answer[1] == "private, no-store"
    # A CDN would serve it to everyone.
    cdn = CdnRedirects(CDN, bucket.is_stored)
    assert cdn.known("GET", MEDIA, access) is None
    assert await cdn.find("GET", MEDIA, access) is None


async def test_listed_media_that_are_not_stored_yet_are_not_redirected() -> None:
    bucket = CountingSigner()
    for redirects in (
        SignedRedirects(bucket.sign, bucket.is_stored, seconds=60),
        CdnRedirects(CDN, bucket.is_stored),
    ):
        bucket.stored.clear()
        bucket.lookups = 0
        assert await redirects.find("GET", LIVE, AccessLevel.OPEN) is None
        assert redirects.known("GET", LIVE, AccessLevel.OPEN) is None
        bucket.stored.add(LIVE)
        async with asyncio.TaskGroup() as tasks:
            requests = [
                tasks.create_task(redirects.find("GET", LIVE, AccessLevel.OPEN)) for _ in range(9)
            ]
        assert all(each.result() is not None for each in requests)
        assert redirects.known("GET", LIVE, AccessLevel.OPEN) is not None
        assert bucket.lookups == 2


async def test_only_media_that_never_change_are_redirected_to_a_cdn() -> None:
    bucket = CountingSigner()
    bucket.stored.update({LIVE, LIVE_POSTER})
    redirects = CdnRedirects(f"{CDN}/", bucket.is_stored)
    answer = redirect_of(redirects.known("GET", MEDIA, AccessLevel.OPEN))
    assert answer == (f"{CDN}/{MEDIA}", "public, max-age=300")
    assert redirect_of(await redirects.find("HEAD", LIVE, AccessLevel.OPEN)) == (
        f"{CDN}/{LIVE}",
        "public, max-age=300",
    )
    assert await redirects.find("GET", LIVE_POSTER, AccessLevel.OPEN) is None
