"""A span: every picture once over its seams, whatever is damaged, missing or shared out."""

import io
from itertools import pairwise
from pathlib import Path

import av
import pytest

from media.ladder import AUDIO_RENDITION
from tests.support.engine.decoded_output import frames, onsets, warnings_of
from tests.support.engine.edited_films import edited, joined_films
from tests.support.engine.engine_process import ORIGIN
from tests.support.engine.made_assets import (
    OWN,
    SECOND,
    SMALL,
    X264,
    film_for,
    is_whole,
    joined,
    made_of,
    sound_is_continuous,
    surveyed,
)
from tests.support.engine.numbered_films import numbered, numbers
from tests.support.engine.sources import ffmpeg
from tests.support.engine.upload_files import read


@pytest.mark.parametrize(
    ("name", "coding"),
    [
        pytest.param("a.mp4", (*OWN, "-c:a", "aac"), id="its own keyframes"),
        pytest.param(
            "b.mkv", (*X264, "-g", "130", "-bf", "2", "-c:a", "libopus"), id="5 s apart, in MKV",
            marks=pytest.mark.prove,
        ),
        pytest.param(
            "c.mp4",
            ("-c:v", "libx265", "-preset", "ultrafast", "-x265-params",
             "log-level=none:bframes=3:keyint=100", "-c:a", "aac", "-ac", "1"),
            id="HEVC, open groups",
        ),
        pytest.param(
            "d.webm",
            ("-c:v", "libvpx-vp9", "-deadline", "realtime", "-cpu-used", "8", "-g", "90",
             "-b:v", "1M", "-c:a", "libopus"),
            id="VP9 in WebM",
            marks=pytest.mark.prove,
        ),
    ],
)  # fmt: skip
def test_stretches_hold_every_picture_once_over_their_seams(
    tmp_path: Path, name: str, coding: tuple[str, ...]
) -> None:
    path = numbered(tmp_path / name, *coding, seconds=26, size=SMALL)
    output = made_of(path, reuse=False)
    assert len(surveyed(output).spans) == 2, surveyed(output)
    assert output.troubles == {}
    assert is_whole(output, 650)
    assert sound_is_continuous(output, 26)


def test_a_rate_that_varies_keeps_every_picture_and_its_time(tmp_path: Path) -> None:
    """Of 60 pictures a second a third is left out for a while, and then most of them."""
    drop = ",select='if(lt(t,9),1,if(lt(t,17),mod(n,3),not(mod(n,4))))'"
    path = numbered(
        tmp_path / "a.mkv",
        *(*X264, "-g", "90", "-bf", "2", "-vsync", "vfr", "-c:a", "aac"),
        seconds=24,
        size=SMALL,
        rate="60",
        filters=drop,
    )
    output = made_of(path, reuse=False)
    assert len(surveyed(output).spans) == 2
    assert output.in_step()
    expected = [n for n in range(24 * 60) if (n < 540 or (n % 3 if n < 1020 else not n % 4))]
    file = joined(output, "240p")
    assert warnings_of([("240p", file)]) == {}
    numbers_seen = numbers(file)
    assert [number for _, number in numbers_seen] == expected
    assert all(
        abs(time - ORIGIN - number * 1_500) <= 90 for time, number in numbers_seen
    )  # MKV has whole milliseconds


