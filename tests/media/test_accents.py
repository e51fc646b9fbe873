"""Texts without accents."""

import pytest

from media.accents import without_accents


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("zürich", "zurich"),
        ("zu\u0308rich", "zurich"),
        ("i\u0307stanbul", "istanbul"),  # what "İ" is in lower case
        ("diyarbak\u0131r", "diyarbakir"),
        ("łódź", "lodz"),
        ("smørrebrød", "smorrebrod"),
        ("œuvre", "oeuvre"),
        ("tiếng việt", "tieng viet"),
        ("αθήνα", "αθηνα"),
        ("ёлка", "елка"),
        ("שָׁלוֹם", "שלום"),
        ("مُحَمَّد", "محمد"),
        ("abc-123", "abc-123"),
    ],
)
def test_marks_that_people_leave_out_are_left_out(text: str, plain: str) -> None:
    assert without_accents(text) == plain
    assert without_accents(plain) == plain


@pytest.mark.parametrize("text", ["が", "한국어", "हिन्दी", "ภาษาไทย", "中文", "🎬"])
def test_marks_that_make_another_letter_stay(text: str) -> None:
    assert without_accents(text) == text
