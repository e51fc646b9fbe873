"""The sound of an asset, copied or made anew: in step, without a hole, to its end."""

import io
from itertools import pairwise
from pathlib import Path

import av
import pytest

from media.ladder import AUDIO_RENDITION
from tests.support.engine.decoded_output import onsets
from tests.support.engine.edited_films import joined_films
from tests.support.engine.engine_process import ORIGIN
from tests.support.engine.made_assets import (
    OWN,
    SECOND,
    SMALL,
    joined,
    made_of,
    sound_is_continuous,
    surveyed,
)
from tests.support.engine.numbered_films import numbered
from tests.support.engine.sources import ffmpeg
from tests.support.engine.upload_files import FLASHES, film


def test_sound_that_is_kept_or_made_stays_in_step_with_the_picture(tmp_path: Path) -> None:
    for name, coding in (("a.mp4", ("-c:a", "aac")), ("b.mp4", ("-c:a", "libmp3lame"))):
        path = film(tmp_path / name, *OWN, *coding, seconds=6, size=(640, 72))
        output = made_of(path)
        assert surveyed(output).kept is (name == "a.mp4")
        flashes, _ = onsets(joined(output, "360p"))
        _, beeps = onsets(joined(output, AUDIO_RENDITION))
        assert len(flashes) == len(beeps) == 6
        for second, (flash, beep) in enumerate(zip(flashes, beeps, strict=True)):
            assert abs(flash - (10 + FLASHES + second)) < 0.06
            assert abs(beep - flash) < 0.06


def test_sound_that_ends_early_is_silent_to_the_end(tmp_path: Path) -> None:
    short = "anoisesrc=a=0.3:r=48000:d=2.5:seed=5,aformat=channel_layouts=stereo"
    path = numbered(tmp_path / "a.mp4", *OWN, "-c:a", "aac", seconds=6, size=SMALL, sound=short)
    output = made_of(path)
    assert not surveyed(output).kept
    assert sound_is_continuous(output, 6)


@pytest.mark.parametrize("coding", [OWN, (*OWN, "-bf", "0")], ids=["reordered", "in order"])
def test_the_last_picture_lasts_as_long_as_sound_that_is_longer(
    tmp_path: Path, coding: tuple[str, ...]
) -> None:
    noise = "anoisesrc=a=0.3:r=48000:d=6.5:seed=5,aformat=channel_layouts=stereo"
    path = tmp_path / "a.mp4"
    picture = numbered(tmp_path / "p.mp4", *coding, seconds=5, size=SMALL, sound=None)
    longer = ("-f", "lavfi", "-i", noise, "-c:v", "copy", "-c:a", "aac")
    ffmpeg("-i", picture, *longer, "-y", path)
    output = made_of(path)
    assert surveyed(output).reused == "240p"
    lengths = {
        name: sum(segment.duration for segment in output.segments(name)) / SECOND
        for name in output.names
    }
    assert all(abs(length - 6.5) < 0.03 for length in lengths.values()), lengths
    last = output.segments("240p")[-1]
    with av.open(io.BytesIO(output.inits("240p")[0].data + output.data(last)), "r") as container:
        ticks = sum(packet.duration or 0 for packet in container.demux())
    assert abs(ticks - last.duration) <= SECOND // 10


@pytest.mark.parametrize(
    "coding",
    [
        pytest.param(OWN, id="its own packets"),
        pytest.param(("-c:v", "mpeg4"), id="encoded"),
        pytest.param(("-c:v", "mpeg4", "-bf", "2", "-vtag", "xvid"), id="B-frames in AVI"),
    ],
)
def test_a_file_without_sound_gets_no_audio_rendition(
    tmp_path: Path, coding: tuple[str, ...]
) -> None:
    name = "a.avi" if "xvid" in coding else "a.mp4"
    output = made_of(numbered(tmp_path / name, *coding, seconds=4, size=SMALL, sound=None))
    assert not surveyed(output).audible
    assert output.names == ["240p"]
    assert sum(segment.frames for segment in output.segments("240p")) == 100


