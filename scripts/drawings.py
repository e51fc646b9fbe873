"""Draws the pictures of the documentation: `docs/drawings/*.txt` becomes `docs/pictures/*.svg`.

    make drawings

A test fails if a picture is not what its text makes. The first line of a text is its kind and
title, the second describes the picture to people who do not see it. Empty lines and those that
begin with `#` say nothing. A ` | ` in a label begins another line.

    boxes: The parts                       sequence: A packet
    about: Encoders send to ingest.        about: An encoder sends a packet to ingest.
    frame host 0 4 20 8 One host           who encoder Encoder
    box encoders 1 0 8 3 Encoders | RTMP   who ingest ingest
    box ingest 1 6 8 3 ingest              encoder -> ingest: a packet
    encoders -> ingest: packets            ingest --> encoder: an answer
                                           over encoder ingest: some time later

The numbers of a box, and of a frame around boxes, are its left edge, top, width and height, in
units of 20 pixels. An arrow between boxes is a straight line, so they must be above or beside each
other. `-->` is a dashed line, `<->` has two heads. A sequence runs downwards, in the order of its
lines; `over` is a note from one lifeline to another.
"""

import re
import textwrap
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

_DOCS: Final = Path(__file__).parents[1] / "docs"
TEXTS: Final = _DOCS / "drawings"
PICTURES: Final = _DOCS / "pictures"

_UNIT: Final = 20
_MARGIN: Final = 20
_LINE: Final = 18  # from one line of text to the next
# The mean width of a character of a sans-serif font of 13 pixels; wide, since fonts differ.
_CHARACTER: Final = 7.1
_SEQUENCE_WIDTH: Final = 860  # about what a page shows without scaling
_HEAD: Final = 44  # the height of a participant's box
_NOTE: Final = 230  # the width of a note over one lifeline

_ARROW: Final = re.compile(r"(\w+) (<->|-->|->) (\w+)(?:: (.+))?")
_BOX: Final = re.compile(r"(box|frame) (\w+) (\d+) (\d+) (\d+) (\d+) (.+)")
_WHO: Final = re.compile(r"who (\w+) (.+)")
_OVER: Final = re.compile(r"over (\w+) (\w+): (.+)")

# A panel of its own colour keeps a picture readable on any page.
_STYLE: Final = """
.panel { fill: #fbfbfd; } .box { fill: #e8eef9; stroke: #4a6fa5; }
.frame { fill: none; stroke: #8a94a6; stroke-dasharray: 5 4; }
.note { fill: #fdf3d7; stroke: #c2a24a; } .life { stroke: #a5adba; stroke-dasharray: 2 4; }
.arrow { stroke: #33415c; stroke-width: 1.6; fill: none; } .dashed { stroke-dasharray: 6 4; }
.head { fill: #33415c; } .halo { stroke: #fbfbfd; stroke-width: 5; stroke-linejoin: round; }
text { fill: #1b2333; font: 13px system-ui, sans-serif; text-anchor: middle; }
.name { font-weight: 600; } .left { text-anchor: start; }
@media (prefers-color-scheme: dark) {
.panel { fill: #161b26; } .box { fill: #24344f; stroke: #7fa3dc; } .frame { stroke: #7c879b; }
.note { fill: #3d3520; stroke: #b99b4b; } .life { stroke: #5a6477; }
.arrow { stroke: #c9d4e8; } .head { fill: #c9d4e8; } .halo { stroke: #161b26; }
text { fill: #e8ecf4; }
}
"""


class BadDrawing(ValueError):
    """A text is no drawing; the message names the line."""


class _Box(NamedTuple):
    left: int
    top: int
    right: int
    bottom: int
    label: str
    is_frame: bool


class _Arrow(NamedTuple):
    source: str
    kind: str
    target: str
    label: str


class _Note(NamedTuple):
    first: str
    last: str
    text: str


