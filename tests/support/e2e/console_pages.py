"""Pages of the console in a real Chromium: signed in, and looked at as people need them."""

from pathlib import Path
from typing import Final, cast

from tests.support.browser import Chromium, Viewer
from tests.support.e2e.service import Running

__all__ = ["axe_rules", "must_be_accessible", "must_fit", "sign_in"]

_RULES: Final = """async () => (await axe.run()).violations
  .filter(({ impact }) => impact === "serious" || impact === "critical")
  .map(({ id, impact, nodes }) => `${impact} ${id}: ${nodes.map(({ html }) => html).join(" ")}`)"""
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


def sign_in(
    browser: Chromium, headend: Running, page: str = "/console", *, light: bool = False
) -> Viewer:
    """Sign in with the owner's token, and open a page."""
    viewer = browser.open(f"{headend.http}{page}", light=light)
    viewer.fill("#token", headend.token)
    viewer.press("Enter")
    viewer.wait_for_page("() => document.querySelector('header.top') !== null", 10, "signed in")
    return viewer


def axe_rules(web: Path) -> str:
    """Return the source of axe, from a folder with the packages of `web/`."""
    return (web / "node_modules" / "axe-core" / "axe.min.js").read_text()


def must_be_accessible(viewer: Viewer, axe: str) -> None:
    """Fail if axe finds something serious, or a target is too small for a finger."""
    viewer.evaluate(f"() => {{ {axe} }}")
    assert viewer.evaluate(_RULES) == []
    assert viewer.evaluate(_SMALL) == []


def must_fit(viewer: Viewer, width: int = 320) -> None:
    """Fail if something is cut off in a narrow window; leaves it 1280 pixels wide."""
    viewer.resize(width, 640)
    wide = cast("list[str]", viewer.evaluate(_WIDE))
    viewer.resize(1280, 800)
    assert wide == []
