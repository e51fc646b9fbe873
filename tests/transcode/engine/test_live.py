"""Whole epochs through a real engine process, with sources as OBS makes them."""

import io
import itertools
from collections.abc import Iterable
from pathlib import Path

import av
import msgspec
import pytest

from media.ladder import AUDIO_RENDITION, Ladder, Rendition, ladder_for
from media.segment import InitSection, Part, Segment
from media.ticks import VIDEO_SCALE
from tests.transcode.engine.child import LABELS, ORIGIN, Made, begin, orders, run
from tests.transcode.engine.sources import Source, scenes, source_of
from tests.transcode.engine.viewing import frames, loudness, onsets, packets, warnings
from transcode.wire import Begin, Finish, Finished, Packet, Prepared, Progress

FRAME = VIDEO_SCALE // 30
AAC_FRAME = 1920
SECOND = VIDEO_SCALE


@pytest.fixture(scope="module")
def made(two_seconds: Source) -> Made:
    return run(orders(two_seconds, begin(two_seconds)))


@pytest.fixture(scope="module")
def encoded(small: Source) -> Made:
    return run(orders(small, begin(small, reuse=False)))


def finished(made: Made) -> Finished:
    (last,) = made.of(Finished)
    return last


def starts(made: Made, name: str) -> list[int]:
    return [segment.start for segment in made.segments(name)]


def in_step(made: Made) -> bool:
    """Whether all renditions have the same segments, at the same time, with the same marks."""
    picture = [name for name in made.names if name != AUDIO_RENDITION]
    first = made.segments(picture[0])
    for name in made.names:
        segments = made.segments(name)
        assert [each.sequence for each in segments] == [each.sequence for each in first]
        assert [each.discontinuity for each in segments] == [each.discontinuity for each in first]
        most = FRAME + AAC_FRAME if name == AUDIO_RENDITION else 0
        assert all(abs(a.start - b.start) <= most for a, b in zip(segments, first, strict=True))
    return True


# -- a source whose packets are reused ------------------------------------------------------------


def test_the_engine_ends_well_and_silent(made: Made) -> None:
    assert (made.status, made.complaints, made.troubles) == (0, "", {})


def test_it_says_what_it_makes_before_it_does(made: Made) -> None:
    prepared = made.reports[0]
    assert prepared == Prepared(
        epoch=0, names=("720p", "480p", "360p", AUDIO_RENDITION), reused="720p"
    )
    assert made.names == ["360p", "480p", "720p", AUDIO_RENDITION]


def test_ffmpeg_decodes_every_rendition_without_a_word(made: Made) -> None:
    assert warnings(made) == {}


def test_the_top_rung_is_the_source_byte_for_byte(made: Made, two_seconds: Source) -> None:
    (file,) = made.files("720p")
    assert [data for _, _, data in packets(file)] == [
        packet.data for packet in two_seconds.pictures
    ]


def test_the_top_rung_has_the_sources_times(made: Made, two_seconds: Source) -> None:
    (file,) = made.files("720p")
    first = two_seconds.pictures[0].pts
    assert [(dts, pts) for dts, pts, _ in packets(file)] == [
        (ORIGIN + 90 * (packet.dts - first), ORIGIN + 90 * (packet.pts - first))
        for packet in two_seconds.pictures
    ]


@pytest.mark.parametrize(
    ("name", "size"),
    [("720p", (1280, 720)), ("480p", (852, 480)), ("360p", (640, 360))],
)
def test_a_rung_has_its_size_and_every_frame(
    made: Made, two_seconds: Source, name: str, size: tuple[int, int]
) -> None:
    (file,) = made.files(name)
    shown = frames(file)
    assert {(width, height) for _, width, height in shown} == {expected(two_seconds, name, size)}
    first = two_seconds.pictures[0].pts
    wanted = sorted(ORIGIN + 90 * (packet.pts - first) for packet in two_seconds.pictures)
    assert [pts for pts, _, _ in shown] == wanted


def expected(source: Source, name: str, size: tuple[int, int]) -> tuple[int, int]:
    """The ladder's own size where rounding is its to choose."""
    assert source.video
    rungs = ladder_for(source.video.width, source.video.height, LABELS).renditions
    rung = next(rung for rung in rungs if rung.name == name)
    assert abs(rung.width - size[0]) <= 2
    return rung.width, rung.height