def draw(text: str) -> str:
    """Return the picture of a text as SVG.

    Raises:
        BadDrawing: a line is of no known form, or names what there is not.
    """
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if len(lines) < 2:
        raise BadDrawing("a drawing begins with its kind and title, and what it is about")
    kind, _, title = lines[0].partition(": ")
    word, _, about = lines[1].partition(": ")
    if word != "about" or not title or not about:
        raise BadDrawing(f"no title, or nothing that it is about: {lines[0]} / {lines[1]}")
    match kind:
        case "boxes":
            width, height, shapes = _draw_boxes(lines[2:])
        case "sequence":
            width, height, shapes = _draw_sequence(lines[2:])
        case _:
            raise BadDrawing(f"no kind of drawing: {kind}")
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" role="img" aria-labelledby="title about">',
            f'<title id="title">{escape(title)}</title>',
            f'<desc id="about">{escape(about)}</desc>',
            f"<style>{_STYLE}</style>",
            '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" '
            'markerHeight="8" orient="auto-start-reverse">'
            '<path class="head" d="M0 0L10 5L0 10z"/></marker></defs>',
            f'<rect class="panel" width="{width}" height="{height}" rx="8"/>',
            *shapes,
            "</svg>\n",
        )
    )


# -- boxes and arrows -----------------------------------------------------------------------------


def _draw_boxes(lines: list[str]) -> tuple[int, int, list[str]]:
    boxes: dict[str, _Box] = {}
    arrows: list[_Arrow] = []
    for line in lines:
        if (found := _BOX.fullmatch(line)) is not None:
            left, top, width, height = (int(each) * _UNIT for each in found.groups()[2:6])
            left, top = left + _MARGIN, top + _MARGIN
            is_frame = found[1] == "frame"
            boxes[found[2]] = _Box(left, top, left + width, top + height, found[7], is_frame)
        else:
            arrows.append(_arrow(line, boxes))
    width = max((box.right for box in boxes.values()), default=0) + _MARGIN
    height = max((box.bottom for box in boxes.values()), default=0) + _MARGIN
    shapes = [shape for box in boxes.values() for shape in _box(box)]
    for arrow in arrows:
        shapes += _straight(boxes[arrow.source], boxes[arrow.target], arrow)
    return width, height, shapes


