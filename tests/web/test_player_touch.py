"""The player under a finger: a tap in the middle of a control reaches that control, at any size."""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Final

import msgspec
import pytest

from tests.support.browser import Chromium, Viewer
from tests.support.web.page_origin import PlaybackOrigin, encode, encoding, shown, video

# These tests wait in real time, like those of the whole service.
pytestmark = pytest.mark.e2e

FILM = "TouchFilm123"
STREAM = "TouchLive123"
ENDED = "TouchEnded12"
SECONDS = 20

Size = tuple[int, int]
# Phones in the hand, and phones on their side.
PHONES: Final[Sequence[Size]] = (
    (320, 568), (340, 700), (360, 640), (375, 667), (390, 844), (405, 720), (412, 915), (430, 932),
    (568, 320), (667, 375), (844, 390),
)  # fmt: skip
STRIP: Final[Size] = (320, 50)
# Where every control is tapped with each change, and not only looked at: the smallest, and one in
# which a frame has room for all. `make prove` taps at every size.
TAPPED: Final[Sequence[Size]] = ((320, 568), (160, 90), (405, 228), STRIP)
FRAMES: Final[Sequence[Size]] = (
    (160, 90), (200, 112), (240, 135), (270, 152), (288, 162), (300, 169), (320, 180), (384, 216),
    (360, 203), (390, 219), (405, 228), (412, 232), (430, 242), (544, 306), (640, 360), STRIP,
)  # fmt: skip
TIMES: Final = ("0:00 /\u00a00:20", "10:02:03 /\u00a011:30:00", "-10:02:03")

_LIBRARY: Final = """
window.controls = () => [...document.querySelectorAll("headend-player :is(button, input, select)")]
  .filter((each) => each.checkVisibility({ visibilityProperty: true }));
window.wake = () => document.querySelector("headend-player").dispatchEvent(
  new PointerEvent("pointermove"));
// What a finger on the middle of a control would not reach, or reach by mistake.
window.flaws = (offered) => {
  const flaws = [];
  wake();
  if (document.documentElement.scrollWidth > innerWidth) flaws.push("the page scrolls sideways");
  const player = document.querySelector("headend-player").getBoundingClientRect();
  const boxes = offered.map((each) => [each.dataset.part, each.getBoundingClientRect(), each]);
  // An open menu lies over the rest: a tap there closes it.
  const open = document.querySelector(".menu:not([hidden])");
  for (const [name, box, each] of boxes) {
    const { left, right, top, bottom, width, height } = box;
    if (left < player.left || right > player.right + 0.5 || top < player.top
        || bottom > player.bottom + 0.5) flaws.push(`${name} is outside`);
    if (width < 24 || height < 24) flaws.push(`${name} is ${width} x ${height}`);
    const hit = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
    const is = hit?.dataset.part ?? hit?.className;
    if (!each.contains(hit) && !open?.contains(hit)) flaws.push(`${name} is below ${is}`);
  }
  for (const [name, one, first] of boxes) for (const [other, two, second] of boxes) {
    if (name >= other || first.closest(".menu") !== second.closest(".menu")) continue;
    const across = Math.min(one.right, two.right) - Math.max(one.left, two.left);
    const down = Math.min(one.bottom, two.bottom) - Math.max(one.top, two.top);
    if (across > 0.5 && down > 0.5) flaws.push(`${name} overlaps ${other}`);
  }
  return flaws;
};
"""
_FLAWS: Final = "() => flaws(controls())"
_CONTROLS: Final = "() => controls().map((each) => each.dataset.part)"
_MENU_FLAWS: Final = """() => {
  const [menu, player] = [".menu", "headend-player"].map((each) =>
    document.querySelector(each).getBoundingClientRect());
  const { scrollWidth, clientWidth } = document.querySelector(".menu");
  const inside = menu.left >= player.left && menu.right <= player.right && menu.top >= player.top
    && menu.bottom <= player.bottom && menu.height >= 40 && scrollWidth <= clientWidth;
  return inside ? [] : [innerWidth, innerHeight, menu, scrollWidth, clientWidth];
}"""
# Where the message lies, if it is shown: apart from each control, or on which.
_WORDS: Final = """() => {
  const message = document.querySelector('[data-part="message"]');
  if (!message.checkVisibility()) return [];
  const range = new Range();
  range.selectNodeContents(message);
  const text = range.getBoundingClientRect();
  const player = document.querySelector("headend-player").getBoundingClientRect();
  const on = controls().filter((each) => {
    const box = each.getBoundingClientRect();
    return Math.min(box.right, text.right) > Math.max(box.left, text.left)
      && Math.min(box.bottom, text.bottom) > Math.max(box.top, text.top);
  }).map((each) => each.dataset.part);
  if (text.top < player.top || text.right > player.right) on.push("outside");
  return on.length > 0 ? on : ["apart"];
}"""
# Each control that a browser, a stream or a video may bring, at once.
_FLAWS_OF_ALL: Final = """(times) => {
  const bar = [...document.querySelectorAll(".buttons *, .slider")];
  // No browser has both kinds of other screens, and a film has no live edge.
  const never = ["airplay", document.querySelector(".live").hidden ? "live" : ""];
  const hidden = bar.filter((each) => each.hidden && !never.includes(each.dataset.part));
  for (const each of hidden) each.hidden = false;
  const clock = document.querySelector(".clock");
  const said = clock.textContent;
  clock.textContent = times;
  const found = flaws(controls());
  const { scrollWidth, clientWidth } = document.querySelector(".bar");
  if (scrollWidth > clientWidth) found.push("the bar is too wide");
  clock.textContent = said;
  for (const each of hidden) each.hidden = true;
  return found;
}"""