def test_out_frames_are_in_frames(made: Made, two_seconds: Source) -> None:
    sums = finished(made)
    count = len(two_seconds.pictures)
    assert sums.frames_in == count
    assert {sums.frames_out[name] for name in ("720p", "480p", "360p")} == {count}


def test_segments_are_two_seconds_and_begin_together(made: Made) -> None:
    assert in_step(made)
    for name in ("720p", "480p", "360p"):
        assert starts(made, name) == [ORIGIN + n * 2 * SECOND for n in range(4)]
        assert all(abs(each.duration - 2 * SECOND) <= FRAME for each in made.segments(name))


def test_every_segment_of_a_rung_begins_with_an_idr_picture(made: Made) -> None:
    for name in ("720p", "480p", "360p"):
        for segment in made.segments(name):
            with av.open(io.BytesIO(made.files(name)[0]), "r") as container:
                keys = {packet.pts for packet in container.demux() if packet.is_keyframe}
            assert segment.start in keys


def test_segments_follow_each_other_without_a_hole(made: Made) -> None:
    for name in made.names:
        segments = made.segments(name)
        for before, after in itertools.pairwise(segments):
            assert before.start + before.duration == after.start


def test_a_segment_is_its_parts_joined(made: Made) -> None:
    for name in made.names:
        for segment in made.segments(name):
            parts = [each for each in made.parts(name) if each.sequence == segment.sequence]
            assert [part.index for part in parts] == list(range(segment.parts))
            assert len(made.data(segment)) == segment.size
            assert abs(sum(part.duration for part in parts) - segment.duration) <= FRAME
            assert parts[0].independent