def test_damage_in_a_stretch_costs_pictures_and_not_the_film(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mp4", *OWN, "-c:a", "aac", seconds=24, size=SMALL)
    survey = surveyed(read("asset", path, film_for(path, reuse=False)))
    data = bytearray(path.read_bytes())
    # Damage in the media of the second stretch: the index is at the end of the file.
    middle = len(data) * 3 // 4
    data[middle : middle + 6_000] = bytes(6_000)
    path.write_bytes(data)
    assert len(survey.spans) == 2
    for stretch in survey.spans:
        apart = read("span", path, stretch)
        assert apart.status == 0
        lengths = sum(segment.duration for segment in apart.segments("240p"))
        # A cut is slightly before its picture.
        assert 0 <= stretch.end - stretch.cuts[0] - lengths <= 750
        assert len(apart.segments("240p")) == len(stretch.cuts)


def test_a_stretch_of_another_file_ends_with_what_is_there(tmp_path: Path) -> None:
    """The file was replaced by a shorter one meanwhile: nothing hangs, every segment is there."""
    path = numbered(tmp_path / "a.mp4", *OWN, "-c:a", "aac", seconds=24, size=SMALL)
    survey = surveyed(read("asset", path, film_for(path, reuse=False)))
    short = numbered(tmp_path / "b.mp4", *OWN, "-c:a", "aac", seconds=5, size=SMALL)
    order = survey.spans[-1]
    apart = read("span", short, order)
    assert apart.status == 0
    assert len(apart.segments(order.rungs[0].name)) == len(order.cuts)
    assert "pictures missing" in apart.troubles


@pytest.mark.parametrize("threads", [1, pytest.param(2, marks=pytest.mark.prove), 3])
def test_threads_change_nothing_of_what_is_made(tmp_path: Path, threads: int) -> None:
    path = numbered(tmp_path / "a.mp4", *OWN, "-c:a", "aac", seconds=5, size=(854, 96))
    one = made_of(path, reuse=False)
    many = made_of(path, reuse=False, threads=threads)
    assert many.names == ["360p", "480p", AUDIO_RENDITION]
    for name in many.names:
        assert joined(many, name) == joined(one, name)


BEEPS = "aevalsrc=0.8*sin(2*PI*1000*t)*lt(mod(t\\,1)\\,0.1):s=48000"


@pytest.mark.parametrize(
    ("name", "coding"),
    [
        pytest.param("a.mp4", (*OWN, "-c:a", "aac"), id="H.264"),
        pytest.param(
            "b.mp4",
            ("-c:v", "libx265", "-preset", "ultrafast", "-x265-params",
             "log-level=none:bframes=3:keyint=50", "-c:a", "aac"),
            id="HEVC, open groups",
        ),
        pytest.param(
            "c.mov", ("-c:v", "mpeg4", "-bf", "2", "-g", "50", "-c:a", "pcm_s16le"),
            id="MPEG-4 in MOV", marks=pytest.mark.prove,
        ),
        pytest.param(
            "d.mp4", ("-c:v", "libvpx-vp9", "-deadline", "realtime", "-cpu-used", "8", "-g", "50",
                      "-c:a", "aac"),
            id="VP9", marks=pytest.mark.prove,
        ),
    ],
)  # fmt: skip
def test_an_edit_list_shows_its_parts_which_begin_anywhere(
    tmp_path: Path, name: str, coding: tuple[str, ...]
) -> None:
    """Decoding begins before each part, and for the second one goes back to a keyframe."""
    path = numbered(tmp_path / name, *coding, seconds=8, size=SMALL, sound=BEEPS)
    output = made_of(edited(path, (2, 0.48), (3, 4.32)))
    assert output.troubles == {}
    shown = [number for _, number in numbers(joined(output, "240p"))]
    assert shown == [*range(12, 62), *range(108, 183)]
    _, beeps = onsets(joined(output, AUDIO_RENDITION))
    assert [round(beep - ORIGIN / SECOND, 1) for beep in beeps] == [0.5, 1.5, 2.7, 3.7, 4.7]


def test_an_edit_list_in_a_long_film_is_read_from_its_beginning(tmp_path: Path) -> None:
    """By its index, a seek would lead to the wrong part."""
    path = numbered(tmp_path / "a.mp4", *OWN, seconds=40, size=SMALL, sound=None)
    output = made_of(edited(path, (11, 20.12), (14, 2.2)))
    (span,) = surveyed(output).spans
    assert span.alone
    assert "edit list" in surveyed(output).reason
    shown = [number for _, number in numbers(joined(output, "240p"))]
    assert shown == [*range(503, 778), *range(55, 405)]


def test_an_edit_list_that_begins_with_nothing_shows_the_first_picture(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mp4", *OWN, "-c:a", "aac", seconds=4, size=SMALL)
    output = made_of(edited(path, (1, None), (4, 0)))
    times = [pts for pts, _, _ in frames(joined(output, "240p"))]
    step = times[2] - times[1]
    assert (len(times), times[1] - times[0]) == (100, 26 * step)
    assert sum(segment.duration for segment in output.segments("240p")) == 5 * SECOND
    assert sound_is_continuous(output, 5)


@pytest.mark.parametrize(
    ("name", "coding"),
    [
        pytest.param("a.avi", (*X264, "-bf", "3"), id="H.264 in AVI"),
        pytest.param("b.avi", ("-c:v", "mpeg4", "-bf", "2", "-vtag", "xvid"), id="MPEG-4 in AVI"),
        pytest.param("c.avi", ("-c:v", "mpeg2video", "-bf", "2"), id="MPEG-2 in AVI",
                     marks=pytest.mark.prove),
        pytest.param("d.mkv", (*X264, "-bf", "3", "-bsf:v", "setts=pts=DTS"),
                     id="taken out of AVI"),
    ],
)  # fmt: skip
def test_times_of_decoding_are_put_in_the_order_of_showing(
    tmp_path: Path, name: str, coding: tuple[str, ...]
) -> None:
    """Neither AVI nor what is made of it says when B-frames are shown."""
    path = numbered(tmp_path / name, *coding, seconds=4, size=SMALL, sound=None)
    output = made_of(path)
    assert output.troubles == {}
    shown = numbers(joined(output, "240p"))
    assert [number for _, number in shown] == list(range(100))
    assert {after[0] - before[0] for before, after in pairwise(shown)} == {
        shown[1][0] - shown[0][0]
    }


@pytest.mark.parametrize(
    ("name", "coding"),
    [
        pytest.param("a.mp4", (*X264, "-bf", "2"), id="H.264"),
        pytest.param("b.mkv", ("-c:v", "mpeg2video", "-bf", "2"), id="MPEG-2"),
    ],
)
def test_pixels_that_change_their_shape_keep_it(
    tmp_path: Path, name: str, coding: tuple[str, ...]
) -> None:
    """The second film's pictures are half as wide, so they get bars, each of them."""
    films = [tmp_path / f"{number}.mp4" for number in (1, 2)]
    for film, aspect in zip(films, ("16/9", "4/3"), strict=True):
        white = f"color=white:s=160x90:r=25:d=1,setdar={aspect}"
        ffmpeg("-f", "lavfi", "-i", white, *coding, "-pix_fmt", "yuv420p", "-y", film)
    joined_films(tmp_path / name, *films)
    output = made_of(tmp_path / name)
    assert output.troubles == {}
    (rung,) = output.names
    bars: list[bool] = []
    with av.open(io.BytesIO(joined(output, rung)), "r") as container:
        for frame in container.decode(video=0):
            plane = frame.planes[0]
            bars.append(bytes(plane)[45 * plane.line_size + 5] < 50)
    assert bars == [False] * 25 + [True] * 25
