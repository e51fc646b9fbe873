"""The player's controls in a real Chromium: by keyboard, by pointer, for everybody."""

from collections.abc import Generator
from pathlib import Path

import msgspec
import pytest

from tests.support.browser import Chromium, Viewer
from tests.support.web.page_origin import PlaybackOrigin, encode, encoding, shown, video

# These tests wait in real time, like those of the whole service.
pytestmark = pytest.mark.e2e

FILM = "Film12345678"
STREAM = "Stream123456"
WAITING = "Waiting12345"
SECONDS = 20

_RULES = """async () => (await axe.run({ resultTypes: ["violations"] })).violations
  .map(({ id, impact, nodes }) => `${impact} ${id}: ${nodes.map(({ html }) => html).join(" ")}`)"""
_PART = "() => document.activeElement.dataset.part ?? null"
_SHOWN = """() => [...document.querySelectorAll("headend-player :is(button, input, select)")]
  .filter((each) => each.checkVisibility({ visibilityProperty: true }))
  .map((each) => each.dataset.part)"""
# The visible controls that are outside of the player, or too small for a finger.
_CRAMPED = """() => {
  const player = document.querySelector("headend-player").getBoundingClientRect();
  return [...document.querySelectorAll("headend-player :is(button, input, select)")]
    .filter((each) => each.checkVisibility({ visibilityProperty: true }))
    .filter((each) => {
      const { left, right, top, bottom, width, height } = each.getBoundingClientRect();
      return left < player.left || right > player.right + 0.5 || top < player.top
        || bottom > player.bottom + 0.5 || width < 24 || height < 24;
    })
    .map((each) => each.dataset.part);
}"""
_WIDE = "() => document.documentElement.scrollWidth > document.documentElement.clientWidth"
_START = """() => {
  const start = document.querySelector('[data-part="start"]');
  return start.hidden ? null : start.getAttribute("aria-label");
}"""
_STATUS = """() => document.querySelector('[data-part="status"]').textContent"""
_SOUND = "() => [headend.video.volume, headend.video.muted]"
_EDGE = """() => document.querySelector('[data-part="live"]').dataset.edge"""


@pytest.fixture(scope="module")
def film(origin: PlaybackOrigin) -> str:
    """The address of a video of 20 s."""
    encode(origin, "film", SECONDS)
    origin.streams[FILM] = video(FILM, "A film")
    origin.runs[FILM] = "film"
    return f"{origin.address}/watch/{FILM}"


@pytest.fixture(scope="module")
def stream(origin: PlaybackOrigin) -> Generator[str]:
    """The address of a stream that is live during the tests of this module."""
    with encoding(origin, "controls"):
        origin.streams[STREAM] = shown(STREAM, "A stream")
        origin.runs[STREAM] = "controls"
        yield f"{origin.address}/watch/{STREAM}"


@pytest.fixture(scope="module")
def rules(workshop: Path) -> str:
    """Return the source of axe."""
    return (workshop / "node_modules" / "axe-core" / "axe.min.js").read_text()


def ready(browser: Chromium, address: str) -> Viewer:
    """Open a video and wait for its first picture."""
    viewer = browser.open(address)
    viewer.wait(lambda sample: sample.state == "playing" and sample.width > 0, 15, "ready")
    return viewer


def must_be_at(viewer: Viewer, position: float, what: str, within: float = 0.02) -> None:
    viewer.wait(lambda sample: abs(sample.position - position) < within, 10, what)


def test_each_key_does_what_it_does_on_youtube(browser: Chromium, film: str) -> None:
    viewer = ready(browser, film)
    assert viewer.evaluate("() => document.activeElement === document.body") is True
    for key, position in [
        ("l", 10), ("j", 0), ("ArrowRight", 5), ("ArrowLeft", 0), ("5", SECONDS / 2), ("Home", 0),
        (".", 1 / 30), (",", 0),
    ]:  # fmt: skip
        viewer.press(key)
        must_be_at(viewer, position, f"at {position} by {key}")
    for key, speed in [(">", 1.25), (">", 1.5), ("<", 1.25), ("<", 1), ("<", 0.75), (">", 1)]:
        viewer.press(key)
        assert viewer.evaluate("() => headend.video.playbackRate") == speed, key
    for key, sound in [
        ("ArrowDown", [0.9, False]), ("ArrowDown", [0.8, False]), ("ArrowUp", [0.9, False]),
        ("m", [0.9, True]), ("m", [0.9, False]),
    ]:  # fmt: skip
        viewer.press(key)
        assert viewer.evaluate(_SOUND) == sound, key
    viewer.press("Space")
    viewer.wait_until_playing(10)
    viewer.press("k")
    viewer.wait(lambda sample: sample.paused, 5, "paused by k")
    viewer.press("f")
    whole = "() => document.fullscreenElement?.localName ?? null"
    viewer.wait(lambda _: viewer.evaluate(whole) == "headend-player", 5, "full screen by f")
    viewer.press("f")
    viewer.wait(lambda _: viewer.evaluate(whole) is None, 5, "a window by f")
    viewer.press("End")
    viewer.wait(lambda _: viewer.evaluate("() => headend.video.ended") is True, 10, "over")
    label = "() => document.querySelector('[data-part=play]').getAttribute('aria-label')"
    viewer.wait(lambda _: viewer.evaluate(label) == "Play again", 5, "offered again")
    viewer.press("k")
    viewer.wait(lambda sample: 0 < sample.position < 10, 10, "played from the beginning")
    assert viewer.breaches() == []
    viewer.close()


