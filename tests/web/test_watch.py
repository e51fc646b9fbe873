"""The player's pages in a real Chromium, over real playlists that grow in real time."""

from collections.abc import Generator
from pathlib import Path

import msgspec
import pytest

from tests.support.browser import Chromium, Viewer
from tests.support.web.page_origin import PlaybackOrigin, encoding, serving, shown

# These tests wait in real time, like those of the whole service.
pytestmark = pytest.mark.e2e

SHARED = "Shared123456"

# The pages set no cookies and store nothing.
_KEPT = "() => [document.cookie, localStorage.length, sessionStorage.length]"
_TITLE = 'A quay at dawn "><script>window.broken = 1</script> & <b>more</b>'


@pytest.fixture(scope="module")
def live(origin: PlaybackOrigin) -> Generator[str]:
    """The name of a run that is live during the tests of this module."""
    with encoding(origin, "shared"):
        yield "shared"


def test_a_waiting_page_starts_plays_ends_and_starts_again_by_itself(
    origin: PlaybackOrigin, browser: Chromium
) -> None:
    hash_ = "Story1234567"
    origin.streams[hash_] = shown(hash_, "A story")
    viewer = browser.open(f"{origin.address}/watch/{hash_}")
    viewer.wait_for("waiting", 5)
    assert "has not begun" in viewer.text(".curtain")
    origin.runs[hash_] = "first"
    with encoding(origin, "first"):
        first = viewer.wait_until_playing(12)
        assert first.run == "first"
        assert first.heights == [180, 360]
        assert viewer.force(180).width == 320
        assert viewer.force(360).width == 640
        # On a busy machine it may stall once; it must recover by itself.
        playing = viewer.wait_until_playing(8)
        assert not [fault for fault in playing.faults if fault.endswith("fatal")]
    with encoding(origin, "second"):
        viewer.wait_for("ended", 20)
        assert "has ended" in viewer.text(".curtain")
        origin.runs[hash_] = "second"
        second = viewer.wait_until_playing(15)
        assert second.run == "second"
    assert not [fault for fault in second.faults if fault.endswith("fatal")]
    assert viewer.breaches() == []
    assert viewer.evaluate(_KEPT) == ["", 0, 0]
    viewer.close()


def test_an_outage_is_shown_and_playback_recovers(
    origin: PlaybackOrigin, browser: Chromium, live: str
) -> None:
    hash_ = "Outage123456"
    viewer = _playing(origin, browser, hash_, live)
    origin.down.add(hash_)
    before = viewer.wait_for("reconnecting", 25)
    assert "Connection lost" in viewer.text(".curtain")
    origin.down.discard(hash_)
    after = viewer.wait_until_playing(15)
    assert after.run == before.run
    assert after.position > before.position
    assert viewer.evaluate("() => document.querySelector('.curtain').offsetHeight") == 0
    viewer.close()


def test_an_unpublished_stream_is_gone_for_its_viewer(
    origin: PlaybackOrigin, browser: Chromium, live: str
) -> None:
    hash_ = "TakenBack123"
    viewer = _playing(origin, browser, hash_, live)
    origin.streams[hash_] = msgspec.structs.replace(origin.streams[hash_], hidden=True)
    viewer.wait_for("gone", 25)
    assert "no longer available" in viewer.text(".curtain")
    viewer.close()


def test_a_run_that_has_ended_before_is_not_played_as_live(
    origin: PlaybackOrigin, browser: Chromium
) -> None:
    hash_ = "TooLate12345"
    with encoding(origin, "over"):
        pass
    origin.streams[hash_] = shown(hash_)
    origin.runs[hash_] = "over"
    viewer = browser.open(f"{origin.address}/watch/{hash_}")
    sample = viewer.wait_for("ended", 10)
    assert sample.paused
    viewer.press("k")  # the viewer can still play its last seconds
    viewer.wait(lambda sample: not sample.paused and sample.frames > 5, 10, "played by hand")
    viewer.close()


