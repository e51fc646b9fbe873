"""The console in a real Chromium: signing in, and checks of accessibility and layout."""

from pathlib import Path
from typing import Final, cast

from tests.support.browser import Chromium, Viewer
from tests.support.e2e.service import ServiceProcess

# A window as large as on a computer.
WIDTH: Final = 1280
HEIGHT: Final = 800
# Describing the elements that break no rule would take as long as finding those that do.
_RULES: Final = """async (options) =>
  (await axe.run({ ...options, resultTypes: ["violations"] })).violations
  .filter(({ impact }) => impact === "serious" || impact === "critical")
  .map(({ id, impact, nodes }) => `${impact} ${id}: ${nodes.map(({ html }) => html).join(" ")}`)"""
# In the middle of a transition, colours are neither the old nor the new ones.
_SETTLE: Final = """async () => {
  const passing = document.getAnimations().filter(
    ({ effect }) => effect.getComputedTiming().endTime !== Infinity);
  await Promise.allSettled(passing.map((each) => each.finished));
}"""
_WIDE: Final = """() => [...document.querySelectorAll("body *")]
  .filter((each) => each.checkVisibility() && !each.closest(".scroll, .unseen, dialog:not([open])"))
  .filter((each) => each.getBoundingClientRect().right > innerWidth + 1)
  .map((each) => each.outerHTML.slice(0, 120))"""
# WCAG 2.2, 2.5.8; links within a line of text are excepted there.
_SMALL: Final = """() => [...document.querySelectorAll("button, input, select, summary")]
  .filter((each) => each.checkVisibility())
  .filter((each) => {
    const { width, height } = (each.labels?.[0]?.contains(each) ? each.labels[0] : each)
      .getBoundingClientRect();
    return width < 24 || height < 24;
  })
  .map((each) => each.outerHTML.slice(0, 120))"""
# Text that is cut off. The content of fields can be scrolled.
_CUT: Final = """() => [...document.querySelectorAll("body *")]
  .filter((each) => each.checkVisibility() && each.textContent.trim() !== "")
  .filter((each) => !each.closest(".unseen, .skip, select, textarea, dialog:not([open])"))
  .filter((each) => {
    const { overflowX, overflowY } = getComputedStyle(each);
    const hides = (overflow) => overflow === "hidden" || overflow === "clip";
    return (hides(overflowX) && each.scrollWidth > each.clientWidth + 1) ||
      (hides(overflowY) && each.scrollHeight > each.clientHeight + 1);
  })
  .map((each) => each.outerHTML.slice(0, 120))"""
# Lines of text, and fields, that overlap by more than the leading of a line.
_OVERLAPS: Final = """() => {
  const aside = ".unseen, .skip, .scroll, .choices, select, textarea, noscript, " +
    "#toasts, #alerts, dialog:not([open])";
  const found = [];
  const add = (owner, rects, words) => {
    for (const { left, top, right, bottom } of rects)
      if (right > left + 1 && bottom > top + 1)
        found.push({ owner, left, top, right, bottom, words });
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const { currentNode: node } = walker;
    const owner = node.parentElement;
    if (!node.data.trim() || owner.closest(aside) || !owner.checkVisibility()) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    add(owner, range.getClientRects(), node.data.trim().slice(0, 60));
  }
  for (const each of document.querySelectorAll("input, select, textarea, button, iframe, img"))
    if (each.checkVisibility() && !each.parentElement.closest(aside))
      add(each, [each.getBoundingClientRect()], each.outerHTML.slice(0, 60));
  const overlaps = [];
  found.forEach((one, at) => found.slice(at + 1).forEach((other) => {
    if (one.owner.contains(other.owner) || other.owner.contains(one.owner)) return;
    const width = Math.min(one.right, other.right) - Math.max(one.left, other.left);
    const height = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
    const lower = Math.min(one.bottom - one.top, other.bottom - other.top);
    if (width > 2 && height > 0.4 * lower) overlaps.push(`${one.words} | ${other.words}`);
  }));
  return overlaps;
}"""
_OPEN: Final = "() => document.querySelectorAll('details').forEach((each) => (each.open = true))"
_MOVING: Final = """() => {
  const running = document.getAnimations().filter(({ playState }) => playState === "running");
  const moving = running.map(({ effect }) => effect?.target?.outerHTML.slice(0, 120));
  const spinner = document.body.appendChild(document.createElement("button"));
  spinner.ariaBusy = "true";
  if (getComputedStyle(spinner, "::before").backgroundImage !== "none") moving.push("a spinner");
  spinner.remove();
  for (const each of document.querySelectorAll("*"))
    for (const part of [null, "::before", "::after"]) {
      const { animationName, transitionDuration, scrollBehavior } = getComputedStyle(each, part);
      const still = transitionDuration.split(", ").every((time) => time === "0s");
      if (animationName !== "none" || !still || scrollBehavior === "smooth")
        moving.push(`${each.outerHTML.slice(0, 80)} ${part}`);
    }
  return moving;
}"""

