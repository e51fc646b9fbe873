"""The survey of a file's packets: whether it can be split, and whether packets are reused."""

import io
from collections.abc import Sequence
from pathlib import Path

import av
import pytest

from tests.support.engine.edited_films import joined_films
from tests.support.engine.made_assets import (
    OWN,
    SMALL,
    X264,
    is_whole,
    joined,
    made_of,
    surveyed,
)
from tests.support.engine.numbered_films import numbered, numbers
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


@pytest.mark.parametrize(
    ("name", "codings", "seconds"),
    [
        pytest.param("a.mp4", (OWN, (*OWN, "-bf", "0", "-profile:v", "main")), 11, id="H.264"),
        pytest.param("b.flv", (OWN, (*OWN, "-bf", "0", "-profile:v", "main")), 3, id="FLV"),
        pytest.param(
            "c.mp4",
            [("-c:v", "libx265", "-preset", "ultrafast", "-tag:v", "hvc1", "-x265-params",
              f"log-level=none:bframes={count}") for count in (3, 0)],
            3, id="HEVC", marks=pytest.mark.prove,
        ),
        pytest.param("d.mp4", [("-c:v", "mpeg4", "-q:v", str(level)) for level in (3, 4)], 3,
                     id="MPEG-4"),
    ],
)  # fmt: skip
def test_a_track_of_several_configurations_is_decoded_with_each(
    tmp_path: Path, name: str, codings: Sequence[tuple[str, ...]], seconds: int
) -> None:
    films = [
        numbered(tmp_path / f"{place}.mp4", *coding, seconds=seconds, size=SMALL, sound=None)
        for place, coding in enumerate(codings)
    ]
    output = made_of(joined_films(tmp_path / name, *films))
    assert (surveyed(output).reused, output.troubles) == (None, {})
    assert len(surveyed(output).spans) == (2 if seconds > 10 else 1)
    shown = [number for _, number in numbers(joined(output, "240p"))]
    assert shown == 2 * list(range(25 * seconds))


def test_an_encoder_that_repeats_its_configuration_lends_its_packets(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mp4", *OWN, seconds=4, size=SMALL, sound=None)
    output = made_of(joined_films(tmp_path / "b.flv", path, path))
    assert surveyed(output).reused == "240p"


@pytest.mark.parametrize(
    ("name", "palettes"),
    [
        pytest.param("a.avi", ("palettegen=stats_mode=single", "paletteuse=new=1"), id="AVI, two"),
        pytest.param("a.mov", ("palettegen", "paletteuse"), id="MOV, one for all"),
    ],
)
def test_palettes_colour_the_pictures(tmp_path: Path, name: str, palettes: tuple[str, str]) -> None:
    colours = "color=red:s=64x64:r=5:d=24,drawbox=c=blue:t=fill:enable='gte(t,12)',format=rgb24"
    graph = f"{colours},split[a][b];[a]{palettes[0]}[p];[b][p]{palettes[1]}"
    coding = ("-c:v", "rawvideo", "-pix_fmt", "pal8")
    ffmpeg("-f", "lavfi", "-i", graph, *coding, "-y", tmp_path / name)
    output = made_of(tmp_path / name)
    assert (len(surveyed(output).spans), output.troubles) == (1, {})
    (rung,) = output.names
    reds = 0
    with av.open(io.BytesIO(joined(output, rung)), "r") as container:
        for frame in container.decode(video=0):
            red, _, blue = bytes(frame.reformat(format="rgb24").planes[0])[:3]
            assert max(red, blue) > 200 > 50 > min(red, blue)
            reds += red > blue
    assert reds == 60
