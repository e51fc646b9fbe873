"""The snippets that owners paste into their pages."""

import html

import pytest

from api.schemas.embed_snippets import embed_snippets, iframe
from tests.support.api.application import ADDRESSES

HASH = "abcABC012345"
TITLE = "Fish & \"Chips\" <b>'live'</b>"


def test_all_snippets_name_the_same_record_and_escape_its_title() -> None:
    snippets = embed_snippets(ADDRESSES, HASH, TITLE, "stream", (0, 0))
    assert snippets.link == f"https://live.example/watch/{HASH}"
    assert snippets.script == (
        f'<script async src="https://live.example/embed.js" data-stream="{HASH}"'
        f' data-title="{html.escape(TITLE)}" data-shape="16/9"></script>'
    )
    assert snippets.iframe.startswith(f'<iframe src="https://live.example/embed/{HASH}" ')
    assert f'title="{html.escape(TITLE)}"' in snippets.iframe
    for part in ("aspect-ratio:16/9", "allowfullscreen", "strict-origin-when-cross-origin"):
        assert part in snippets.iframe
    assert snippets.iframe.count("<") == 2


def test_a_script_says_whether_it_is_a_video() -> None:
    snippets = embed_snippets(ADDRESSES, HASH, TITLE, "video", (640, 360))
    assert f'data-video="{HASH}"' in snippets.script


@pytest.mark.parametrize(
    ("size", "shape"),
    [
        pytest.param((1920, 1080), "16/9", id="wide"),
        pytest.param((1080, 1920), "9/16", id="upright"),
        pytest.param((720, 576), "5/4", id="an odd one"),
        pytest.param((0, 360), "16/9", id="unknown"),
        pytest.param((8000, 16), "4/1", id="a strip"),
        pytest.param((2, 900), "1/4", id="a tower"),
    ],
)
def test_snippets_have_the_shape_of_the_picture(size: tuple[int, int], shape: str) -> None:
    snippets = embed_snippets(ADDRESSES, HASH, TITLE, "video", size)
    assert f"aspect-ratio:{shape};" in snippets.iframe
    assert f'data-shape="{shape}"' in snippets.script


def test_a_frame_may_have_a_size() -> None:
    frame = iframe(ADDRESSES, HASH, TITLE, (320, 180))
    assert 'width="320" height="180"' in frame
    assert "aspect-ratio" not in frame
