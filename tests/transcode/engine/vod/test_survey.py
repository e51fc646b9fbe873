"""The survey of a file's packets: whether it can be split, and whether packets are reused."""

from pathlib import Path

import pytest

from tests.support.engine.made_assets import OWN, SMALL, X264, is_whole, made_of, surveyed
from tests.support.engine.numbered_films import numbered
from tests.support.engine.sources import ffmpeg


@pytest.mark.parametrize(
    ("name", "coding", "reason"),
    [
        pytest.param("a.ts", (*OWN, "-c:a", "aac"), "index", id="MPEG-TS"),
        pytest.param("a.flv", (*OWN, "-c:a", "aac"), "index", id="FLV", marks=pytest.mark.prove),
        pytest.param(
            "a.avi",
            ("-c:v", "mpeg4", "-g", "50", "-c:a", "mp2"),
            "index",
            id="AVI",
            marks=pytest.mark.prove,
        ),
        pytest.param(
            "a.mp4",
            (*X264, "-g", "9999", "-bf", "2", "-c:a", "aac"),
            "far apart",
            id="one keyframe",
        ),
    ],
)
def test_what_cannot_be_entered_in_the_middle_is_made_in_one_piece(
    tmp_path: Path, name: str, coding: tuple[str, ...], reason: str
) -> None:
    path = numbered(tmp_path / name, *coding, seconds=25, size=SMALL)
    output = made_of(path, reuse=False, threads=2)
    survey = surveyed(output)
    assert (len(survey.spans), reason in survey.reason) == (1, True), survey
    assert is_whole(output, 625)


def test_a_file_that_turns_in_the_middle_does_not_lend_its_packets(tmp_path: Path) -> None:
    """The stream changes to a sequence parameter set of another size, which players reject."""
    one = numbered(tmp_path / "a.mp4", *OWN, seconds=4, size=SMALL, sound=None)
    other = numbered(tmp_path / "b.mp4", *OWN, seconds=4, size=(240, 64), sound=None)
    for path in (one, other):
        ffmpeg(
            "-i", path, "-c", "copy", "-bsf:v", "h264_mp4toannexb", "-y", path.with_suffix(".ts")
        )
    ffmpeg("-i", other, "-c", "copy", "-output_ts_offset", "4", "-y", tmp_path / "later.ts")
    both = one.with_suffix(".ts").read_bytes() + (tmp_path / "later.ts").read_bytes()
    (tmp_path / "both.ts").write_bytes(both)
    ffmpeg("-i", tmp_path / "both.ts", "-c", "copy", "-y", tmp_path / "both.mp4")
    output = made_of(tmp_path / "both.mp4")
    assert surveyed(output).reused is None
    assert output.in_step()
