"""Whole files and stretches of them, made by real engines: every picture once, in step, silent."""

from itertools import pairwise
from pathlib import Path

import pytest

from media.hls.segment import Segment
from media.ladder import AUDIO_RENDITION
from tests.support.engine.decoded_output import onsets, packets
from tests.support.engine.engine_process import ORIGIN, Made
from tests.support.engine.numbered_films import numbered, numbers
from tests.support.engine.sources import ffmpeg
from tests.support.engine.upload_files import FLASHES, film, make_for, probed, read
from transcode.protocol.file_messages import AssetOrder, Ready, Surveyed
from transcode.protocol.messages import EngineReport, EpochFinished

SECOND = 90_000
X264 = ("-c:v", "libx264", "-preset", "ultrafast", "-profile:v", "high", "-sc_threshold", "0")
OWN = (*X264, "-g", "50", "-keyint_min", "50", "-bf", "2")
SIZE = (640, 480)
SMALL = (320, 240)


def film_for(path: Path, *, reuse: bool = True, threads: int = 1) -> AssetOrder:
    make = make_for(probed(path), reuse=reuse)
    return AssetOrder(ladder=make.ladder, reuse=make.reuse, threads=threads)


def surveyed(made: Made) -> Surveyed:
    (found,) = made.of(Surveyed)
    return found


def made_of(path: Path, *, reuse: bool = True, threads: int = 1) -> Made:
    """What one engine makes of a film, and one more of each of its stretches."""
    whole = read("asset", path, film_for(path, reuse=reuse, threads=threads))
    assert (whole.status, whole.complaints) == (0, "")
    reports: list[EngineReport] = list(whole.reports)
    found = surveyed(whole)
    if len(found.spans) > 1:
        for stretch in found.spans:
            apart = read("span", path, stretch)
            assert (apart.status, apart.complaints) == (0, "")
            reports += apart.reports
    return Made(reports, 0, "")


def joined(made: Made, name: str) -> bytes:
    """A rendition as one file: its first init section, and all its segments."""
    inits = {init.data for init in made.inits(name)}
    assert len(inits) == 1
    (init,) = inits
    return init + b"".join(made.data(segment) for segment in made.segments(name))


def is_whole(made: Made, count: int, *, late: int = 0) -> bool:
    """Whether each rung has each picture once and nothing is amiss in any rendition."""
    assert made.in_step()
    for name in made.names:
        file = joined(made, name)
        assert ffmpeg("-i", "pipe:0", "-enc_time_base", "-1", "-f", "null", "-", stdin=file) == ""
        stamps = packets(file)
        assert all(a[0] < b[0] for a, b in pairwise(stamps)), name
        assert all(dts <= pts for dts, pts, _ in stamps), name
        segments = made.segments(name)
        for one, other in pairwise(segments):
            slack = 1_920 if name == AUDIO_RENDITION else 0
            assert abs(one.start + one.duration - other.start) <= slack
        if name != AUDIO_RENDITION:
            assert [number for _, number in numbers(file)][late:] == list(range(late, count)), name
    return True


def sound_is_continuous(made: Made, seconds: float) -> bool:
    stamps = [pts for _, pts, _ in packets(joined(made, AUDIO_RENDITION))]
    assert {b - a for a, b in pairwise(stamps)} == {1024}
    lengths = sum(segment.duration for segment in made.segments(AUDIO_RENDITION))
    assert abs(lengths / SECOND - seconds) < 0.1
    return True