def _box(box: _Box) -> Iterator[str]:
    kind = "frame" if box.is_frame else "box"
    yield _rect(kind, box.left, box.top, box.right - box.left, box.bottom - box.top)
    labels = box.label.split(" | ")
    if box.is_frame:
        middle = box.top + 14 + (len(labels) - 1) * _LINE // 2
        yield from _labels((box.left + box.right) // 2, middle, labels)
    else:
        yield from _labels((box.left + box.right) // 2, (box.top + box.bottom) // 2, labels)


def _labels(x: int, middle: int, labels: list[str]) -> Iterator[str]:
    """Yield centred lines of text, the first of which is a name."""
    first = middle + 5 - (len(labels) - 1) * _LINE // 2
    for row, label in enumerate(labels):
        yield _text(x, first + row * _LINE, label, "" if row else "name")


def _straight(source: _Box, target: _Box, arrow: _Arrow) -> Iterator[str]:
    left, right = max(source.left, target.left), min(source.right, target.right)
    top, bottom = max(source.top, target.top), min(source.bottom, target.bottom)
    if left < right:
        x = (left + right) // 2
        down = source.top < target.top
        ends = (source.bottom, target.top) if down else (source.top, target.bottom)
        yield _line(x, ends[0], x, ends[1], arrow.kind)
        rows = _rows(arrow.label)
        first = sum(ends) // 2 + 5 - (len(rows) - 1) * _LINE // 2
        for row, label in enumerate(rows):
            yield _text(x + 9, first + row * _LINE, label, "left halo")
            yield _text(x + 9, first + row * _LINE, label, "left")
    elif top < bottom:
        y = (top + bottom) // 2
        along = source.left < target.left
        ends = (source.right, target.left) if along else (source.left, target.right)
        yield _line(ends[0], y, ends[1], y, arrow.kind)
        rows = _rows(arrow.label)
        for row, label in enumerate(rows):
            yield _text(sum(ends) // 2, y - 7 - (len(rows) - 1 - row) * _LINE, label)
    else:
        raise BadDrawing(f"neither above nor beside each other: {arrow.source}, {arrow.target}")


# -- sequences ------------------------------------------------------------------------------------


def _draw_sequence(lines: list[str]) -> tuple[int, int, list[str]]:
    names: dict[str, str] = {}
    steps: list[_Arrow | _Note] = []
    for line in lines:
        if (found := _WHO.fullmatch(line)) is not None:
            names[found[1]] = found[2]
        elif (found := _OVER.fullmatch(line)) is not None:
            _require(line, names, found[1], found[2])
            steps.append(_Note(found[1], found[2], found[3]))
        else:
            steps.append(_arrow(line, names))
    if not names:
        raise BadDrawing("nothing takes part in this sequence")
    between = _SEQUENCE_WIDTH // len(names)
    at = {name: between // 2 + number * between for number, name in enumerate(names)}
    y = _MARGIN + _HEAD + 14
    shapes: list[str] = []
    for step in steps:
        if isinstance(step, _Note):
            y, drawn = _note(step, at, y)
        else:
            y, drawn = _message(step, at, y)
        shapes += drawn
    lives = [
        f'<line class="life" x1="{x}" y1="{_MARGIN + _HEAD}" x2="{x}" y2="{y}"/>'
        for x in at.values()
    ]
    heads: list[str] = []
    for name, label in names.items():
        heads.append(_rect("box", at[name] - between // 2 + 8, _MARGIN, between - 16, _HEAD))
        heads += _labels(at[name], _MARGIN + _HEAD // 2, label.split(" | "))
    return _SEQUENCE_WIDTH, y + _MARGIN, [*lives, *heads, *shapes]


def _message(step: _Arrow, at: dict[str, int], y: int) -> tuple[int, list[str]]:
    """Return the height below an arrow with its label above it, and what it consists of."""
    start, end = at[step.source], at[step.target]
    if start == end:
        raise BadDrawing(f"an arrow from {step.source} to itself: write a note over it")
    rows = _rows(step.label, abs(end - start) - 20)
    shapes: list[str] = []
    for row in rows:
        y += _LINE
        shapes += (_text((start + end) // 2, y, row, style) for style in ("halo", ""))
    y += 8
    return y + 10, [*shapes, _line(start, y, end, y, step.kind)]


def _note(note: _Note, at: dict[str, int], y: int) -> tuple[int, list[str]]:
    """Return the height below a note, and what it consists of."""
    first, last = sorted((at[note.first], at[note.last]))
    left = max(8, first - _NOTE // 2)
    width = min(_SEQUENCE_WIDTH - 8, last + _NOTE // 2) - left
    rows = _rows(note.text, width - 16)
    height = len(rows) * _LINE + 10
    shapes = [_rect("note", left, y + 6, width, height)]
    for row, each in enumerate(rows):
        shapes.append(_text(left + width // 2, y + 24 + row * _LINE, each))
    return y + height + 14, shapes


# -- what both have -------------------------------------------------------------------------------


def _arrow(line: str, known: dict[str, _Box] | dict[str, str]) -> _Arrow:
    found = _ARROW.fullmatch(line)
    if found is None:
        raise BadDrawing(f"a line of no known form: {line}")
    _require(line, known, found[1], found[3])
    return _Arrow(found[1], found[2], found[3], found[4] or "")


def _require(line: str, known: dict[str, _Box] | dict[str, str], *names: str) -> None:
    for name in names:
        if name not in known:
            raise BadDrawing(f"nothing above is called {name}: {line}")


def _rows(label: str, width: float | None = None) -> list[str]:
    """Return the lines of a label, wrapped to a width in pixels if there is one."""
    rows = label.split(" | ") if label else []
    if width is None:
        return rows
    characters = max(8, int(width / _CHARACTER))
    return [part for row in rows for part in textwrap.wrap(row, characters)]


def _rect(kind: str, left: int, top: int, width: int, height: int) -> str:
    size = f'width="{width}" height="{height}"'
    return f'<rect class="{kind}" x="{left}" y="{top}" {size} rx="6"/>'


def _text(x: int, y: int, text: str, kind: str = "") -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<text{style} x="{x}" y="{y}">{escape(text, quote=False)}</text>'


def _line(x1: int, y1: int, x2: int, y2: int, kind: str) -> str:
    style = "arrow dashed" if kind == "-->" else "arrow"
    tips = 'marker-end="url(#tip)"' + (' marker-start="url(#tip)"' if kind == "<->" else "")
    return f'<line class="{style}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" {tips}/>'


if __name__ == "__main__":
    for path in sorted(TEXTS.glob("*.txt")):
        (PICTURES / f"{path.stem}.svg").write_text(draw(path.read_text()))
