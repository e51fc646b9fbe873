"""Pictures that stand still: shown for their time, in segments that are as long as they say."""

import io
from pathlib import Path

import av
import pytest

from media.ladder import AUDIO_RENDITION
from tests.support.engine.decoded_output import onsets, packets, warnings_of
from tests.support.engine.engine_process import ORIGIN, EngineOutput
from tests.support.engine.made_assets import (
    OWN,
    SECOND,
    SMALL,
    X264,
    joined,
    made_of,
    sound_is_continuous,
    surveyed,
)
from tests.support.engine.numbered_films import numbered, numbers

MUSIC = "aevalsrc='0.8*sin(2*PI*1000*t)*lt(mod(t,1),0.1)':s=44100:d={},aformat=channel_layouts=mono"
STANDS = ",select='lt(t,2)+gte(t,27)'"
ENDS = ",select='lt(t,2)+gte(t,6)'"
AAC = ("-c:a", "aac")
VFR = ("-vsync", "vfr")


def standing(output: EngineOutput, name: str) -> list[tuple[int, float]]:
    """Return the numbers of a rendition's pictures, and from when on each is shown in seconds."""
    shown: list[tuple[int, float]] = []
    for time, number in numbers(joined(output, name)):
        if not shown or shown[-1][0] != number:
            shown.append((number, (time - ORIGIN) / SECOND))
    return shown


def false_lengths(output: EngineOutput, name: str, target: float = 3) -> list[str]:
    """Return the segments of a rendition whose samples do not last as long as they say."""
    false: list[str] = []
    (init,) = {init.data for init in output.inits(name)}
    for segment in output.segments(name):
        with av.open(io.BytesIO(init + output.data(segment)), "r") as container:
            (stream,) = container.streams
            assert stream.time_base is not None
            ticks = sum(packet.duration or 0 for packet in container.demux(stream))
        media, claimed = float(ticks * stream.time_base), segment.duration / SECOND
        if abs(media - claimed) > 0.05 or claimed > target:
            false.append(f"segment {segment.sequence} says {claimed} s and has {media} s")
    return false


def is_true(output: EngineOutput, seconds: float) -> bool:
    assert output.in_step()
    assert warnings_of([(name, joined(output, name)) for name in output.names]) == {}
    for name in output.names:
        assert false_lengths(output, name) == []
        stamps = packets(joined(output, name))
        assert all(dts <= pts for dts, pts, _ in stamps)
        lengths = sum(segment.duration for segment in output.segments(name)) / SECOND
        assert abs(lengths - seconds) < 0.05, name
    return True


@pytest.mark.parametrize(
    ("name", "each", "coding", "sound"),
    [
        pytest.param("a.mp4", 15, (*X264, "-bf", "2"), False, id="15 s, reordered, silent"),
        pytest.param("a.mkv", 25, (*X264, "-bf", "2", *AAC), True, id="25 s, with music"),
        pytest.param(
            "a.ts", 12, (*X264, "-bf", "2", *AAC), True, id="12 s, TS", marks=pytest.mark.prove
        ),
        pytest.param("a.mov", 30, ("-c:v", "mpeg4"), False, id="30 s", marks=pytest.mark.prove),
    ],
)
def test_each_slide_is_shown_for_its_time(
    tmp_path: Path, name: str, each: int, coding: tuple[str, ...], sound: bool
) -> None:
    seconds, music = 3 * each, MUSIC.format(3 * each) if sound else None
    path = numbered(
        tmp_path / name, *coding, seconds=seconds, size=SMALL, rate=f"1/{each}", sound=music
    )
    output = made_of(path)
    assert is_true(output, seconds)
    slides = [(number, round(at, 1)) for number, at in standing(output, "240p")]
    assert slides == [(number, number * each) for number in range(3)]
    if sound:
        assert sound_is_continuous(output, seconds)
    if name == "a.ts":  # finding them takes seconds
        _, beeps = onsets(joined(output, AUDIO_RENDITION))
        assert len(beeps) == seconds
        assert all(abs(at - 10 - second) < 0.05 for second, at in enumerate(beeps))