@pytest.fixture(scope="module")
def film(origin: PlaybackOrigin) -> str:
    """The path of a video of 20 s, below `/watch/` or `/embed/`."""
    encode(origin, "touch-film", SECONDS)
    origin.streams[FILM] = video(FILM, "A film")
    origin.runs[FILM] = "touch-film"
    return FILM


@pytest.fixture(scope="module")
def stream(origin: PlaybackOrigin) -> Generator[str]:
    """The hash of a stream that is live during the tests of this module."""
    with encoding(origin, "touch-live"):
        origin.streams[STREAM] = shown(STREAM, "A stream")
        origin.runs[STREAM] = "touch-live"
        yield STREAM


class Screen:
    """The player on a page of its own, or in a frame of another site."""

    def __init__(self, host: Viewer, player: Viewer) -> None:
        self.host = host
        self.player = player

    @classmethod
    def of(cls, origin: PlaybackOrigin, browser: Chromium, page: str, hash_: str) -> "Screen":
        """Open the watch page, or a page of another site with the embedded player."""
        if page == "watch":
            viewer = browser.open(f"{origin.address}/watch/{hash_}", before=_LIBRARY, touch=True)
            return cls(viewer, viewer)
        origin.others[f"/framing-{hash_}"] = (
            "<!doctype html><meta name=viewport content='width=device-width'>"
            f'<iframe src="{origin.address}/embed/{hash_}" style="border: 0"'
            ' allow="autoplay; fullscreen"></iframe>'
        )
        address = f"{origin.elsewhere}/framing-{hash_}"
        host = browser.open(address, before=_LIBRARY, touch=True)
        return cls(host, host.framed())

    def resize(self, size: Size) -> None:
        """Give the page, or the frame, another size."""
        if self.host is self.player:
            self.host.resize(*size)
        else:
            self.host.evaluate(
                "([width, height]) => Object.assign("
                "document.querySelector('iframe'), { width, height })",
                list(size),
            )
        script = "([width, height]) => innerWidth === width && innerHeight === height"
        self.player.wait(
            lambda _: self.player.evaluate(script, list(size)) is True, 10, f"{size} large"
        )

    def holds(self, script: str, what: str) -> None:
        """Poll until an expression in the page of the player is true."""
        self.player.wait(lambda _: self.player.evaluate(f"() => {script}") is True, 10, what)

    def wakes(self) -> None:
        """Bring the controls, as a movement does."""
        self.holds(
            "wake() && getComputedStyle(document.querySelector('.bar')).opacity === '1'", "awake"
        )

    def controls(self) -> list[str]:
        """Return the parts of all visible controls."""
        return msgspec.convert(self.player.evaluate(_CONTROLS), list[str])

    def tap(self, part: str) -> None:
        """Tap the middle of a control, which must be there and not below something else."""
        self.wakes()
        assert self.player.evaluate(_FLAWS) == [], part
        self.player.tap(f'[data-part="{part}"]')


