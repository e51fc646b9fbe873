"""The snippets that owners paste into their pages."""

import html

from api.schemas.embed_snippets import embed_snippets, iframe
from tests.support.api.application import ADDRESSES

HASH = "abcABC012345"
TITLE = "Fish & \"Chips\" <b>'live'</b>"


def test_the_three_ways_name_the_same_and_escape_what_was_typed() -> None:
    found = embed_snippets(ADDRESSES, HASH, TITLE, "stream")
    assert found.link == f"https://live.example/watch/{HASH}"
    assert found.script == (
        f'<script async src="https://live.example/embed.js" data-stream="{HASH}"></script>'
    )
    assert found.iframe.startswith(f'<iframe src="https://live.example/embed/{HASH}" ')
    assert f'title="{html.escape(TITLE)}"' in found.iframe
    for part in ("aspect-ratio:16/9", "allowfullscreen", "strict-origin-when-cross-origin"):
        assert part in found.iframe
    assert found.iframe.count("<") == 2


def test_a_script_says_whether_it_is_a_video() -> None:
    found = embed_snippets(ADDRESSES, HASH, TITLE, "video")
    assert f'data-video="{HASH}"' in found.script


def test_a_frame_may_have_a_size() -> None:
    found = iframe(ADDRESSES, HASH, TITLE, (320, 180))
    assert 'width="320" height="180"' in found
    assert "aspect-ratio" not in found