def test_parts_are_about_half_a_second_but_for_the_last(made: Made) -> None:
    for name in made.names:
        for segment in made.segments(name):
            parts = [each for each in made.parts(name) if each.sequence == segment.sequence]
            assert all(part.duration <= SECOND // 2 for part in parts)
            assert all(part.duration >= 0.85 * SECOND // 2 for part in parts[:-1])


def test_a_segment_is_reported_after_its_parts_and_its_init(made: Made) -> None:
    seen: set[tuple[str, int]] = set()
    inits: set[tuple[str, int]] = set()
    for report in made.reports:
        if isinstance(report, InitSection):
            inits.add((report.rendition, report.number))
        elif isinstance(report, Part):
            assert (report.rendition, report.sequence) not in seen
        elif isinstance(report, Segment):
            seen.add((report.rendition, report.sequence))
            assert (report.rendition, report.init) in inits


def test_the_end_is_where_the_last_rendition_ends(made: Made) -> None:
    last = max(
        segment.start + segment.duration for name in made.names for segment in made.segments(name)
    )
    assert finished(made).end == last
    assert 0 <= last - (ORIGIN + 8 * SECOND) <= FRAME


def test_sound_is_aac_at_48_khz_in_stereo_without_a_hole(made: Made) -> None:
    (init,) = made.inits(AUDIO_RENDITION)
    assert init.codecs == "mp4a.40.2"
    (file,) = made.files(AUDIO_RENDITION)
    with av.open(io.BytesIO(file), "r") as container:
        (stream,) = container.streams.audio
        assert (stream.rate, stream.channels, stream.codec_context.name) == (48_000, 2, "aac")
    times = [dts for dts, _, _ in packets(file)]
    assert {b - a for a, b in itertools.pairwise(times)} == {1024}
    assert min(level for _, level in loudness(file)[2:-2]) > 0.05


def test_the_same_input_makes_the_same_bytes(small: Source) -> None:
    twice = [run(orders(small, begin(small, reuse=False))) for _ in range(2)]
    for name in twice[0].names:
        assert twice[0].files(name) == twice[1].files(name)


# -- other sources --------------------------------------------------------------------------------


@pytest.mark.parametrize("reuse", [True, False])
def test_picture_and_sound_stay_together(pulsing: Source, folder: Path, reuse: bool) -> None:
    flashes, beeps = onsets((folder / "pulses.flv").read_bytes())
    made = run(orders(pulsing, begin(pulsing, reuse=reuse)))
    seen, _ = onsets(made.files(made.names[0])[0])
    _, heard = onsets(made.files(AUDIO_RENDITION)[0])
    assert len(seen) == len(heard) == len(flashes) == len(beeps) == 5
    for flash, beep, shown, sounded in zip(flashes, beeps, seen, heard, strict=True):
        assert abs((sounded - shown) - (beep - flash)) < 0.005


def test_without_reuse_all_rungs_are_encoded_on_the_grid(encoded: Made, small: Source) -> None:
    assert (encoded.status, encoded.troubles, warnings(encoded)) == (0, {}, {})
    (prepared,) = encoded.of(Prepared)
    assert prepared.reused is None
    assert in_step(encoded)
    assert starts(encoded, "360p") == [ORIGIN, ORIGIN + 2 * SECOND]
    (file,) = encoded.files("360p")
    assert {(width, height) for _, width, height in frames(file)} == {(640, 360)}
    assert finished(encoded).frames_out["360p"] == len(small.pictures)


@pytest.mark.parametrize(
    ("gop", "expected"),
    [
        pytest.param(1.0, [2.0, 2.0, 2.0], id="every second: every other one"),
        pytest.param(2.5, [2.5, 2.5, 1.0], id="a longer one"),
        pytest.param(4.0, [4.0, 2.0], id="exactly as long as it may be"),
    ],
)
def test_cuts_fall_on_the_sources_keyframes(
    folder: Path, gop: float, expected: list[float]
) -> None:
    source = source_of(scenes(folder / f"gop{gop}.flv", seconds=6, gop=gop))
    made = run(orders(source, begin(source)))
    assert (made.status, made.troubles, warnings(made)) == (0, {}, {})
    assert in_step(made)
    lengths = [segment.duration for segment in made.segments("360p")]
    assert lengths == pytest.approx([length * SECOND for length in expected], abs=FRAME)
    assert [data for _, _, data in packets(made.files("360p")[0])] == [
        packet.data for packet in source.pictures
    ]


@pytest.fixture(scope="module")
def taken_over(folder: Path) -> tuple[Source, Made]:
    """A source with a keyframe every 8 s, too far apart for its packets to be reused."""
    path = scenes(folder / "eight.flv", seconds=9, gop=8, size=(854, 480))
    source = source_of(path)
    return source, run(orders(source, begin(source)))


def test_no_keyframe_in_time_and_the_encoder_takes_over(taken_over: tuple[Source, Made]) -> None:
    source, made = taken_over
    assert (made.status, made.troubles) == (0, {})
    assert in_step(made)
    top = made.segments("480p")
    assert [segment.init for segment in top] == [0, 1, 1, 1]
    assert [segment.discontinuity for segment in top] == [False, True, False, False]
    lengths = [segment.duration for segment in top]
    assert lengths == pytest.approx([4 * SECOND, 2 * SECOND, 2 * SECOND, SECOND], abs=2 * FRAME)
    assert [init.number for init in made.inits("480p")] == [0, 1]
    assert len(made.inits("360p")) == 1
    assert finished(made).frames_out["480p"] == len(source.pictures)


def test_after_a_takeover_no_frame_is_lost_or_shown_twice(
    taken_over: tuple[Source, Made],
) -> None:
    source, made = taken_over
    first = source.pictures[0].pts
    wanted = sorted(ORIGIN + 90 * (packet.pts - first) for packet in source.pictures)
    times = [pts for file in made.files("480p") for pts, _, _ in frames(file)]
    assert times == wanted
    stamps = [dts for file in made.files("480p") for dts, _, _ in packets(file)]
    assert all(a < b for a, b in itertools.pairwise(stamps))
    assert warnings(made) == {}


def test_open_groups_are_no_place_to_cut(folder: Path) -> None:
    path = scenes(
        folder / "open.flv", seconds=6, gop=2, extra=("-x264-params", "open-gop=1:keyint=60")
    )
    source = source_of(path)
    made = run(orders(source, begin(source)))
    assert sum(packet.key for packet in source.pictures) > 1, "the container calls them keyframes"
    assert [segment.discontinuity for segment in made.segments("360p")] == [False, True]
    assert (made.status, made.troubles, warnings(made)) == (0, {}, {})
    assert in_step(made)


def test_a_source_without_sound_gets_silence(folder: Path) -> None:
    source = source_of(scenes(folder / "mute.flv", seconds=4, gop=2, sound=None))
    assert source.audio is None
    made = run(orders(source, begin(source)))
    assert (made.status, made.troubles, warnings(made)) == (0, {}, {})
    assert in_step(made)
    levels = loudness(made.files(AUDIO_RENDITION)[0])
    assert max(level for _, level in levels) == 0
    assert levels[0][0] == pytest.approx(10, abs=0.001)
    assert len(levels) == pytest.approx(4 * 48_000 / 1024, abs=2)


def test_sound_that_stops_does_not_hold_up_the_picture(small: Source) -> None:
    packets_ = [packet for packet in small.packets if packet.video or packet.dts < 1_000]
    made = run([begin(small), *packets_])
    assert made.status == 0
    assert in_step(made)
    levels = loudness(made.files(AUDIO_RENDITION)[0])
    assert min(level for time, level in levels if 10.1 < time < 10.9) > 0.05
    assert max(level for time, level in levels if time > 11.2) < 0.001
    assert made.troubles == {"sound missing": 2}


def test_a_source_of_sound_alone_is_cut_by_the_clock(small: Source) -> None:
    source = Source(
        video=None,
        audio=small.audio,
        packets=tuple(packet for packet in small.packets if not packet.video),
    )
    made = run(orders(source, begin(source)))
    assert (made.status, made.troubles, warnings(made)) == (0, {}, {})
    assert made.names == [AUDIO_RENDITION]
    lengths = [segment.duration for segment in made.segments(AUDIO_RENDITION)]
    assert lengths[0] == pytest.approx(2 * SECOND, abs=AAC_FRAME)
    span = source.packets[-1].pts - source.packets[0].pts + 1024 * 1000 // 44_100
    assert 0 <= sum(lengths) - 90 * span <= 2 * AAC_FRAME


def test_what_comes_before_the_first_keyframe_is_left_out(small: Source) -> None:
    places = [place for place, packet in enumerate(small.packets) if packet.video and packet.key]
    late = small.packets[places[0] + 7 :]
    made = run([begin(small), *late, Finish()])
    assert (made.status, made.troubles, warnings(made)) == (0, {}, {})
    assert starts(made, "360p") == [ORIGIN]
    assert finished(made).frames_in == len(small.pictures) // 2
    assert abs(starts(made, AUDIO_RENDITION)[0] - ORIGIN) <= 2
    levels = loudness(made.files(AUDIO_RENDITION)[0])
    assert min(level for _, level in levels[2:-2]) > 0.05, "the sound was there all along"


def test_more_than_60_frames_a_second_are_halved(folder: Path) -> None:
    source = source_of(scenes(folder / "fast.flv", seconds=2, gop=2, rate=120, sound=None))
    made = run(orders(source, begin(source)))
    (prepared,) = made.of(Prepared)
    assert prepared.reused is None
    assert finished(made).frames_out["360p"] == pytest.approx(len(source.pictures) / 2, abs=2)
    assert warnings(made) == {}


# -- several epochs -------------------------------------------------------------------------------


def test_epochs_share_numbers_clock_and_process(small: Source, pulsing: Source) -> None:
    assert small.video
    assert pulsing.video
    made = run(
        orders(small, begin(small)),
        orders(pulsing, begin(pulsing, epoch=1)),
        orders(small, begin(small, epoch=2)),
    )
    assert (made.status, made.troubles) == (0, {})
    ends = [each.end for each in made.of(Finished)]
    assert [each.epoch for each in made.of(Finished)] == [0, 1, 2]
    sound = made.segments(AUDIO_RENDITION)
    assert [segment.sequence for segment in sound] == list(range(7))
    assert [segment.epoch for segment in sound] == [0, 0, 1, 1, 1, 2, 2]
    marks = [segment.sequence for segment in sound if segment.discontinuity]
    assert marks == [2, 5]
    assert [segment.start for segment in sound if segment.sequence in marks] == [
        pytest.approx(end, abs=2) for end in ends[:2]
    ]
    assert len(made.inits(AUDIO_RENDITION)) == 1
    assert [segment.init for segment in made.segments("360p")] == [0, 0, 0, 0], "the same source"
    stamps = [dts for file in made.files("360p") for dts, _, _ in packets(file)]
    assert all(a < b for a, b in itertools.pairwise(stamps))
    assert warnings(made) == {}


def test_a_beginning_without_a_finish_finishes_first(small: Source) -> None:
    half = [begin(small), *small.packets[: len(small.packets) // 2]]
    made = run(half, [begin(small, epoch=1), *small.packets])
    assert made.status == 0
    assert [each.epoch for each in made.of(Finished)] == [0, 1]
    assert finished_order(made.reports) == ["prepared 0", "finished 0", "prepared 1", "finished 1"]


def finished_order(reports: Iterable[object]) -> list[str]:
    return [
        f"{'prepared' if isinstance(report, Prepared) else 'finished'} {report.epoch}"
        for report in reports
        if isinstance(report, Prepared | Finished)
    ]


def test_a_new_engine_goes_on_with_the_numbers_it_is_given(small: Source) -> None:
    order = begin(
        small, epoch=4, start=ORIGIN * 3, sequence=71, inits={"360p": 5}, discontinuity=True
    )
    made = run(orders(small, order))
    assert [segment.sequence for segment in made.segments("360p")] == [71, 72]
    assert [segment.discontinuity for segment in made.segments("360p")] == [True, False]
    assert [init.number for init in made.inits("360p")] == [5]
    assert [init.number for init in made.inits(AUDIO_RENDITION)] == [0]
    assert starts(made, "360p")[0] == ORIGIN * 3
    assert in_step(made)


def test_an_epoch_without_media_ends_where_it_began(small: Source) -> None:
    made = run([begin(small), Finish()])
    assert made.status == 0
    assert finished(made) == Finished(
        epoch=0, end=ORIGIN, frames_in=0, frames_out={AUDIO_RENDITION: 0}
    )
    assert made.of(Segment) == []


# -- sources that are broken ----------------------------------------------------------------------


def broken(source: Source, every: int, data: bytes) -> list[Begin | Packet | Finish]:
    """Replace the bytes of every n-th packet but the first keyframe."""
    bad = [
        msgspec.structs.replace(packet, data=data) if place % every == every - 1 else packet
        for place, packet in enumerate(source.packets)
    ]
    return [begin(source), *bad, Finish()]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\xff" * 700, id="lengths past the end"),
        pytest.param(b"\0\0\0\x20\x41" + bytes(range(31)), id="a slice of garbage"),
        pytest.param(b"\0\0\0\x05\x65\x88\x84\0\x10", id="an IDR picture of garbage"),
    ],
)
def test_garbage_is_counted_and_kills_nothing(small: Source, data: bytes) -> None:
    made = run(broken(small, 9, data))
    assert (made.status, made.complaints) == (0, "")
    assert in_step(made)
    assert made.troubles or not data
    assert len(made.segments("360p")) == 2


def test_a_decoder_that_gives_nothing_leaves_every_rendition_whole(small: Source) -> None:
    assert small.video
    rungs = (
        Rendition(name="360p", width=640, height=360, rate=800_000, source_size=True),
        Rendition(name="240p", width=426, height=240, rate=400_000),
    )
    first = small.pictures[0].data
    junk = [
        msgspec.structs.replace(packet, data=b"\0\0\0\x10\x65" + bytes(15))
        if packet.key
        else msgspec.structs.replace(packet, data=b"\0\0\0\x10\x41" + bytes(15))
        for packet in small.pictures
    ]
    assert first != junk[0].data
    made = run([begin(small, ladder=Ladder(rungs)), *junk, Finish()])
    assert made.status == 0
    assert in_step(made)
    assert made.names == ["240p", "360p", AUDIO_RENDITION]
    assert made.troubles["picture not decoded"] > 0
    assert len(frames(made.files("240p")[0])) == 2, "one picture stands in for each segment"


def test_a_clock_that_jumps_is_spliced(small: Source) -> None:
    half = small.pictures[len(small.pictures) // 2].dts
    jumped = [
        msgspec.structs.replace(packet, dts=packet.dts + 10**7, pts=packet.pts + 10**7)
        if packet.dts >= half
        else packet
        for packet in small.packets
    ]
    made = run([begin(small), *jumped, Finish()])
    assert made.status == 0
    assert made.troubles["clock jumped"] == 1
    assert in_step(made)
    assert finished(made).end == pytest.approx(ORIGIN + 4 * SECOND, abs=6 * FRAME)


def test_it_says_how_far_it_is(two_seconds: Source) -> None:
    made = run([begin(two_seconds), *two_seconds.packets], orders(two_seconds, begin(two_seconds)))
    progress = made.of(Progress)
    assert progress, "this takes more than a second"
    last = progress[-1]
    assert 0 < last.frames <= len(two_seconds.pictures)
    assert 0 <= last.made <= last.taken <= 8_100
    assert last.cpu_ms > 100
    assert 20 << 20 < last.memory_bytes < 500 << 20