@pytest.mark.parametrize("name", ["a.flv", "a.mp4"])
def test_sound_whose_configuration_changes_is_made_anew_and_keeps_its_time(
    tmp_path: Path, name: str
) -> None:
    """The first film is of 44.1 kHz, the second one of 48 kHz and two channels."""
    films = [
        film(tmp_path / f"{rate}.mp4", *OWN, "-c:a", "aac", "-ar", str(rate), seconds=3,
             size=SMALL, sound=layout)
        for rate, layout in ((44_100, "mono"), (48_000, "stereo"))
    ]  # fmt: skip
    output = made_of(joined_films(tmp_path / name, *films))
    assert (surveyed(output).kept, output.troubles) == (False, {})
    flashes, _ = onsets(joined(output, "240p"))
    _, beeps = onsets(joined(output, AUDIO_RENDITION))
    assert len(beeps) == 6
    for flash, beep in zip(flashes, beeps, strict=True):
        assert abs(beep - flash) < 0.05, (flashes, beeps, ORIGIN / SECOND)


def test_channels_that_have_positions_of_their_own_are_heard(tmp_path: Path) -> None:
    """A MOV lists the channels of 6.1 in an order that no usual layout has."""
    path = film(tmp_path / "a.mov", *OWN, "-c:a", "pcm_s16le", size=SMALL, sound="6.1")
    _, beeps = onsets(joined(made_of(path), AUDIO_RENDITION))
    assert [round(beep - ORIGIN / SECOND, 1) for beep in beeps] == [0.4, 1.4, 2.4]


@pytest.mark.parametrize(
    ("name", "coding"), [("a.mov", ("-c:a", "aac")), ("a.mxf", ("-c:v", "mpeg2video"))]
)
def test_two_tracks_of_one_channel_are_heard_on_the_left_and_on_the_right(
    tmp_path: Path, name: str, coding: tuple[str, ...]
) -> None:
    """The right one beeps 0.3 s later."""
    whole = film(tmp_path / "whole.mkv", *OWN, "-c:a", "pcm_s16le", size=SMALL)
    sides = "[0:a]aresample=48000,asplit[left][a];[a]adelay=300[right]"
    maps = ("-map", "0:v", "-map", "[left]", "-map", "[right]", "-c:v", "copy")
    ffmpeg("-i", whole, "-filter_complex", sides, *maps, *coding, "-y", tmp_path / name)
    output = made_of(tmp_path / name)
    assert (surveyed(output).kept, output.troubles) == (False, {"tracks paired": 1})
    assert sound_is_continuous(output, 3)
    flashes, _ = onsets(joined(output, "240p"))
    assert len(flashes) == 3
    for channel, later in enumerate((0, 0.3)):
        _, beeps = onsets(joined(output, AUDIO_RENDITION), channel)
        assert beeps == pytest.approx([flash + later for flash in flashes], abs=0.05)


def test_two_languages_of_one_channel_are_not_left_and_right(tmp_path: Path) -> None:
    film(tmp_path / "whole.mkv", *OWN, "-c:a", "aac", size=SMALL)
    maps = ("-map", "0:v", "-map", "0:a", "-map", "0:a", "-c", "copy")
    named = ("-metadata:s:a:0", "language=eng", "-metadata:s:a:1", "language=deu")
    ffmpeg("-i", tmp_path / "whole.mkv", *maps, *named, "-y", tmp_path / "a.mkv")
    output = made_of(tmp_path / "a.mkv")
    assert output.troubles == {"tracks left out": 1}


@pytest.mark.parametrize(
    ("first", "second"), [(48_000, 44_100), pytest.param(44_100, 48_000, marks=pytest.mark.prove)]
)
def test_sound_of_a_rate_that_no_configuration_says_is_heard_at_its_times(
    tmp_path: Path, first: int, second: int
) -> None:
    """FFmpeg joins films to an FLV with the configuration of the first one only."""
    names = [tmp_path / f"{rate}.flv" for rate in (first, second)]
    for name, rate in zip(names, (first, second), strict=True):
        beeps = f"aevalsrc='0.8*sin(2*PI*1000*t)*gte(t,0.4)*lt(mod(t-0.4,1),0.1)':s={rate}"
        numbered(name, *OWN, "-c:a", "aac", seconds=4, size=SMALL, sound=beeps)
    listed = tmp_path / "list.txt"
    listed.write_text("".join(f"file '{name}'\n" for name in names))
    path = tmp_path / "a.flv"
    ffmpeg("-f", "concat", "-safe", "0", "-i", listed, "-c", "copy", "-y", path)
    _, heard = onsets(joined(made_of(path), AUDIO_RENDITION))
    steps = [later - earlier for earlier, later in pairwise(heard)]
    assert len(heard) == 8
    assert steps[:3] + steps[4:] == pytest.approx([1.0] * 6, abs=0.01)