# hls.js checks the buffer at each "playing": here while it removes the pictures of the old rung.
_CHOOSE_RIGHT_AFTER_A_SEEK = """(height) => new Promise((done) => {
  const { video, hls } = headend;
  window.ends = [];
  hls.on("hlsBufferedToEnd", () => window.ends.push(video.buffered.length));
  video.addEventListener("seeking", () => {
    const menu = document.querySelector('[data-part="quality"]');
    menu.value = String(hls.levels.findIndex((level) => level.height === height));
    menu.dispatchEvent(new Event("change", { bubbles: true }));
    video.dispatchEvent(new Event("playing"));
    done();
  }, { once: true });
  video.currentTime = 0;
})"""


@pytest.mark.parametrize(
    "paused", [False, pytest.param(True, marks=pytest.mark.prove)], ids=["playing", "paused"]
)
def test_a_quality_chosen_right_after_a_seek_is_shown_in_a_completely_loaded_film(
    browser: Chromium, film: str, paused: bool
) -> None:
    """Otherwise the stream would end without pictures, and the browser would show none."""
    viewer = ready(browser, film)
    if not paused:
        viewer.press("k")
        viewer.wait_until_playing(10)
    whole = "() => headend.hls.bufferedToEnd"
    viewer.wait(lambda _: viewer.evaluate(whole) is True, 20, "loaded whole")
    now = viewer.sample()
    assert now is not None
    other = 180 if now.height == 360 else 360
    viewer.evaluate(_CHOOSE_RIGHT_AFTER_A_SEEK, other)
    viewer.wait(lambda sample: sample.height == other, 10, f"{other} lines high")
    assert 0 in msgspec.convert(viewer.evaluate("() => window.ends"), list[int]), "ended too early"
    if not paused:
        viewer.wait_until_playing(10, span=2)
    viewer.close()


def test_tab_reaches_every_control_and_the_menu_opens_and_closes(
    browser: Chromium, film: str
) -> None:
    viewer = ready(browser, film)
    expected = viewer.evaluate(_SHOWN)
    assert {"start", "slider", "play", "mute", "volume", "gear", "full"} <= set(
        msgspec.convert(expected, list[str])
    )
    reached: list[object] = []
    for _ in msgspec.convert(expected, list[str]):
        viewer.press("Tab")
        reached.append(viewer.evaluate(_PART))
    assert reached == expected
    viewer.evaluate("() => document.querySelector('[data-part=gear]').focus()")
    viewer.press("Enter")
    assert viewer.evaluate(_PART) == "quality"
    viewer.press("Tab")
    assert viewer.evaluate(_PART) == "speed"
    viewer.press("Escape")
    assert viewer.evaluate(_PART) == "gear"
    assert viewer.evaluate("() => document.querySelector('[data-part=menu]').hidden") is True
    # The arrow keys move the slider, which announces its position.
    viewer.evaluate("() => document.querySelector('[data-part=slider]').focus()")
    viewer.press("ArrowRight")
    must_be_at(viewer, 5, "five seconds on")
    says = "() => document.querySelector('[data-part=slider]').ariaValueText"
    assert viewer.evaluate(says) == f"0:05 of 0:{SECONDS}"
    viewer.press("End")
    must_be_at(viewer, SECONDS, "at the end", within=0.2)
    viewer.close()


def test_a_viewers_choices_are_kept_until_the_next_visit(browser: Chromium, film: str) -> None:
    viewer = ready(browser, film)
    assert viewer.evaluate("() => localStorage.length") == 0
    viewer.press("ArrowDown")
    viewer.press("m")
    viewer.press(">")
    viewer.reload()
    viewer.wait(lambda sample: sample.width > 0, 15, "ready again")
    assert viewer.evaluate(_SOUND) == [0.9, True]
    assert viewer.evaluate("() => headend.video.playbackRate") == 1.25
    viewer.close()