# What each control does: how things are made before its tap, and what holds after it.
_EFFECTS: Final[Mapping[str, tuple[str, str]]] = {
    "start": ("headend.video.pause()", "!headend.video.paused"),
    "play": ("headend.video.play()", "headend.video.paused"),
    "mute": ("headend.video.muted = false", "headend.video.muted"),
    "unmute": ("headend.video.muted = true, headend.video.play()", "!headend.video.muted"),
    "volume": ("headend.video.volume = 1", "Math.abs(headend.video.volume - 0.5) < 0.1"),
    "slider": (
        "headend.video.pause(), headend.video.currentTime = 0",
        f"Math.abs(headend.video.currentTime - {SECONDS / 2}) < 1",
    ),
    "live": ("headend.video.pause()", "!headend.video.paused"),
    "gear": ("0", "!document.querySelector('.menu').hidden"),
    "pip": ("0", "document.pictureInPictureElement === headend.video"),
    "full": ("0", "document.fullscreenElement?.localName === 'headend-player'"),
}


def must_obey(screen: Screen, part: str, size: Size) -> None:
    """Tap one control and see its effect; then undo it."""
    assert part in _EFFECTS, f"what does a tap on {part} do?"
    before, after = _EFFECTS[part]
    screen.player.evaluate(f"async () => {{ await ({before}); }}")
    screen.player.wait(lambda _: part in screen.controls(), 10, f"{part} shown")
    screen.tap(part)
    screen.holds(after, f"obeyed after a tap on {part} at {size}")
    if part == "full":
        screen.player.evaluate("() => document.exitFullscreen()")
        screen.holds("document.fullscreenElement === null", "a window again")
        screen.resize(size)  # its old size comes back later
    if part == "pip":
        screen.player.evaluate("() => document.exitPictureInPicture()")
    if part == "gear":
        must_open_each_menu(screen)
        screen.player.tap('[data-part="gear"]')
        screen.holds("document.querySelector('.menu').hidden", "closed again")


def must_open_each_menu(screen: Screen) -> None:
    """Check that the menu is inside of the player, and that a finger gets each of its items."""
    assert screen.player.evaluate(_MENU_FLAWS) == []
    for part in set(screen.controls()) & {"quality", "speed", "subtitles", "audio", "latency"}:
        selector = f'[data-part="{part}"]'
        screen.player.evaluate(
            "(selector) => { document.activeElement.blur();"
            " document.querySelector(selector).scrollIntoView({ block: 'nearest' }); }",
            selector,
        )
        screen.player.tap(selector)
        screen.holds(f"document.activeElement?.dataset.part === '{part}'", f"{part} chosen")


@pytest.fixture(params=["some sizes", pytest.param("all sizes", marks=pytest.mark.prove)])
def is_tapped(request: pytest.FixtureRequest) -> Callable[[Size], bool]:
    """Return whether every control is tapped at a size."""
    return (lambda _: True) if request.param == "all sizes" else TAPPED.__contains__


@pytest.mark.parametrize("page", ["watch", "embed"])
def test_a_finger_reaches_every_control_of_a_film(
    origin: PlaybackOrigin,
    browser: Chromium,
    film: str,
    page: str,
    is_tapped: Callable[[Size], bool],
) -> None:
    screen = Screen.of(origin, browser, page, film)
    screen.player.wait(lambda sample: sample.width > 0, 20, "a picture")
    flaws: dict[Size, object] = {}
    sizes = PHONES if page == "watch" else FRAMES
    for size in sizes:
        screen.resize(size)
        screen.player.evaluate("() => headend.video.pause()")
        screen.holds("document.querySelector('.start').hidden === false", "offered to start")
        if found := screen.player.evaluate(_FLAWS):
            flaws[size] = found
    assert flaws == {}
    for size in filter(is_tapped, sizes):
        screen.resize(size)
        for part in screen.controls():
            must_obey(screen, part, size)
        screen.player.evaluate("() => headend.video.pause()")
    assert screen.player.breaches() == []
    screen.host.close()


