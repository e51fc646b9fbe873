"""Drives a page by mouse, or by keyboard alone, through one interface.

The keyboard moves the focus with Tab, and fails at an element whose focus is not visible.
"""

from pathlib import Path
from typing import Final, Protocol

from tests.support.browser import Viewer

# More Tab stops than any page of the console has; after the last one, the first follows.
_MOST_STOPS: Final = 250
_AT: Final = "(selector) => document.activeElement.matches(selector)"
# The stops within a frame belong to the player.
_UNSEEN: Final = """async () => {
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const at = document.activeElement;
  if (!at || at === document.body || at.tagName === "IFRAME") return null;
  const name = at.outerHTML.slice(0, 200);
  const box = at.getBoundingClientRect();
  const [left, right] = [Math.max(box.left, 0), Math.min(box.right, innerWidth)];
  const [top, bottom] = [Math.max(box.top, 0), Math.min(box.bottom, innerHeight)];
  if (right - left < 8 || bottom - top < 8) return `out of sight: ${name}`;
  const hit = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
  if (hit && !at.contains(hit) && !hit.contains(at)) return `covered: ${name}`;
  const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(at);
  if (outlineStyle !== "none" && parseFloat(outlineWidth) >= 2) return null;
  const colour = /rgba?\\(([^)]*)\\)/.exec(boxShadow)?.[1].split(",") ?? [];
  const spread = parseFloat(/(-?[\\d.]+)px(?!.*px)/.exec(boxShadow)?.[1] ?? "0");
  const ring = spread >= 1 && (colour[3] === undefined || Number(colour[3]) > 0.2);
  return ring ? null : `without a ring: ${name}`;
}"""


class UserInput(Protocol):
    """A user's actions on a page; each applies to the first match of a selector."""

    viewer: Viewer

    def press(self, selector: str) -> None:
        """Press a button, a link or a checkbox."""
        ...

    def write(self, selector: str, text: str) -> None:
        """Replace the text of a field."""
        ...

    def pick(self, selector: str, words: str) -> None:
        """Select an option of a menu."""
        ...

    def attach(self, selector: str, *paths: Path) -> None:
        """Select files for a file input."""
        ...

    def download(self, selector: str, folder: Path) -> Path:
        """Start a download, and return the path of the file."""
        ...

    def agree(self) -> None:
        """Confirm the page's dialog."""
        ...


class Mouse:
    """Clicks elements, and types into the clicked ones."""

    def __init__(self, viewer: Viewer) -> None:
        self.viewer = viewer

    def press(self, selector: str) -> None:
        self.viewer.click(selector)

    def write(self, selector: str, text: str) -> None:
        self.viewer.click(selector)
        self.viewer.press("Control+A")
        self.viewer.write(text)

    def pick(self, selector: str, words: str) -> None:
        self.viewer.select(selector, words)

    def attach(self, selector: str, *paths: Path) -> None:
        self.viewer.answer_chooser(selector, *paths)

    def download(self, selector: str, folder: Path) -> Path:
        return self.viewer.download(selector, folder)

    def agree(self) -> None:
        self.viewer.click('#confirm button[value="yes"]')


class Keyboard:
    """Uses Tab, Enter, Space and letters only; no clicks, and no focus set by a script."""

    def __init__(self, viewer: Viewer) -> None:
        self.viewer = viewer
        self.stops = 0
        """How often the focus has moved."""

    def reach(self, selector: str) -> None:
        """Press Tab until an element has the focus, which must be visible on the way."""
        for _ in range(_MOST_STOPS):
            if self.viewer.evaluate(_AT, selector) is True:
                return
            self.viewer.press("Tab")
            self.stops += 1
            unseen = self.viewer.evaluate(_UNSEEN)
            assert unseen is None, f"the focus cannot be seen; {unseen}"
        raise AssertionError(f"{selector} is not reached by Tab")

    def press(self, selector: str) -> None:
        self.reach(selector)
        box = self.viewer.evaluate("() => document.activeElement.type === 'checkbox'")
        self.viewer.press("Space" if box else "Enter")

    def write(self, selector: str, text: str) -> None:
        self.reach(selector)
        self.viewer.press("Control+A")
        self.viewer.write(text)

    def pick(self, selector: str, words: str) -> None:
        """Type the option's first letters, which selects it in a closed menu."""
        self.reach(selector)
        self.viewer.write(words)
        selected = self.viewer.evaluate(
            "(selector) => document.querySelector(selector).selectedOptions[0].text", selector
        )
        assert selected == words

    def attach(self, selector: str, *paths: Path) -> None:
        self.reach(selector)
        self.viewer.answer_chooser(None, *paths)

    def download(self, selector: str, folder: Path) -> Path:
        self.reach(selector)
        return self.viewer.download(None, folder)

    def agree(self) -> None:
        self.press('#confirm button[value="yes"]')