def test_a_frame_on_another_site_plays(
    origin: PlaybackOrigin, browser: Chromium, live: str
) -> None:
    origin.streams[SHARED] = shown(SHARED, _TITLE)
    origin.runs[SHARED] = live
    origin.others["/elsewhere"] = (
        "<!doctype html><title>Elsewhere</title><p>before</p>"
        f'<script async src="{origin.address}/embed.js" data-stream="{SHARED}"></script>'
    )
    host = browser.open(f"{origin.elsewhere}/elsewhere")
    frame = host.framed()
    playing = frame.wait_until_playing(15)
    assert playing.run == live
    assert frame.evaluate("() => location.origin") == origin.address
    assert frame.evaluate("() => document.fullscreenEnabled") is True
    assert host.breaches() == frame.breaches() == []
    shape = host.evaluate(
        "() => { const box = document.querySelector('script + iframe').getBoundingClientRect();"
        " return Math.round(100 * box.width / box.height) / 100; }"
    )
    assert shape == 1.78
    host.close()


def test_a_watch_page_cannot_be_framed(
    origin: PlaybackOrigin, browser: Chromium, live: str
) -> None:
    origin.streams[SHARED] = shown(SHARED)
    origin.runs[SHARED] = live
    origin.others["/thief"] = f'<iframe src="{origin.address}/watch/{SHARED}"></iframe>'
    host = browser.open(f"{origin.elsewhere}/thief")
    host.wait_for_console("frame-ancestors", 10)
    host.close()


def test_playlists_from_another_host_play_under_the_pages_policy(
    origin: PlaybackOrigin, browser: Chromium, live: str, tmp_path: Path
) -> None:
    hash_ = "OtherHost123"
    origin.streams[hash_] = shown(hash_)
    origin.runs[hash_] = live
    front = PlaybackOrigin(tmp_path)
    front.streams[hash_] = shown(hash_)
    with serving(front, playback=origin.elsewhere):
        viewer = browser.open(f"{front.address}/watch/{hash_}")
        viewer.wait_until_playing(15)
        assert viewer.breaches() == []
        viewer.close()


def test_a_browser_without_media_source_plays_by_itself(
    origin: PlaybackOrigin, browser: Chromium, live: str
) -> None:
    hash_ = "Native123456"
    origin.streams[hash_] = shown(hash_)
    origin.runs[hash_] = live
    without = "delete window.MediaSource; delete window.ManagedMediaSource;"
    viewer = browser.open(f"{origin.address}/watch/{hash_}", before=without)
    # Chromium's own player stumbles over a very young playlist; the page starts it again.
    viewer.wait_until_playing(20)
    assert viewer.evaluate("() => window.headend.hls") is None
    viewer.close()


def test_markup_in_titles_and_descriptions_is_shown_as_text(
    origin: PlaybackOrigin, browser: Chromium
) -> None:
    hash_ = "Hostile12345"
    origin.streams[hash_] = shown(hash_, _TITLE, "one\n<img src=x onerror='window.broken = 2'>")
    viewer = browser.open(f"{origin.address}/watch/{hash_}")
    viewer.wait_for("waiting", 5)
    assert viewer.text("h1") == _TITLE
    assert viewer.text(".description").startswith("one\n<img src=x")
    assert viewer.evaluate("() => window.broken ?? null") is None
    assert viewer.evaluate("() => document.title") == _TITLE
    assert viewer.breaches() == []
    viewer.close()


def test_keys_and_buttons_do_what_they_say(
    origin: PlaybackOrigin, browser: Chromium, live: str
) -> None:
    viewer = _playing(origin, browser, "Keys12345678", live)
    viewer.press("k")
    viewer.wait(lambda sample: sample.paused and sample.state == "playing", 3, "paused by k")
    viewer.press("k")
    viewer.wait(lambda sample: not sample.paused, 3, "played by k")
    assert viewer.evaluate("() => window.headend.video.muted") is True
    viewer.click('[data-part="unmute"]')
    assert viewer.evaluate("() => window.headend.video.muted") is False
    viewer.press("m")
    assert viewer.evaluate("() => window.headend.video.muted") is True
    sample_before = viewer.wait(lambda sample: sample.position > 3, 15, "a few seconds in")
    viewer.press("ArrowLeft")
    viewer.wait(lambda sample: sample.position < sample_before.position - 1, 5, "gone back")
    viewer.press("l")
    viewer.wait(lambda sample: sample.position > sample_before.position - 1, 10, "live again")
    viewer.close()


def _playing(origin: PlaybackOrigin, browser: Chromium, hash_: str, run: str) -> Viewer:
    origin.streams[hash_] = shown(hash_)
    origin.runs[hash_] = run
    viewer = browser.open(f"{origin.address}/watch/{hash_}")
    viewer.wait_until_playing(15)
    return viewer
