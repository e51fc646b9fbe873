"""Events of ASS as WebVTT's cue text: their words, and nothing of their layout."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from media.hls.ssa import MAX_CHARACTERS, cue_text

HEAD = "0,0,Default,,0,0,0,,"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("Hello", "Hello", id="plain"),
        pytest.param("one, two, three", "one, two, three", id="commas"),
        pytest.param(r"one\Ntwo\nthree\hfour", "one\ntwo\nthree four", id="breaks"),
        pytest.param(r"{\i1}so{\i0} it is", "<i>so</i> it is", id="italics"),
        pytest.param(r"{\b1\i1}both{\b0} one", "<b><i>both</i></b><i> one</i>", id="nested"),
        pytest.param(r"{\b700}bold", "<b>bold</b>", id="by weight"),
        pytest.param(r"{\u1}under{\r} plain", "<u>under</u> plain", id="reset"),
        pytest.param(r"{\i1}a{\rAlternate}b", "<i>a</i>b", id="reset to a style"),
        pytest.param(r"{\bord3\blur2\be1}x", "x", id="no bold"),
        pytest.param(r"{\an8\pos(10,20)\c&HFF&\fs40}up", "up", id="places and colours"),
        pytest.param(r"{\k50}ka{\k60}ra", "kara", id="karaoke"),
        pytest.param(r"{\p1}m 0 0 l 10 10{\p0}text", "text", id="drawings"),
        pytest.param(r"{\p1}m 0 0 l 10 10", "", id="nothing but a drawing"),
        pytest.param("{a comment}x{", "x{", id="comments"),
        pytest.param(
            "<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;", id="markup"
        ),
        pytest.param("a --> b", "a --&gt; b", id="arrows"),
        pytest.param(r"a\N\N\N b", "a\n b", id="blank lines"),
        pytest.param(r"{\i1} \N {\i0}", "", id="nothing to be read"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_words_stay_and_layout_goes(text: str, shown: str) -> None:
    assert cue_text(HEAD + text) == shown


def test_an_event_that_lacks_fields_has_no_words() -> None:
    assert cue_text("0,0,Default") == ""


def test_what_is_too_long_is_cut_off() -> None:
    assert len(cue_text(HEAD + "x" * 1_000_000)) == MAX_CHARACTERS


@given(st.text(alphabet=st.sampled_from("ab<>&{}\\Nibup01r \n\r,-é"), max_size=80))
def test_any_text_is_a_cue_without_foreign_markup(text: str) -> None:
    cue = cue_text(HEAD + text)
    assert "-->" not in cue
    assert not re.search(r"\n[ \t]*\n", cue)
    tags = re.findall(r"<[^>]*>", cue)
    assert set(tags) <= {"<b>", "</b>", "<i>", "</i>", "<u>", "</u>"}
    # Each that is opened is closed, the innermost first.
    opened: list[str] = []
    for tag in tags:
        if tag.startswith("</"):
            assert opened.pop() == tag[2]
        else:
            opened.append(tag[1])
    assert opened == []
