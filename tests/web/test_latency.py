"""The player over a low-latency playlist whose parts come in real time, in a real Chromium."""

import pytest

from tests.support.browser import Chromium, Viewer
from tests.support.web.low_latency import PART, LowLatencyRun
from tests.support.web.page_origin import PlaybackOrigin, shown

pytestmark = pytest.mark.e2e

HASH = "LowLatency12"
HOLD_BACK = 3 * PART

_ON_COURSE = """() => {
  const { hls, video } = headend;
  const off = hls.latency - hls.targetLatency;
  return off > 0.5 ? video.playbackRate === 1.04 : off > -0.5 || video.playbackRate === 0.97;
}"""

# hls.js closes gaps of a tenth of a second by seeking: those are not counted as jumps.
_WATCH_JUMPS = """() => {
  window.jumps = [];
  let last = headend.video.currentTime;
  headend.video.addEventListener("timeupdate", () => { last = headend.video.currentTime; });
  headend.video.addEventListener("seeking", () => {
    const far = headend.video.currentTime - last;
    if (Math.abs(far) > 0.5) window.jumps.push(far);
  });
}"""
_KEEP = "() => { window.engine = headend.hls; }"
_FACTS = """() => ({
  target: headend.hls.targetLatency, rate: headend.video.playbackRate, jumps: window.jumps,
  same: window.engine === headend.hls,
})"""


@pytest.fixture(scope="module")
def low(origin: PlaybackOrigin, tmp_path_factory: pytest.TempPathFactory) -> LowLatencyRun:
    run = LowLatencyRun(tmp_path_factory.mktemp("low"), seconds=240)
    origin.streams[HASH] = shown(HASH, "A stream at low latency")
    origin.low[HASH] = run
    return run


def watching(origin: PlaybackOrigin, browser: Chromium, *, before: str = "") -> Viewer:
    viewer = browser.open(f"{origin.address}/watch/{HASH}", before=before)
    viewer.wait_until_playing(20)
    return viewer


def on_course(viewer: Viewer) -> None:
    """Wait until the player is at its target distance from the live edge, or approaches it.

    Catching up takes 25 s per second of distance, and a busy machine may begin many seconds behind.
    """
    viewer.wait(lambda _: viewer.evaluate(_ON_COURSE) is True, 30, "on course")


def test_it_plays_at_the_playlists_distance_and_through_a_failover_without_a_jump(
    origin: PlaybackOrigin, browser: Chromium, low: LowLatencyRun
) -> None:
    low.begin(age=20)
    viewer = watching(origin, browser)
    on_course(viewer)
    before = viewer.sample()
    assert before is not None
    viewer.evaluate(_WATCH_JUMPS)
    viewer.evaluate(_KEEP)
    assert before.latency is not None
    # Longer than what is buffered, however far behind a busy machine has begun.
    low.hold(before.latency + 2.5)
    viewer.wait(lambda sample: sample.stalls > before.stalls, 30, "a stall")
    viewer.wait(
        lambda sample: sample.position > before.position + 3 and sample.state == "playing",
        30,
        "going on",
    )
    facts = viewer.evaluate(_FACTS)
    assert isinstance(facts, dict)
    assert facts["target"] >= HOLD_BACK + 0.5
    assert (facts["jumps"], facts["same"]) == ([], True)
    rates = "() => headend.video.playbackRate"
    viewer.wait(lambda _: viewer.evaluate(rates) == 1.04, 30, "catching up")
    assert viewer.breaches() == []
    viewer.close()


def test_a_viewer_who_seeks_back_stays_there_until_they_return_to_the_edge(
    origin: PlaybackOrigin, browser: Chromium, low: LowLatencyRun
) -> None:
    low.begin(age=100)
    viewer = watching(origin, browser)
    viewer.evaluate("() => document.querySelector('[data-part=slider]').focus()")
    for _ in range(8):
        viewer.press("ArrowLeft")
    behind = viewer.wait(
        lambda sample: sample.latency is not None and sample.latency > 35, 15, "40 s back"
    )
    says = "() => document.querySelector('[data-part=slider]').ariaValueText"
    assert str(viewer.evaluate(says)).endswith(" behind live")
    viewer.wait(lambda sample: sample.position > behind.position + 2, 15, "playing there")
    assert viewer.evaluate("() => headend.video.playbackRate") == 1
    sample = viewer.sample()
    assert sample is not None
    assert sample.latency is not None
    assert sample.latency > 35
    viewer.press("End")
    viewer.wait(
        lambda sample: sample.latency is not None and sample.latency < 20, 15, "at the edge again"
    )
    on_course(viewer)
    viewer.close()


def test_a_chosen_normal_delay_is_applied_and_kept(
    origin: PlaybackOrigin, browser: Chromium, low: LowLatencyRun
) -> None:
    low.begin(age=60)
    viewer = watching(origin, browser)
    requested_normal = """() => performance.getEntriesByType("resource")
      .some(({ name }) => name.endsWith("/index.m3u8?latency=normal"))"""
    assert viewer.evaluate(requested_normal) is False
    viewer.evaluate("""() => {
      const menu = document.querySelector('[data-part="latency"]');
      menu.value = "normal";
      menu.dispatchEvent(new Event("change"));
    }""")
    viewer.wait(lambda _: viewer.evaluate(requested_normal) is True, 10, "another playlist")
    viewer.wait(
        lambda sample: sample.latency is not None and 6 < sample.latency < 14, 20, "further back"
    )
    viewer.reload()
    viewer.wait_until_playing(20)
    assert viewer.evaluate("() => headend.hls.config.lowLatencyMode") is False
    viewer.close()


def test_a_young_run_is_played_as_soon_as_it_is_as_long_as_the_distance(
    origin: PlaybackOrigin, browser: Chromium, low: LowLatencyRun
) -> None:
    low.begin(age=0)
    viewer = watching(origin, browser)
    on_course(viewer)
    assert viewer.evaluate("() => headend.hls.config.lowLatencyMode") is True
    viewer.close()
