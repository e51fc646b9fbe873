"""Languages by the names that containers, playlists and people use."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from media.languages import language_name, language_tag


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("eng", "en"),
        ("ger", "de"),
        ("deu", "de"),
        ("GER", "de"),
        ("de", "de"),
        ("pt-BR", "pt-BR"),
        ("por-BR", "pt-BR"),
        ("zh_Hant", "zh-Hant"),
        ("gsw", "gsw"),
        ("und", ""),
        ("mul", ""),
        ("qaa", ""),
        ("", ""),
        (None, ""),
        ("English", ""),
        ('e"n', ""),
        ("e\nn", ""),
        ("\x00\x00\x00", ""),
    ],
)
def test_a_tag_is_the_shortest_there_is(text: str | None, tag: str) -> None:
    assert language_tag(text) == tag


def test_tags_have_names() -> None:
    assert [language_name(tag) for tag in ("de", "nb", "cy", "gsw", "")] == [
        "German",
        "Norwegian Bokmål",
        "Welsh",
        "gsw",
        "",
    ]


@given(st.text(max_size=12))
def test_any_text_gives_a_tag_or_none(text: str) -> None:
    assert re.fullmatch(r"(?:[a-z]{2,3}(?:-[A-Za-z0-9]{1,8})*)?", language_tag(text))
