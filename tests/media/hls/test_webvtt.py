"""WebVTT out of values, and texts of strangers that stay texts."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from media.hls.webvtt import Cue, escape, render, split, timestamp

TIMING = re.compile(r"\d{2,}:\d{2}:\d{2}\.\d{3} --> \d{2,}:\d{2}:\d{2}\.\d{3}")


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "00:00:00.000"),
        (1, "00:00:00.001"),
        (59_999, "00:00:59.999"),
        (3_723_004, "01:02:03.004"),
        (360_000_000, "100:00:00.000"),
    ],
)
def test_a_time_has_hours_and_milliseconds(milliseconds: int, text: str) -> None:
    assert timestamp(milliseconds) == text


def test_a_time_before_zero_is_none() -> None:
    with pytest.raises(ValueError, match="-1 ms"):
        timestamp(-1)


def test_a_file_has_its_cues_between_blank_lines() -> None:
    text = render([Cue(0, 1500, "one\ntwo"), Cue(1500, 2000, "three")])
    assert text == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\none\ntwo\n"
        "\n00:00:01.500 --> 00:00:02.000\nthree\n"
    )


def test_a_file_says_where_its_times_are_on_the_medias_clock() -> None:
    text = render([], ticks=900_000)
    assert text == "WEBVTT\nX-TIMESTAMP-MAP=MPEGTS:900000,LOCAL:00:00:00.000\n"


@pytest.mark.parametrize(
    "cue",
    [Cue(5, 5, "a"), Cue(5, 4, "a"), Cue(-1, 4, "a"), Cue(0, 4, ""), Cue(0, 4, "a\n\nb"),
     Cue(0, 4, "1 --> 2")],
)  # fmt: skip
def test_what_would_break_the_file_is_refused(cue: Cue) -> None:
    with pytest.raises(ValueError, match=r"no cue|a time of"):
        render([cue])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Tom & <b>Jerry</b>", "Tom &amp; &lt;b&gt;Jerry&lt;/b&gt;"),
        ("a --> b", "a --&gt; b"),
        ("one\r\n\r\n\r\ntwo\rthree", "one\ntwo\nthree"),
        ("  \n a \n", "a"),
        ("a\x00b\x0bc\u2028d", "a b c d"),
        ("\n\n", ""),
    ],
)
def test_nothing_of_a_text_is_markup(text: str, shown: str) -> None:
    assert escape(text) == shown


@given(st.lists(st.text(alphabet=st.sampled_from("ab<>-&\n\r\t \x00é"), max_size=40), max_size=5))
def test_any_texts_give_as_many_cues_as_there_are_texts(texts: list[str]) -> None:
    escaped = [text for text in map(escape, texts) if text]
    file = render([Cue(index, index + 1, text) for index, text in enumerate(escaped)])
    blocks = file.rstrip("\n").split("\n\n")[1:]
    assert len(blocks) == len(escaped)
    assert all(TIMING.fullmatch(block.split("\n")[0]) for block in blocks)
    assert ["\n".join(block.split("\n")[1:]) for block in blocks] == escaped


def test_a_cue_is_in_each_segment_in_which_it_is_shown() -> None:
    a, b, c, late = Cue(0, 10, "a"), Cue(9, 11, "b"), Cue(10, 31, "c"), Cue(95, 99, "late")
    assert split((a, b, c, late), 10, 3) == [[a, b], [b, c], [c, late]]
    assert split((), 10, 2) == [[], []]


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(1, 300))), st.integers(1, 60))
def test_at_each_time_its_segment_has_all_that_is_shown(
    spans: list[tuple[int, int]], step: int
) -> None:
    cues = [Cue(start, start + length, str(number)) for number, (start, length) in enumerate(spans)]
    segments = split(cues, step, 7)
    for moment in range(0, 800, 3):
        shown = [cue for cue in cues if cue.start <= moment < cue.end]
        assert set(shown) <= set(segments[min(moment // step, 6)])