def test_a_browser_without_storage_plays(browser: Chromium, film: str) -> None:
    closed = """Object.defineProperty(window, "localStorage", {
      get() { throw new DOMException("closed", "SecurityError"); },
    });"""
    viewer = browser.open(film, before=closed)
    viewer.wait(lambda sample: sample.width > 0, 15, "ready")
    viewer.press("ArrowDown")
    assert viewer.evaluate(_SOUND) == [0.9, False]
    assert [line for line in viewer.console if "Failed to load resource" not in line] == []
    viewer.close()


def test_the_live_button_is_red_at_the_edge_and_leads_back_to_it(
    browser: Chromium, stream: str
) -> None:
    viewer = browser.open(stream)
    viewer.wait_until_playing(20)
    viewer.wait(lambda _: viewer.evaluate(_EDGE) == "true", 10, "at the edge")
    viewer.wait(lambda sample: sample.position > 5, 20, "something to go back to")
    viewer.press("ArrowLeft")
    viewer.wait(lambda _: viewer.evaluate(_EDGE) == "false", 5, "behind")
    viewer.press("k")
    viewer.wait(lambda sample: sample.paused, 5, "paused")
    viewer.click('[data-part="live"]')
    viewer.wait(
        lambda sample: viewer.evaluate(_EDGE) == "true" and not sample.paused, 5, "live again"
    )
    # A window of 30 s is no time line, and a live stream has one speed.
    assert {"slider", "speed"} & set(msgspec.convert(viewer.evaluate(_SHOWN), list[str])) == set()
    title = "() => navigator.mediaSession.metadata.title"
    assert viewer.evaluate(title) == "A stream"
    viewer.close()


@pytest.mark.parametrize(
    "light", [False, pytest.param(True, marks=pytest.mark.prove)], ids=["dark", "light"]
)
def test_no_rule_of_accessibility_is_broken(
    origin: PlaybackOrigin, browser: Chromium, stream: str, film: str, rules: str, light: bool
) -> None:
    origin.streams[WAITING] = shown(WAITING, "Soon", "About it")
    for address in (f"{origin.address}/embed/{WAITING}", film, stream):
        viewer = browser.open(address, light=light)
        if WAITING not in address:
            viewer.wait(lambda sample: sample.width > 0, 20, "a picture")
            viewer.click('[data-part="gear"]')
        else:
            viewer.wait_for("waiting", 10)
        viewer.load_script(rules)
        assert viewer.evaluate(_RULES) == []
        viewer.close()


def test_it_fits_320_pixels_and_moves_nothing_for_those_who_want_no_motion(
    browser: Chromium, origin: PlaybackOrigin, film: str, stream: str
) -> None:
    for address in (film, stream):
        viewer = browser.open(address, width=320, height=568, still=True)
        viewer.wait(lambda sample: sample.width > 0, 20, "a picture")
        assert viewer.evaluate(_WIDE) is False
        assert viewer.evaluate(_CRAMPED) == []
        viewer.click('[data-part="gear"]')
        assert viewer.evaluate(_CRAMPED) == []
        viewer.close()
    origin.streams[WAITING] = shown(WAITING)
    viewer = browser.open(f"{origin.address}/watch/{WAITING}", still=True)
    viewer.wait_for("waiting", 10)
    moving = "() => document.getAnimations().length"
    assert viewer.evaluate(moving) == 0
    viewer.close()


# Nothing answers, or only the first request for the playlist does.
_SILENT = "window.fetch = () => new Promise(() => {});"
_NO_MEDIA = "XMLHttpRequest.prototype.send = () => {};"

# The tests of the watch page cover their states and words: only their layout is checked here.
_COVERED = pytest.mark.prove


