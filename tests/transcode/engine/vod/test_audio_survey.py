"""The sound of files: copied where every browser plays it, else not."""

from pathlib import Path

import pytest

from tests.support.engine.made_assets import (
    OWN,
    SMALL,
    is_whole,
    made_of,
    sound_is_continuous,
    surveyed,
)
from tests.support.engine.numbered_films import numbered


@pytest.mark.parametrize(
    ("coding", "sound"),
    [
        pytest.param(("-c:a", "aac", "-ar", "32000"), "rate", id="another rate"),
        pytest.param(("-c:a", "aac", "-ac", "6"), "channels", id="six channels"),
        pytest.param(("-c:a", "libmp3lame"), "codec", id="MP3", marks=pytest.mark.prove),
        pytest.param(("-af", "adelay=700:all=1,apad", "-c:a", "aac", "-ss", "0"), "", id="kept"),
    ],
)
def test_sound_is_kept_where_it_plays_everywhere(
    tmp_path: Path, coding: tuple[str, ...], sound: str
) -> None:
    path = numbered(tmp_path / "a.mp4", *OWN, *coding, seconds=6, size=SMALL)
    output = made_of(path)
    assert surveyed(output).kept is (not sound)
    assert sound_is_continuous(output, 6)
    assert is_whole(output, 150)
