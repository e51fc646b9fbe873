"""Drawings: what is committed is what their texts make, and bad texts are refused."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from scripts.drawings import PICTURES, TEXTS, BadDrawing, draw

NAMES = sorted(path.stem for path in TEXTS.glob("*.txt"))
DOCS = Path(TEXTS).parent
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_is_what_its_text_makes(name: str) -> None:
    """If it fails, run `make drawings`."""
    assert (PICTURES / f"{name}.svg").read_text() == draw((TEXTS / f"{name}.txt").read_text())


def test_every_text_is_a_picture_that_a_page_shows() -> None:
    assert sorted(path.stem for path in PICTURES.glob("*.svg")) == NAMES
    pages = "".join(path.read_text() for path in DOCS.glob("*.md"))
    assert sorted(re.findall(r"\]\(pictures/(\w+)\.svg\)", pages)) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_says_what_it_shows_and_keeps_within_its_size(name: str) -> None:
    root = ET.fromstring((PICTURES / f"{name}.svg").read_text())
    title, about = root.findtext(f"{SVG}title"), root.findtext(f"{SVG}desc")
    assert title
    assert about is not None
    assert about.endswith(".")
    assert root.get("role") == "img"
    panel, *shapes = root.iter(f"{SVG}rect")
    width, height = int(panel.get("width", "0")), int(panel.get("height", "0"))
    for shape in shapes:
        x, y, wide, high = (int(shape.get(each, "-1")) for each in ("x", "y", "width", "height"))
        assert 0 <= x <= x + wide <= width
        assert 0 <= y <= y + high <= height


def test_boxes_are_joined_by_straight_arrows_from_edge_to_edge() -> None:
    picture = draw(
        "boxes: Two\nabout: Two boxes.\n# a comment\n\nbox a 0 0 4 2 A <1>\nbox b 0 4 4 2 B\n"
        "box c 8 0 4 2 C | below\na -> b: down\na <-> c: across\n"
    )
    assert '<line class="arrow" x1="60" y1="60" x2="60" y2="100"' in picture
    assert '<line class="arrow" x1="100" y1="40" x2="180" y2="40"' in picture
    assert picture.count("marker-start=") == 1
    assert "A &lt;1&gt;" in picture


def test_a_sequence_runs_downwards_and_wraps_what_it_says() -> None:
    picture = draw(
        "sequence: Two\nabout: Two talk.\nwho a A\nwho b B\na -> b: first\n"
        f"b --> a: {'an answer of many words ' * 4}\nover a b: a note\n"
    )
    heights = [int(y) for y in re.findall(r'<line class="arrow[^"]*" x1="\d+" y1="(\d+)"', picture)]
    assert heights == sorted(heights)
    assert len(heights) == 2
    assert 'class="arrow dashed"' in picture
    rows = re.findall(r'<text x="430" y="\d+">([a-z ]+)</text>', picture)[1:-1]
    assert " ".join(rows) == " ".join(["an answer of many words"] * 4)
    assert len(rows) == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "begins with its kind"),
        ("boxes: A\nno: B", "no title"),
        ("clouds: A\nabout: B.", "no kind of drawing: clouds"),
        ("boxes: A\nabout: B.\nbox a 0 0 x 2 A", "no known form: box a"),
        ("boxes: A\nabout: B.\nbox a 0 0 2 2 A\na -> b", "nothing above is called b"),
        ("boxes: A\nabout: B.\nbox a 0 0 2 2 A\nbox b 4 4 2 2 B\na -> b", "neither above"),
        ("sequence: A\nabout: B.", "nothing takes part"),
        ("sequence: A\nabout: B.\nwho a A\nover a b: C", "nothing above is called b"),
        ("sequence: A\nabout: B.\nwho a A\na -> a: C", "write a note"),
    ],
)
def test_what_is_no_drawing_is_refused_with_its_line(text: str, words: str) -> None:
    with pytest.raises(BadDrawing, match=words):
        draw(text)