@pytest.mark.parametrize(
    ("screen", "state", "words"),
    [
        ("Starting", "starting", "Looking for the stream"),
        pytest.param("Waiting", "waiting", "has not begun", marks=_COVERED),
        ("Failed", "waiting", "could not be prepared"),
        pytest.param("Reconnecting", "reconnecting", "Connection lost", marks=_COVERED),
        pytest.param("Ended", "ended", "has ended", marks=_COVERED),
        pytest.param("Gone", "gone", "no longer available", marks=_COVERED),
        ("Blocked", "blocked", "Not available in your country"),
        ("Paused", "playing", ""),
    ],
)
def test_each_screen_states_the_problem_and_fits_320_pixels(
    origin: PlaybackOrigin,
    browser: Chromium,
    film: str,
    rules: str,
    screen: str,
    state: str,
    words: str,
) -> None:
    hash_ = f"Screen{screen}"
    record = shown(hash_)
    origin.streams[hash_] = record
    if screen == "Failed":
        origin.streams[hash_] = msgspec.structs.replace(video(hash_), failed=True)
    if screen in {"Reconnecting", "Ended"}:
        origin.runs[hash_] = "film"
    address = film if screen == "Paused" else f"{origin.address}/watch/{hash_}"
    before = {"Starting": _SILENT, "Reconnecting": _NO_MEDIA}.get(screen, "")
    viewer = browser.open(address, width=320, height=568, before=before, still=True)
    if screen in {"Gone", "Blocked"}:
        viewer.wait_for("waiting", 10)
        hidden, countries = screen == "Gone", frozenset({"RO"} if screen == "Blocked" else ())
        origin.streams[hash_] = msgspec.structs.replace(record, hidden=hidden, countries=countries)
    viewer.wait(lambda sample: sample.state == state, 20, state)
    if screen in {"Ended", "Paused"}:
        viewer.wait(lambda sample: sample.width > 0 and sample.paused, 20, "a picture")
        assert viewer.evaluate(_START) in {"Play", "Play again"}
    if words:
        assert words in viewer.text(".curtain")
        assert words in str(viewer.evaluate(_STATUS))
    assert viewer.evaluate(_WIDE) is False
    assert viewer.evaluate(_CRAMPED) == []
    assert viewer.evaluate("() => document.getAnimations().length") == 0
    viewer.load_script(rules)
    assert viewer.evaluate(_RULES) == []
    viewer.close()


@pytest.mark.parametrize("screen", ["Missing", "Abroad"])
def test_pages_without_a_player_break_no_rule(
    origin: PlaybackOrigin, browser: Chromium, rules: str, screen: str
) -> None:
    hash_ = f"Screen{screen}"
    if screen == "Abroad":
        record = msgspec.structs.replace(shown(hash_), countries=frozenset({"RO"}))
        origin.streams[hash_] = record
    viewer = browser.open(f"{origin.address}/watch/{hash_}", width=320, height=568)
    assert viewer.evaluate("() => window.headend === undefined") is True
    assert viewer.evaluate(_WIDE) is False
    viewer.load_script(rules)
    assert viewer.evaluate(_RULES) == []
    viewer.close()


_PARENT = """<!doctype html><title>A parent</title><iframe src="FRAME" width=640 height=360
  allow="autoplay; fullscreen"></iframe><script>CLIENT</script><script>
window.heard = [];
const player = new playerjs.Player(document.querySelector("iframe"));
player.on("ready", () => {
  window.heard.push("ready");
  for (const name of ["play", "pause", "ended", "seeked"]) {
    player.on(name, () => window.heard.push(name));
  }
  player.on("timeupdate", (value) => { window.last = value; });
});
const get = (name) => new Promise((done) => player[name](done));
</script>"""


def test_a_parent_page_controls_the_frame_by_player_js(
    origin: PlaybackOrigin, browser: Chromium, film: str, packages: Path
) -> None:
    client = (packages / "node_modules/player.js/dist/player-0.1.0.js").read_text()
    page = _PARENT.replace("FRAME", film.replace("/watch/", "/embed/")).replace("CLIENT", client)
    origin.others["/parent"] = page
    host = browser.open(f"{origin.elsewhere}/parent")
    frame = host.framed()
    frame.wait(lambda sample: sample.width > 0, 20, "ready")
    frame.wait(lambda _: host.evaluate("() => window.heard") == ["ready"], 10, "said ready")
    assert host.evaluate("() => get('getDuration')") == pytest.approx(SECONDS, abs=0.2)
    assert host.evaluate("() => get('getPaused')") is True
    host.evaluate("() => { player.mute(); player.setVolume(40); player.setCurrentTime(7); }")
    frame.wait(lambda sample: sample.position == 7, 10, "at 7 s")
    assert host.evaluate("() => Promise.all([get('getVolume'), get('getMuted')])") == [40, True]
    host.evaluate("() => player.play()")
    frame.wait(lambda sample: sample.position > 7.5, 15, "playing")
    host.evaluate("() => player.pause()")
    frame.wait(lambda sample: sample.paused, 5, "paused")
    events = ["ready", "seeked", "play", "pause"]
    frame.wait(lambda _: host.evaluate("() => window.heard") == events, 5, "all told")
    last = msgspec.convert(host.evaluate("() => window.last"), dict[str, float])
    assert last["seconds"] > 7
    assert last["duration"] == pytest.approx(SECONDS, abs=0.2)
    assert frame.breaches() == []
    host.close()