# Whether its scripts have run: before, a click would do nothing.
_SIGNED_IN: Final = """() => document.querySelector("header.top") !== null
  && performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd > 0"""
_VALUE: Final = "(selector) => document.querySelector(selector).value"
_SHOWN: Final = """() => {
  const found = document.querySelector(%r);
  const text = found && found.checkVisibility() ? found.innerText.replace(/\\s+/g, " ") : "";
  return text.includes(%r) || text;
}"""


def shows(viewer: Viewer, selector: str, words: str, seconds: float = 20) -> None:
    """Wait until an element shows this text."""
    viewer.wait_for_page(_SHOWN % (selector, words), seconds, f"{words!r} in {selector}")


def value(viewer: Viewer, selector: str) -> str:
    """Return the value of a field."""
    return str(viewer.evaluate(_VALUE, selector))


def sign_in(
    browser: Chromium, headend: ServiceProcess, page: str = "/console", *, token: str | None = None
) -> Viewer:
    """Sign in, with the owner's token if no other is given, and open a page."""
    viewer = browser.open(f"{headend.http}{page}", width=WIDTH, height=HEIGHT)
    viewer.fill("#token", token or headend.token)
    viewer.press("Enter")
    viewer.wait_for_page(_SIGNED_IN, 10, "signed in")
    return viewer


def axe_rules(web: Path) -> str:
    """Return the source of axe from a folder with the packages of `web/`."""
    return (web / "node_modules" / "axe-core" / "axe.min.js").read_text()


def _must_be_accessible(viewer: Viewer, axe: str) -> None:
    """Fail if axe finds something serious, or a target is too small for a finger."""
    viewer.load_script(axe)
    viewer.evaluate(_SETTLE)
    _must_be_none(viewer.evaluate(_RULES, {}))
    _must_be_none(viewer.evaluate(_SMALL))


def must_be_for_everybody(viewer: Viewer, axe: str) -> None:
    """Check the open page: dark and light, narrow, enlarged, and with reduced motion.

    Leaves it dark, with its sections open.
    """
    viewer.evaluate(_OPEN)
    _must_be_accessible(viewer, axe)
    _must_fit(viewer)
    _must_be_readable_enlarged(viewer)
    viewer.prefer(light=True, still=True)
    viewer.evaluate(_SETTLE)
    _must_be_none(viewer.evaluate(_RULES, {"runOnly": ["color-contrast"]}))
    _must_be_none(viewer.evaluate(_MOVING))
    viewer.prefer()


def _must_be_readable_enlarged(viewer: Viewer) -> None:
    """Fail if text is cut off or covered at 200 % page zoom or text size.

    At a zoom of 200 %, a window of 1280 pixels has 640 left (WCAG 2.2, 1.4.4 and 1.4.10).
    """
    viewer.resize(640, 400)
    zoomed = _faults(viewer)
    viewer.resize(WIDTH, HEIGHT)
    viewer.evaluate("() => { document.documentElement.style.fontSize = '200%'; }")
    enlarged = _faults(viewer)
    viewer.evaluate("() => { document.documentElement.style.fontSize = ''; }")
    _must_be_none(zoomed)
    _must_be_none(enlarged)


def _must_be_none(faults: object) -> None:
    # Pytest explains assertions in test modules only.
    assert faults == [], faults


def _faults(viewer: Viewer) -> list[str]:
    results = [viewer.evaluate(script) for script in (_WIDE, _CUT, _OVERLAPS)]
    return [fault for faults in cast("list[list[str]]", results) for fault in faults]


def _must_fit(viewer: Viewer, width: int = 320) -> None:
    """Fail if anything is cut off in a narrow window; leaves it 1280 pixels wide."""
    viewer.resize(width, 640)
    wide = cast("list[str]", viewer.evaluate(_WIDE))
    viewer.resize(WIDTH, HEIGHT)
    _must_be_none(wide)