def test_the_films_own_packets_and_sound_come_first_and_as_they_are(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mp4", *OWN, "-c:a", "aac", seconds=9, size=SIZE)
    made = made_of(path)
    found = surveyed(made)
    assert (found.reused, found.kept, len(found.spans)) == ("480p", True, 1)
    order = [
        each.rendition if isinstance(each, Segment) else type(each).__name__
        for each in made.reports
        if isinstance(each, Segment | Ready | EpochFinished)
    ]
    place = order.index("Ready")
    assert set(order[:place]) == {"480p", AUDIO_RENDITION}
    assert set(order[place + 1 : -1]) == {"360p"}
    assert is_whole(made, 225)
    own = packets(path.read_bytes())
    datas = {data for _, _, data in own}
    for name in ("480p", AUDIO_RENDITION):
        assert {data for _, _, data in packets(joined(made, name))} <= datas
    assert len(packets(joined(made, "480p"))) == 225
    assert sound_is_continuous(made, 9)


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
    made = made_of(path, reuse=False)
    assert len(surveyed(made).spans) == 2, surveyed(made)
    assert made.troubles == {}
    assert is_whole(made, 650)
    assert sound_is_continuous(made, 26)


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
    made = made_of(path, reuse=False)
    assert len(surveyed(made).spans) == 2
    assert made.in_step()
    expected = [n for n in range(24 * 60) if (n < 540 or (n % 3 if n < 1020 else not n % 4))]
    file = joined(made, "240p")
    assert ffmpeg("-i", "pipe:0", "-enc_time_base", "-1", "-f", "null", "-", stdin=file) == ""
    seen = numbers(file)
    assert [number for _, number in seen] == expected
    assert all(
        abs(time - ORIGIN - number * 1_500) <= 90 for time, number in seen
    )  # MKV has whole milliseconds


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
    made = made_of(path, reuse=False, threads=2)
    found = surveyed(made)
    assert (len(found.spans), reason in found.reason) == (1, True), found
    assert is_whole(made, 625)


def test_times_that_jump_go_through_the_live_ladder(tmp_path: Path) -> None:
    first = numbered(tmp_path / "a.ts", *OWN, "-c:a", "aac", seconds=4, size=SMALL)
    later = tmp_path / "b.ts"
    ffmpeg("-i", first, "-c", "copy", "-output_ts_offset", "100", "-y", later)
    (tmp_path / "c.ts").write_bytes(first.read_bytes() + later.read_bytes())
    made = made_of(tmp_path / "c.ts")
    found = surveyed(made)
    assert (found.spans, found.reason) == ((), "the times jump")
    assert made.in_step()
    lengths = sum(segment.duration for segment in made.segments("240p"))
    assert abs(lengths / SECOND - 8) < 0.5


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
    made = made_of(path)
    assert surveyed(made).kept is (not sound)
    assert sound_is_continuous(made, 6)
    assert is_whole(made, 150)


def test_sound_that_is_kept_or_made_stays_in_step_with_the_picture(tmp_path: Path) -> None:
    for name, coding in (("a.mp4", ("-c:a", "aac")), ("b.mp4", ("-c:a", "libmp3lame"))):
        path = film(tmp_path / name, *OWN, *coding, seconds=6, size=(640, 360))
        made = made_of(path)
        assert surveyed(made).kept is (name == "a.mp4")
        flashes, _ = onsets(joined(made, "360p"))
        _, beeps = onsets(joined(made, AUDIO_RENDITION))
        assert len(flashes) == len(beeps) == 6
        for second, (flash, beep) in enumerate(zip(flashes, beeps, strict=True)):
            assert abs(flash - (10 + FLASHES + second)) < 0.06
            assert abs(beep - flash) < 0.06


def test_sound_that_ends_early_is_silent_to_the_end(tmp_path: Path) -> None:
    short = "anoisesrc=a=0.3:r=48000:d=2.5:seed=5,aformat=channel_layouts=stereo"
    path = numbered(tmp_path / "a.mp4", *OWN, "-c:a", "aac", seconds=6, size=SMALL, sound=short)
    made = made_of(path)
    assert not surveyed(made).kept
    assert sound_is_continuous(made, 6)


@pytest.mark.parametrize(
    "coding",
    [
        pytest.param(OWN, id="its own packets"),
        pytest.param(("-c:v", "mpeg4"), id="encoded"),
        # Of the packets of B-frames in AVI none has a presentation time.
        pytest.param(("-c:v", "mpeg4", "-bf", "2", "-vtag", "xvid"), id="by the live engine"),
    ],
)
def test_a_file_without_sound_gets_no_audio_rendition(
    tmp_path: Path, coding: tuple[str, ...]
) -> None:
    name = "a.avi" if "xvid" in coding else "a.mp4"
    made = made_of(numbered(tmp_path / name, *coding, seconds=4, size=SMALL, sound=None))
    assert not surveyed(made).audible
    assert made.names == ["240p"]
    assert sum(segment.frames for segment in made.segments("240p")) == 100


def test_a_file_that_turns_in_the_middle_does_not_lend_its_packets(tmp_path: Path) -> None:
    """A sequence parameter set of another size in the stream: players would be lost."""
    one = numbered(tmp_path / "a.mp4", *OWN, seconds=4, size=SMALL, sound=None)
    other = numbered(tmp_path / "b.mp4", *OWN, seconds=4, size=(240, 180), sound=None)
    for path in (one, other):
        ffmpeg(
            "-i", path, "-c", "copy", "-bsf:v", "h264_mp4toannexb", "-y", path.with_suffix(".ts")
        )
    ffmpeg("-i", other, "-c", "copy", "-output_ts_offset", "4", "-y", tmp_path / "later.ts")
    both = one.with_suffix(".ts").read_bytes() + (tmp_path / "later.ts").read_bytes()
    (tmp_path / "both.ts").write_bytes(both)
    ffmpeg("-i", tmp_path / "both.ts", "-c", "copy", "-y", tmp_path / "both.mp4")
    made = made_of(tmp_path / "both.mp4")
    assert surveyed(made).reused is None
    assert made.in_step()


def test_damage_in_a_stretch_costs_pictures_and_not_the_film(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mp4", *OWN, "-c:a", "aac", seconds=24, size=SMALL)
    found = surveyed(read("asset", path, film_for(path, reuse=False)))
    data = bytearray(path.read_bytes())
    # In the second stretch's media: its index stands at the end.
    middle = len(data) * 3 // 4
    data[middle : middle + 6_000] = bytes(6_000)
    path.write_bytes(data)
    assert len(found.spans) == 2
    for stretch in found.spans:
        apart = read("span", path, stretch)
        assert apart.status == 0
        lengths = sum(segment.duration for segment in apart.segments("240p"))
        # A cut lies a little before its picture.
        assert 0 <= stretch.end - stretch.cuts[0] - lengths <= 750
        assert len(apart.segments("240p")) == len(stretch.cuts)


def test_a_stretch_of_another_file_ends_with_what_is_there(tmp_path: Path) -> None:
    """The file was replaced by a shorter one meanwhile: nothing hangs, every segment is there."""
    path = numbered(tmp_path / "a.mp4", *OWN, "-c:a", "aac", seconds=24, size=SMALL)
    found = surveyed(read("asset", path, film_for(path, reuse=False)))
    short = numbered(tmp_path / "b.mp4", *OWN, "-c:a", "aac", seconds=5, size=SMALL)
    order = found.spans[-1]
    apart = read("span", short, order)
    assert apart.status == 0
    assert len(apart.segments(order.rungs[0].name)) == len(order.cuts)
    assert "pictures missing" in apart.troubles


@pytest.mark.parametrize("threads", [1, pytest.param(2, marks=pytest.mark.prove), 3])
def test_threads_change_nothing_of_what_is_made(tmp_path: Path, threads: int) -> None:
    path = numbered(tmp_path / "a.mp4", *OWN, "-c:a", "aac", seconds=5, size=(854, 480))
    one = made_of(path, reuse=False)
    many = made_of(path, reuse=False, threads=threads)
    assert many.names == ["360p", "480p", AUDIO_RENDITION]
    for name in many.names:
        assert joined(many, name) == joined(one, name)
