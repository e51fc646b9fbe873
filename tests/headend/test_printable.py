"""Texts of others on a terminal: what is escaped, what is not, and that JSON stays JSON."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headend.printable import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("\x1b[2J\x1b]0;owned\x07", "\\u001b[2J\\u001b]0;owned\\u0007", id="escapes"),
        pytest.param("\x9b31m", "\\u009b31m", id="C1: the same in one character"),
        pytest.param("a\r\nb\tc\x7f", "a\\u000d\\u000ab\\u0009c\\u007f", id="lines"),
        pytest.param("a\u2028b\u2029c\x85", "a\\u2028b\\u2029c\\u0085", id="other line breaks"),
        pytest.param("\u202egpj.exe\u2066", "\\u202egpj.exe\\u2066", id="directions"),
        pytest.param("\ufeffa\u200b\u00ad", "\\ufeffa\\u200b\\u00ad", id="invisible"),
        pytest.param("\ud800", "\\ud800", id="half of a pair"),
        pytest.param("\U000e0041", "\\udb40\\udc41", id="a tag, as JSON has it"),
    ],
)
def test_what_is_not_to_be_seen_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Grüße, мир, 世界\u3000",
        "\N{FAMILY}\u200d\N{GIRL}",
        "می\u200cروم",
        "שלום",
        "a\u00a0b",
        '\\"',
    ],
)
def test_what_people_write_stays(text: str) -> None:
    assert printable(text) == text


@given(st.text())
def test_the_result_is_one_visible_line_and_means_the_same_within_json(text: str) -> None:
    shown = printable(text)
    assert len(shown.splitlines()) <= 1
    assert not {unicodedata.category(each) for each in shown} & {"Cc", "Zl", "Zp", "Cs"}
    for ascii_only in (True, False):
        document = json.dumps({"text": text}, ensure_ascii=ascii_only)
        assert json.loads(printable(document)) == {"text": text}
