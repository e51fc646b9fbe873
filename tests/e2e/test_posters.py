"""Posters of a live stream: they show its current picture, and are removed with the stream."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from tests.support.e2e.hls_reader import multivariant
from tests.support.e2e.publishers import ffmpeg, publishing
from tests.support.e2e.service import SCALE, ServiceProcess, fetch, service
from tests.support.engine.upload_files import picture_size
from tests.support.waiting import poll

pytestmark = pytest.mark.e2e

SIZES = {"360p": (640, 156), "480p": (656, 160)}


@pytest.fixture
def headend(tmp_path: Path) -> Iterator[ServiceProcess]:
    """A service that makes a poster at each keyframe."""
    environment = {
        "HEADEND_LIVE__POSTER_SECONDS": "2",
        "HEADEND_LIVE__RECONNECT_SECONDS": "2",
        "HEADEND_STORAGE__MIN_FREE_BYTES": "0",
    }
    with service(tmp_path / "data", environment=environment) as running:
        yield running


def image_urls(headend: ServiceProcess) -> dict[str, str] | None:
    """Return the `image_urls` of the only stream; the list must have them, too."""
    answer = fetch(f"{headend.http}/api/streams/1", token=headend.token)
    assert answer.status == 200, answer.text
    urls = cast("dict[str, dict[str, str] | None]", answer.json["data"])["image_urls"]
    listed = fetch(f"{headend.http}/api/projects/1/streams", token=headend.token)
    assert "image_urls" in cast("list[dict[str, object]]", listed.json["data"])[0]
    return urls


def change(headend: ServiceProcess, what: str, method: str = "POST") -> None:
    address = f"{headend.http}/api/streams/1{what}"
    assert fetch(address, method=method, token=headend.token).status in {200, 204}


@pytest.mark.prove
def test_the_posters_of_a_stream_follow_its_picture(
    headend: ServiceProcess, two_rungs: Path
) -> None:
    default = f"{headend.http}/live/{headend.hash}/poster/default.jpg"
    watch = f"{headend.http}/watch/{headend.hash}"
    assert image_urls(headend) is None
    card = fetch(default)
    assert (card.status, card.headers["cache-control"]) == (200, "public, max-age=10")
    assert "poster/default.jpg" not in fetch(watch).text

    with publishing(ffmpeg(two_rungs, f"{headend.server}/{headend.key}", "-stream_loop", "-1")):
        poll(lambda: multivariant(headend.playlist), within=15, what="a playlist")
        live = time.monotonic()
        urls = poll(lambda: image_urls(headend), within=10, what="posters")
        assert time.monotonic() - live < 5 * SCALE
        assert list(urls) == list(SIZES)
        first = {label: fetch(url) for label, url in urls.items()}
        for label, poster in first.items():
            assert (poster.status, poster.headers["content-type"]) == (200, "image/jpeg")
            assert poster.headers["cache-control"] == "public, max-age=30"
            assert picture_size(poster.body) == SIZES[label]
        assert picture_size(fetch(default).body) == SIZES["480p"]
        poll(lambda: "poster/default.jpg" in fetch(watch).text, within=5, what="a page with it")

        def renewed() -> bool:
            tag = first["480p"].headers["etag"]
            return fetch(urls["480p"], headers={"If-None-Match": tag}).status == 200

        poll(renewed, within=10, what="another poster")
        change(headend, "/unpublish")
        addresses = {*urls.values(), default}
        poll(lambda: {fetch(url).status for url in addresses} == {404}, within=5, what="404")
        assert fetch(default, token=headend.token).status == 200
        change(headend, "/publish")
        poll(lambda: {fetch(url).status for url in addresses} == {200}, within=5, what="200")

    def ended() -> bool:
        answer = fetch(f"{headend.http}/api/streams/1", token=headend.token)
        return cast("dict[str, object]", answer.json["data"])["live"] is False

    poll(ended, within=15, what="the end")
    assert {fetch(url).status for url in urls.values()} == {200}, "the last one stays"
    change(headend, "", "DELETE")
    poll(lambda: fetch(default).status == 404, within=5, what="nothing left")
    headend.empty_trash()
    folder = headend.data / "objects" / "live" / headend.hash
    poll(lambda: not folder.exists(), within=5, what="no files either")
    assert "poster not" not in headend.log.read_text()
