"""Titles."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.schemas.text_fields import MAX_TITLE, Title, has_control_characters


@given(st.text(max_size=300))
def test_any_text_is_a_title_as_it_is_kept_or_is_refused(text: str) -> None:
    try:
        title = Title.parse(text)
    except ValueError:
        return
    assert title == text.strip()
    assert 1 <= len(title) <= MAX_TITLE
    assert not has_control_characters(title)
    title.encode()
    assert Title.parse(title) == title


@given(st.text(st.characters(categories=("L", "N", "P", "S", "M")), min_size=1, max_size=255))
def test_letters_marks_and_signs_are_never_refused_for_what_they_are(text: str) -> None:
    assert Title.parse("a" + text[1:]) == "a" + text[1:]


@pytest.mark.parametrize("text", ["\x00", "a\x1bb", "\x7f", "a\x85b", "a\u2028b", "\ud800"])
def test_control_characters_are_found(text: str) -> None:
    assert has_control_characters(text)


def test_the_longest_title_is_counted_in_characters() -> None:
    assert Title.parse("😀" * MAX_TITLE) == "😀" * MAX_TITLE
    with pytest.raises(ValueError, match="at most 255"):
        Title.parse("😀" * (MAX_TITLE + 1))
