"""The API's embed snippets play in a page of another site."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from tests.support.api.upload_clips import clip
from tests.support.browser import Chromium, Viewer
from tests.support.e2e.foreign_site import site
from tests.support.e2e.hls_reader import multivariant
from tests.support.e2e.publishers import ffmpeg, publishing, tool
from tests.support.e2e.service import SCALE, ServiceProcess, fetch, service
from tests.support.waiting import poll

pytestmark = pytest.mark.e2e

_SHAPE = """() => {
  const box = document.querySelector("iframe").getBoundingClientRect();
  return Math.round(100 * box.width / box.height) / 100;
}"""
_COOKIES = "() => document.cookie"


@pytest.fixture(scope="module")
def headend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """A service with short reconnect windows."""
    environment = {
        "HEADEND_LIVE__GOODBYE_SECONDS": "3",
        "HEADEND_STORAGE__MIN_FREE_BYTES": "0",
    }
    folder = tmp_path_factory.mktemp("embedding")
    with service(folder / "data", environment=environment) as running:
        yield running


def get_json(headend: ServiceProcess, path: str) -> dict[str, object]:
    return fetch(f"{headend.http}{path}", token=headend.token).json


def embedding(headend: ServiceProcess, path: str) -> dict[str, str]:
    return cast("dict[str, dict[str, str]]", get_json(headend, path)["data"])["embed"]


def page(snippet: str) -> str:
    return f"<!doctype html><title>A stranger</title><p>Before.</p>{snippet}<p>After.</p>"


def check_frame(host: Viewer, frame: Viewer, headend: ServiceProcess) -> None:
    assert frame.evaluate("() => location.origin") == headend.http
    assert host.evaluate(_SHAPE) == 1.78
    assert host.breaches() == frame.breaches() == []
    assert frame.evaluate(_COOKIES) == ""
    assert frame.evaluate("() => document.fullscreenEnabled") is True


def test_a_stream_waits_in_a_strangers_frame_and_starts_by_itself(
    headend: ServiceProcess, browser: Chromium, small_source: Path
) -> None:
    embed = embedding(headend, "/api/streams/1")
    pages = {"/frame": page(embed["iframe"]), "/script": page(embed["script"])}
    # As a careful site has it: our script, our frame, and nothing else.
    strict = {
        "Content-Security-Policy": f"default-src 'none'; script-src {headend.http}; "
        f"frame-src {headend.http}; style-src 'unsafe-inline'"
    }
    with site(pages, strict) as stranger:
        hosts = [browser.open(f"{stranger}{path}", width=640, height=800) for path in pages]
        frames = [host.framed() for host in hosts]
        for frame in frames:
            frame.wait_for("waiting", 10)
        url = f"{headend.server}/{headend.key}"
        with publishing(ffmpeg(small_source, url, "-stream_loop", "-1")):
            for host, frame in zip(hosts, frames, strict=True):
                frame.wait_until_playing(30)
                check_frame(host, frame, headend)
        for host in hosts:
            host.close()
    link = embed["link"]
    assert link == f"{headend.http}/watch/{headend.hash}"


def upload(headend: ServiceProcess, file: Path) -> dict[str, object]:
    done = subprocess.run(
        [
            *(tool("curl"), "-sS", "-H", f"Authorization: Bearer {headend.token}"),
            *("-F", 'title=A film & <b>"more"</b>', "-F", f"video=@{file}"),
            f"{headend.http}/api/projects/1/videos",
        ],
        capture_output=True,
        check=True,
        timeout=60 * SCALE,
    )
    return cast("dict[str, object]", json.loads(done.stdout)["video"])


def test_an_upright_video_stands_upright_in_a_strangers_page(
    headend: ServiceProcess, browser: Chromium, tmp_path: Path
) -> None:
    (tmp_path / "upright.mp4").write_bytes(clip("180x320", "1"))
    embed = embedding(headend, f"/api/videos/{upload(headend, tmp_path / 'upright.mp4')['id']}")
    with site({"/frame": page(embed["iframe"]), "/script": page(embed["script"])}) as stranger:
        for path in ("/frame", "/script"):
            host = browser.open(f"{stranger}{path}", width=360, height=800)
            host.wait_for_page("() => document.querySelector('iframe') !== null", 10, "framed")
            assert host.evaluate(_SHAPE) == 0.56
            title = host.evaluate("() => document.querySelector('iframe').title")
            assert title == 'A film & <b>"more"</b>'
            host.close()


@pytest.mark.prove
def test_a_video_is_prepared_in_a_strangers_frame_and_starts_by_itself(
    headend: ServiceProcess, browser: Chromium, small_source: Path
) -> None:
    video = upload(headend, small_source)
    assert "embed" not in video
    embed = embedding(headend, f"/api/videos/{video['id']}")
    with site({"/": page(embed["iframe"])}) as stranger:
        host = browser.open(f"{stranger}/", width=640, height=800)
        frame = host.framed()
        frame.wait_until_playing(60)
        check_frame(host, frame, headend)
        assert frame.evaluate("() => Number.isFinite(window.headend.video.duration)") is True
        assert frame.evaluate("() => document.querySelector('.live').hidden") is True
        host.close()
    must_wait_for_a_touch(browser, embed["link"], str(video["video_json"]))


def must_wait_for_a_touch(browser: Chromium, link: str, document: str) -> None:
    """A later visitor starts the finished video by hand, and can replay it after its end."""
    viewer = browser.open(link)
    ready = viewer.wait(lambda sample: sample.state == "playing", 15, "ready")
    assert ready.paused
    assert viewer.text("h1") == 'A film & <b>"more"</b>'
    poster = viewer.evaluate("() => document.querySelector('video').poster")
    described = fetch(document).json
    address, _, _ = str(poster).partition("?")  # which names the picture's version
    assert address == described["poster"]
    picture = fetch(str(poster))
    assert (picture.status, picture.body[:3]) == (200, b"\xff\xd8\xff")
    viewer.press("k")
    viewer.wait_until_playing(15)
    # Around its end: the last picture stays, without a message of a lost connection.
    viewer.evaluate("() => { const { video } = headend; video.currentTime = video.duration - 1; }")
    viewer.wait(lambda _: viewer.evaluate("() => headend.video.ended") is True, 15, "over")
    assert viewer.evaluate("() => document.querySelector('.curtain').offsetHeight") == 0
    viewer.press("k")
    again = viewer.wait(lambda sample: not sample.paused and sample.position < 5, 15, "again")
    assert again.state == "playing"
    assert viewer.breaches() == []
    viewer.close()


@pytest.mark.prove
def test_the_player_settings_of_a_stream_are_used(
    headend: ServiceProcess, browser: Chromium, small_source: Path
) -> None:
    answer = fetch(
        f"{headend.http}/api/projects/1/players",
        method="POST",
        token=headend.token,
        body={"name": "Orange", "autoplay": False, "muted": False, "color": "#ff8800"},
    )
    assert answer.status == 201, answer.text
    player = cast("dict[str, object]", answer.json["player"])
    added = headend.add_stream("With a player")
    edited = fetch(
        f"{headend.http}/api/streams/{added['id']}",
        method="PUT",
        token=headend.token,
        body={"player": player["id"]},
    )
    assert edited.status == 200, edited.text
    url = f"{headend.server}/{added['stream']}"
    with publishing(ffmpeg(small_source, url, "-stream_loop", "-1")):
        poll(lambda: multivariant(str(added["stream_url"])), within=15, what="a playlist")
        viewer = browser.open(f"{headend.http}/embed/{added['hash']}")
        ready = viewer.wait(lambda sample: sample.state == "playing", 15, "ready")
        assert ready.paused
        accent = "() => getComputedStyle(document.documentElement).getPropertyValue('--accent')"
        assert viewer.evaluate(accent) == "#ff8800"
        assert viewer.evaluate("() => headend.video.muted") is False
        viewer.press("k")
        viewer.wait_until_playing(15)
        viewer.close()
