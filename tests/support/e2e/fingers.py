"""Controls of a page under a finger: each can be reached, is large enough, and lies apart."""

from typing import Final, cast

from tests.support.browser import Viewer

PHONES: Final = (320, 360, 390, 412)  # widths of phones in the hand, CSS pixels
_HEIGHT: Final = 740
_OPEN: Final = "() => document.querySelectorAll('details').forEach((each) => (each.open = true))"
# WCAG 2.2, 2.5.8: 24 by 24 pixels, but for links in a sentence.
_FLAWS: Final = """(width) => {
  const flaws = [];
  if (document.documentElement.scrollWidth > width) {
    const wide = [...document.querySelectorAll("body *")].filter((each) =>
      each.getBoundingClientRect().right > width + 0.5 && !each.parentElement.closest(".scroll"));
    const { scrollWidth } = document.documentElement;
    flaws.push(`${scrollWidth} px wide: ${wide.at(-1)?.outerHTML.slice(0, 90)}`);
  }
  const modal = document.querySelector("dialog[open]") ?? document.body;
  const every = modal.querySelectorAll(
    "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']");
  const controls = [...every].filter((each) => each.checkVisibility({ visibilityProperty: true })
    && !each.disabled && !each.closest(".unseen, .skip, [aria-hidden=true]"));
  const inSentence = (each) => each.localName === "a" && getComputedStyle(each).display === "inline"
    && [...each.parentElement.childNodes].some((node) =>
      node.nodeType === Node.TEXT_NODE && node.data.trim() !== "");
  const boxes = [];
  for (const each of controls) {
    const name = each.outerHTML.replace(/\\s+/g, " ").slice(0, 90);
    const label = each.labels?.[0]?.contains(each) ? each.labels[0] : each;
    each.scrollIntoView({ block: "center", inline: "center", behavior: "instant" });
    const box = label.getBoundingClientRect();
    if (!inSentence(each) && (box.width < 23.95 || box.height < 23.95))
      flaws.push(`${Math.round(box.width)} x ${Math.round(box.height)}: ${name}`);
    const [line] = each.getClientRects();
    if (!line) continue;
    const hit = document.elementFromPoint(
      (Math.max(line.left, 0) + Math.min(line.right, width)) / 2, (line.top + line.bottom) / 2);
    if (!hit || !(each.contains(hit) || hit.contains(each) && hit === label))
      flaws.push(`covered by ${hit?.outerHTML.slice(0, 60)}: ${name}`);
    if (line.right > width + 0.5 && !each.closest(".scroll")) flaws.push(`cut off: ${name}`);
    boxes.push([each, name, box.left, box.top + scrollY, box.right, box.bottom + scrollY]);
  }
  boxes.forEach(([one, name, left, top, right, bottom], at) => {
    for (const [two, other, left2, top2, right2, bottom2] of boxes.slice(at + 1)) {
      if (one.contains(two) || one.closest(".scroll") !== two.closest(".scroll")) continue;
      if (one.closest(".scroll")) continue; // it moved between the two
      const across = Math.min(right, right2) - Math.max(left, left2);
      const down = Math.min(bottom, bottom2) - Math.max(top, top2);
      if (across > 0.5 && down > 0.5) flaws.push(`${name} overlaps ${other}`);
    }
  });
  return [flaws, controls.length];
}"""


def must_suit_fingers(viewer: Viewer, what: str, least: int = 1) -> None:
    """Check the open page at the widths of phones, with its folds open; `least` controls of it."""
    viewer.evaluate(_OPEN)
    found: dict[int, list[str]] = {}
    for width in PHONES:
        viewer.resize(width, _HEIGHT)
        flaws, count = cast("tuple[list[str], int]", viewer.evaluate(_FLAWS, width))
        assert count >= least, f"{what}: {count} controls"
        if flaws:
            found[width] = flaws
    assert found == {}, f"{what}: {found}"