@pytest.mark.parametrize(
    ("name", "coding", "sound"),
    [
        pytest.param("a.mov", (*OWN, *VFR), False, id="in MOV, silent, reordered"),
        pytest.param("a.mkv", (*X264, *VFR), False, id="in Matroska, silent"),
        pytest.param("b.mov", (*X264, *VFR, *AAC), True, id="sound", marks=pytest.mark.prove),
        pytest.param("a.ts", (*OWN, *VFR, *AAC), True, id="TS", marks=pytest.mark.prove),
    ],
)
def test_a_screen_on_which_nothing_moved_is_shown_for_as_long(
    tmp_path: Path, name: str, coding: tuple[str, ...], sound: bool
) -> None:
    music = MUSIC.format(30) if sound else None
    path = numbered(tmp_path / name, *coding, seconds=30, size=SMALL, sound=music, filters=STANDS)
    output = made_of(path)
    assert is_true(output, 30)
    shown = standing(output, "240p")
    assert [number for number, _ in shown] == [*range(50), *range(675, 750)]
    assert all(abs(at - number / 25) < 0.005 for number, at in shown)


def test_a_first_picture_of_twelve_seconds_and_a_last_one_of_seven(tmp_path: Path) -> None:
    """The decode time of the first one was below zero."""
    filters = ",select='eq(n,0)+between(n,300,374)'"
    path = numbered(
        tmp_path / "a.mp4", *(*OWN, *VFR, *AAC), seconds=22, size=SMALL, filters=filters
    )
    output = made_of(path)
    assert is_true(output, 22)
    assert [number for number, _ in standing(output, "240p")] == [0, *range(300, 375)]


def test_a_video_ends_in_time_shortly_after_a_picture_that_stood(tmp_path: Path) -> None:
    """The last picture is decoded before others: its sample lasted as long as the one before."""
    path = numbered(
        tmp_path / "a.mp4", *X264, *VFR, seconds=6.12, size=SMALL, sound=None, filters=ENDS
    )
    output = made_of(path)
    assert is_true(output, 6.12)
    assert len(standing(output, "240p")) == 53


def test_a_file_cut_off_where_a_gap_would_follow_ends_with_its_last_picture(
    tmp_path: Path,
) -> None:
    coding = (*X264, "-bf", "2", *VFR, "-movflags", "+faststart")
    path = numbered(tmp_path / "a.mp4", *coding, seconds=30, size=SMALL, sound=None, filters=STANDS)
    with av.open(path, "r") as container:
        found = list(container.demux(container.streams.video[0]))
    before = max(found, key=lambda packet: packet.duration or 0)
    cut = path.with_name("cut.mp4")
    cut.write_bytes(path.read_bytes()[: (before.pos or 0) + before.size])
    output = made_of(cut)
    (*_, (_, last)) = standing(output, "240p")
    assert is_true(output, last + 0.04)
    assert surveyed(output).reached / SECOND < last + 0.1


def test_hours_of_silence_behind_a_picture_that_stands_are_made_piece_by_piece(
    tmp_path: Path,
) -> None:
    """A minute of them; in one piece, those of a day would take more memory than there is."""
    coding = ("-c:v", "mpeg4", "-c:a", "libmp3lame")
    path = numbered(
        tmp_path / "a.mp4", *coding, seconds=60, size=SMALL, rate="1/30", sound=MUSIC.format(1)
    )
    output = made_of(path)
    assert is_true(output, 60)
    assert not surveyed(output).kept
    assert sound_is_continuous(output, 60)


def test_slides_with_a_keyframe_each_are_copied_unless_decoding_runs_ahead(tmp_path: Path) -> None:
    """With B-frames a picture of three seconds is decoded six seconds before it is shown."""
    plain = numbered(
        tmp_path / "a.mp4", *X264, "-g", "1", seconds=12, size=SMALL, rate="1/3", sound=None
    )
    ahead = ("-x264-params", "keyint=2:min-keyint=2:bframes=1")
    reordered = numbered(
        tmp_path / "b.mp4", *X264, *ahead, seconds=12, size=SMALL, rate="1/3", sound=None
    )
    for path, reused in ((plain, "240p"), (reordered, None)):
        output = made_of(path)
        assert surveyed(output).reused == reused
        assert is_true(output, 12)
        assert [number for number, _ in standing(output, "240p")] == [0, 1, 2, 3]