def test_a_finger_reaches_every_control_of_a_live_stream(
    origin: PlaybackOrigin, browser: Chromium, stream: str, is_tapped: Callable[[Size], bool]
) -> None:
    for page, sizes in (("watch", PHONES), ("embed", FRAMES)):
        screen = Screen.of(origin, browser, page, stream)
        screen.player.wait_until_playing(20)
        reached: set[str] = set()
        for size in filter(is_tapped, sizes):
            screen.resize(size)
            screen.player.evaluate("async () => { headend.video.muted = true; }")
            over = () if size == STRIP else ("unmute", "start")
            for part in (*over, *(each for each in screen.controls() if each not in over)):
                must_obey(screen, part, size)
                reached.add(part)
        assert {"unmute", "start", "play", "mute", "live", "gear", "full"} <= reached
        screen.host.close()


def test_all_controls_that_there_may_be_have_room_beside_each_other(
    origin: PlaybackOrigin, browser: Chromium, film: str, stream: str
) -> None:
    """Such as subtitles, another screen to play on, and a live stream of hours."""
    flaws: dict[object, object] = {}
    for page, sizes in (("watch", PHONES), ("embed", FRAMES)):
        for hash_ in (film, stream):
            screen = Screen.of(origin, browser, page, hash_)
            screen.player.wait(lambda sample: sample.width > 0, 20, "a picture")
            for size in sizes:
                screen.resize(size)
                for times in TIMES:
                    if found := screen.player.evaluate(_FLAWS_OF_ALL, times):
                        flaws[page, hash_, size, times] = found
            screen.host.close()
    assert flaws == {}


def test_the_end_of_a_stream_is_told_beside_the_controls_not_below_them(
    origin: PlaybackOrigin, browser: Chromium, film: str
) -> None:
    origin.streams[ENDED] = shown(ENDED)
    origin.runs[ENDED] = origin.runs[film]
    for page, sizes in (("watch", PHONES), ("embed", FRAMES)):
        screen = Screen.of(origin, browser, page, ENDED)
        screen.player.wait(
            lambda sample: sample.state == "ended" and sample.width > 0, 20, "the end"
        )
        told: list[Size] = []
        for size in sizes:
            screen.resize(size)
            assert screen.player.evaluate(_FLAWS) == [], size
            words = msgspec.convert(screen.player.evaluate(_WORDS), list[str])
            assert words in (["apart"], []), size
            if words:
                told.append(size)
        assert {size for size in sizes if size[0] >= 300 and size[1] > 100} <= set(told)
        screen.host.close()


def test_a_finger_that_brings_the_controls_uses_none(
    origin: PlaybackOrigin, browser: Chromium, film: str
) -> None:
    """They leave the picture also after one of them was used, which has the focus then."""
    screen = Screen.of(origin, browser, "watch", film)
    screen.host.resize(390, 700)
    screen.player.wait(lambda sample: sample.width > 0, 20, "a picture")
    screen.player.wait(lambda _: "start" in screen.controls(), 10, "offered to start")
    screen.tap("start")
    screen.player.wait_until_playing(10)
    hidden = "getComputedStyle(document.querySelector('.bar')).opacity === '0'"
    for part in ("mute", "slider", "play", "full"):
        screen.holds(hidden, "out of the picture")
        before = screen.player.sample()
        screen.player.tap(f'[data-part="{part}"]')
        screen.holds(f"!({hidden})", "brought by a finger")
        after = screen.player.sample()
        assert before is not None
        assert after is not None
        assert not after.paused, part
        assert 0 <= after.position - before.position < 3, part
        state = "[headend.video.muted, document.fullscreenElement]"
        assert screen.player.evaluate(f"() => {state}") == [False, None], part
    screen.host.tap("video")
    screen.player.wait(
        lambda _: screen.player.evaluate(f"() => {hidden}") is True, 1, "sent away by a finger"
    )
    screen.host.tap("video")
    screen.holds(f"!({hidden})", "brought again")
    # They stay while fingers use them.
    screen.tap("mute")
    screen.holds("headend.video.muted", "muted")
    assert screen.player.evaluate(f"() => {hidden}") is False
    screen.host.close()
