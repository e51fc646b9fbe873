"""Films that were joined carelessly: their times say less than the order of their pictures."""

from itertools import pairwise
from pathlib import Path

import pytest

from media.ladder import AUDIO_RENDITION
from tests.support.engine.decoded_output import warnings_of
from tests.support.engine.made_assets import SECOND, SMALL, X264, joined, made_of, surveyed
from tests.support.engine.numbered_films import numbered, numbers
from tests.support.engine.sources import ffmpeg

_FAST = 60  # pictures of the first film, 30 a second
_SLOW = 50  # pictures of the second one, 25 a second, which ffmpeg shows as if they were 30


def concatenated(result: Path) -> Path:
    """Join two films by ffmpeg's list of files, which reads the second one's times wrongly.

    So several of its pictures have the same time, that of one before them.
    """
    coding = (*X264, "-g", "50", "-bf", "2", "-c:a", "aac")
    names = [result.with_name(name) for name in ("fast.mp4", "slow.mp4")]
    for name, rate in zip(names, ("30", "25"), strict=True):
        numbered(name, *coding, seconds=2, size=SMALL, rate=rate)
    listed = result.with_name("list.txt")
    listed.write_text("".join(f"file '{name}'\n" for name in names))
    ffmpeg("-f", "concat", "-safe", "0", "-i", listed, "-c", "copy", "-y", result)
    return result


@pytest.mark.parametrize("name", ["a.mp4", pytest.param("a.mkv", marks=pytest.mark.prove)])
def test_pictures_with_the_same_time_are_all_shown_in_their_order(
    tmp_path: Path, name: str
) -> None:
    output = made_of(concatenated(tmp_path / name))
    assert "same time" in surveyed(output).reason
    film = joined(output, "240p")
    shown = numbers(film)
    distinct = [number for at, (_, number) in enumerate(shown) if number != shown[at - 1][1]]
    assert distinct == [*range(_FAST), *range(_SLOW)]
    assert all(before < after for (before, _), (after, _) in pairwise(shown))
    assert warnings_of([("240p", film)]) == {}
    assert "picture out of order" not in output.troubles


def test_the_last_picture_stays_as_long_as_sound_does_whatever_its_time(tmp_path: Path) -> None:
    whole = concatenated(tmp_path / "a.mp4")
    longer = tmp_path / "longer.mp4"
    tone = ("-f", "lavfi", "-i", "sine=d=6")
    ffmpeg("-i", whole, *tone, "-map", "0:v", "-map", "1", "-c:v", "copy", "-c:a", "aac", longer)
    output = made_of(longer)
    for name in ("240p", AUDIO_RENDITION):
        length = sum(each.duration for each in output.segments(name))
        assert abs(length - 6 * SECOND) < 0.15 * SECOND, name
    shown = [number for _, number in numbers(joined(output, "240p"))]
    assert shown.index(_SLOW - 1, _FAST) == _FAST + _SLOW - 1
    assert set(shown[_FAST + _SLOW :]) == {_SLOW - 1}


@pytest.mark.parametrize("begins", [30, pytest.param(28, marks=pytest.mark.prove)])
def test_no_picture_is_lost_where_an_edit_list_begins_between_keyframes(
    tmp_path: Path, begins: int
) -> None:
    whole = concatenated(tmp_path / "a.mp4")
    cut = tmp_path / "cut.mp4"
    ffmpeg("-ss", str(begins / 30), "-i", whole, "-c", "copy", "-y", cut)
    output = made_of(cut)
    assert "same time" in surveyed(output).reason
    shown = [number for _, number in numbers(joined(output, "240p"))]
    assert shown[: _FAST - begins] == list(range(begins, _FAST))
    assert set(shown[_FAST - begins :]) == set(range(_SLOW))
