"""Players of others, on pages of other origins, which send headers of their own."""

from collections.abc import Generator
from pathlib import Path
from typing import Final

import msgspec
import pytest

from tests.support.browser import Chromium, Viewer
from tests.support.e2e.foreign_site import site
from tests.support.e2e.publishers import ffmpeg, publishing
from tests.support.e2e.service import ServiceProcess
from tests.support.web.workshop import copy_with_packages

pytestmark = pytest.mark.e2e

# Notes the names of all headers, and each error with the status that the script may read.
_PAGE: Final = """<!doctype html><title>A stranger</title><video muted playsinline></video>
<script>LIBRARY</script><script>
window.sent = new Set();
const set = XMLHttpRequest.prototype.setRequestHeader;
XMLHttpRequest.prototype.setRequestHeader = function (name, value) {
  window.sent.add(name);
  return set.call(this, name, value);
};
window.errors = [];
const video = document.querySelector("video");
const hls = new Hls({
  cmcd: { sessionId: "6e2fb550-c457-11e9-bb97-0800200c9a66", contentId: "one", useHeaders: true },
  xhrSetup: (request) => {
    request.setRequestHeader("Cache-Control", "no-cache");
    request.setRequestHeader("X-Playback-Session-Id", "one");
    request.setRequestHeader("X-Of-Their-Own", "one");
  },
});
hls.on(Hls.Events.ERROR, (_, { details, response }) =>
  window.errors.push(`${details} ${response?.code}`));
hls.on(Hls.Events.MANIFEST_PARSED, () => video.play());
hls.attachMedia(video);
window.load = () => hls.loadSource("PLAYLIST");
window.ask = async (address, headers) => {
  try {
    const answer = await fetch(address, { headers });
    return `${answer.status} ${(await answer.text()).length > 0}`;
  } catch (error) {
    return error.name;
  }
};
</script>"""
_SENT: Final = {
    *("CMCD-Object", "CMCD-Request", "CMCD-Session"),
    *("Cache-Control", "X-Playback-Session-Id", "X-Of-Their-Own"),
}

# Chromium's own player gives up where a playlist has no segments yet, and tries once only.
_BARE_VIDEO: Final = """<!doctype html><title>A video</title><video muted playsinline></video>
<script>
const video = document.querySelector("video");
const read = async (address) => (await fetch(address)).text();
let over = null, begun = 0;
video.addEventListener("error", () => (over = `${video.error.code} ${video.error.message}`));
video.addEventListener("ended", () => (over = "the end"));
window.begin = async (address) => {
  if (!video.src) {
    const [variant] = (await read(address)).match(/^[^#].*m3u8.*$/m) ?? [];
    if (!variant) return false;
    const listed = (await read(new URL(variant, address))).match(/#EXTINF/g) ?? [];
    if (listed.length < 4) return false;
    video.src = address;
    video.play();
  }
  begun = video.currentTime;
  return over !== null || begun > 0;
};
</script>"""


@pytest.fixture
def page(tmp_path: Path, shared_service: ServiceProcess, browser: Chromium) -> Generator[Viewer]:
    """A page of another origin with hls.js, which sends CMCD as headers."""
    library = copy_with_packages(tmp_path / "web") / "node_modules/hls.js/dist/hls.min.js"
    playlist = f"{shared_service.http}/live/{shared_service.hash}/index.m3u8"
    text = _PAGE.replace("PLAYLIST", playlist).replace("LIBRARY", library.read_text())
    with site({"/": text}) as stranger:
        viewer = browser.open(stranger + "/")
        yield viewer
        viewer.close()


def answers(page: Viewer, address: str, **headers: str) -> str:
    """Return what a script of the page learns: the status and whether it has a body."""
    script = "([address, headers]) => ask(address, headers)"
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return str(page.evaluate(script, [address, named]))


def test_hls_js_that_sends_cmcd_as_headers_plays_and_reads_errors(
    page: Viewer, shared_service: ServiceProcess, small_source: Path
) -> None:
    page.evaluate("() => load()")
    # It has not begun: the script reads the status, not a failure of the network.
    page.wait_for_page("() => errors.includes('manifestLoadError 404')", 15, "refused with 404")
    url = f"{shared_service.server}/{shared_service.key}"
    with publishing(ffmpeg(small_source, url, "-stream_loop", "-1")):
        page.wait_for_page(
            "async () => { if (video.currentTime < 2 && hls.levels.length === 0) load();"
            " await new Promise((done) => setTimeout(done, 500)); return video.currentTime > 2; }",
            40, "playing",
        )  # fmt: skip
    assert set(msgspec.convert(page.evaluate("() => [...sent]"), list[str])) >= _SENT
    errors = msgspec.convert(page.evaluate("() => errors"), list[str])
    errors = [each for each in errors if each != "aborted undefined"]  # by the next `load`
    assert [each for each in errors if each.endswith((" 0", " undefined"))] == []


def test_other_origins_read_what_is_public_with_any_header_and_nothing_else(
    page: Viewer, shared_service: ServiceProcess
) -> None:
    own = {"X_Of_Their_Own": "one", "Cache_Control": "no-cache", "Content_Type": "text/x-odd"}
    missing = "zzzzzzzzzzzz"
    for path in (
        f"/live/{missing}/index.m3u8",
        f"/videos/{missing}/index.m3u8",
        f"/live/{missing}/poster/default.jpg",
        "/live/nothing-such",
        f"/slates/s-{missing}/{missing}.jpg",
        f"/json/videos/{missing}.json",
        "/json/nothing-such",
        f"/oembed?url={shared_service.http}/watch/{missing}",
    ):
        assert answers(page, shared_service.http + path, **own) == "404 true", path
        assert answers(page, shared_service.http + path, Authorization="Bearer no") == "404 true", (
            path
        )
    watch = f"{shared_service.http}/oembed?url={shared_service.watch}"
    assert answers(page, watch, **own) == "200 true"
    # With the right token, too: pages of other origins get nothing from the API.
    for path in ("/api/streams/1", "/api/projects/1/uploads", "/app/", "/static/THIRD_PARTY.txt"):
        token = f"Bearer {shared_service.token}"
        assert answers(page, shared_service.http + path, Authorization=token) == "TypeError", path
        assert answers(page, shared_service.http + path) == "TypeError", path


def test_chromiums_own_player_plays_on_through_reloads_of_its_playlist(
    shared_service: ServiceProcess, small_source: Path, browser: Chromium
) -> None:
    """It reloads a playlist with a range as long as the text that it has."""
    stream = shared_service.another()
    playlist = f"{stream.http}/live/{stream.hash}/index.m3u8?latency=normal"
    url = f"{stream.server}/{stream.key}"
    with (
        site({"/": _BARE_VIDEO}) as stranger,
        publishing(ffmpeg(small_source, url, "-stream_loop", "-1")),
    ):
        page = browser.open(stranger + "/")
        page.wait_for_page(f"() => begin('{playlist}')", 40, "begun")
        page.wait_for_page(
            "() => over !== null || video.currentTime > begun + 10", 40, "played, or failed"
        )
        assert page.evaluate("() => over") is None
    stream.delete_stream()
