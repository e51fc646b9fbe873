"""How far behind the live edge the watch page begins and plays, over the whole service."""

from collections.abc import Iterator
from typing import cast

import pytest

from tests.support.browser import Chromium, Viewer
from tests.support.e2e import clock_video
from tests.support.e2e.hls_reader import addresses, media, multivariant
from tests.support.e2e.publishers import publishing
from tests.support.e2e.service import ServiceProcess
from tests.support.waiting import poll

pytestmark = pytest.mark.e2e

# Seconds between the playlist, which says where to begin, and the first media. The player waits 8 s
# for an answer.
DELAY = 6.0
_SLOW = """(() => {
  const { open, send } = XMLHttpRequest.prototype;
  XMLHttpRequest.prototype.open = function (method, address, ...more) {
    this.waits = String(address).includes("/init-") ? MS : 0;
    return open.call(this, method, address, ...more);
  };
  XMLHttpRequest.prototype.send = function (body) {
    if (this.waits > 0) setTimeout(() => send.call(this, body), this.waits);
    else send.call(this, body);
  };
})();
""".replace("MS", str(round(DELAY * 1000)))
# hls.js closes gaps of a tenth of a second by seeking: those are not counted as jumps.
_JUMPS = """
window.jumps = [];
let last = null;
document.addEventListener("timeupdate", ({ target }) => {
  if (!target.seeking) last = target.currentTime;
}, true);
document.addEventListener("seeking", ({ target }) => {
  const far = last === null ? 0 : target.currentTime - last;
  if (Math.abs(far) > 0.5) window.jumps.push(far);
}, true);
"""
_OFF = "() => headend.hls.latency - headend.hls.targetLatency"
_NORMAL = """try { localStorage.setItem("headend.player", '{"latency": "normal"}') } catch {}\n"""
_HELD = """() => performance.getEntriesByType("resource")
  .filter(({ name }) => name.includes("?latency=normal&_HLS_msn=")).length"""


@pytest.fixture(scope="module")
def live(shared_service: ServiceProcess) -> Iterator[ServiceProcess]:
    """A stream that is live during the tests of this module, long enough to seek back."""
    stream = shared_service.another()
    encoder = clock_video.encoder(f"{stream.server}/{stream.key}")
    with publishing(encoder):
        poll(lambda: multivariant(stream.playlist), within=20, what="a playlist")

        def long_enough() -> bool:
            playlists = [media(address) for address in addresses(stream.playlist).values()]
            return all(len(playlist.segments) >= 5 for playlist in playlists)

        poll(long_enough, within=30, what="five segments")
        yield stream


def off(viewer: Viewer) -> float:
    """Return by how many seconds the player is further behind than its target."""
    seconds = viewer.evaluate(_OFF)
    assert isinstance(seconds, int | float)
    return float(seconds)


def test_a_player_that_gets_the_first_media_late_begins_at_the_right_place(
    live: ServiceProcess, browser: Chromium
) -> None:
    viewer = browser.open(live.watch, before=_SLOW + _JUMPS)
    viewer.wait_until_playing(20)
    # By 4 % more speed alone this would take a minute more.
    viewer.wait(lambda _: off(viewer) < DELAY / 2, 10, "at its place")
    there = viewer.wait_until_playing(10)
    jumps = viewer.evaluate("() => window.jumps")
    assert isinstance(jumps, list)
    assert len(cast("list[float]", jumps)) <= 1, "it goes there once"
    assert not [fault for fault in there.faults if fault.endswith("fatal")]
    assert viewer.breaches() == []
    viewer.close()


def test_at_normal_latency_the_next_segment_is_requested_before_it_exists(
    live: ServiceProcess, browser: Chromium
) -> None:
    viewer = browser.open(live.watch, before=_NORMAL)
    viewer.wait_until_playing(20)
    first = viewer.evaluate(_HELD)
    assert isinstance(first, int)
    viewer.wait(lambda _: int(str(viewer.evaluate(_HELD))) >= first + 6, 20, "held requests")
    assert viewer.evaluate("() => headend.hls.targetLatency") == 6
    assert viewer.evaluate("() => headend.hls.config.lowLatencyMode") is True
    sample = viewer.sample()
    assert sample is not None
    # If it begins within 0.25 s of a segment's end, hls.js may load the sound from the next segment
    # on, and skips that hole before the first picture.
    assert [fault for fault in sample.faults if "bufferSeekOverHole" not in fault] == []
    viewer.close()
