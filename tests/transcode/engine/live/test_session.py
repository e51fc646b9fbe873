"""Whole epochs through a real engine process, with sources as OBS makes them."""

import io
import itertools
from collections.abc import Iterable

import av
import msgspec
import pytest

from media.hls.segment import InitSection, Part, Segment
from media.ladder import AUDIO_RENDITION, Ladder, ladder_for
from media.ticks import VIDEO_SCALE
from tests.support.engine.decoded_output import frames, loudness, packets, warnings
from tests.support.engine.engine_process import (
    LABELS,
    ORIGIN,
    EngineOutput,
    begin,
    orders,
    run,
    run_with_pauses,
)
from tests.support.engine.sources import Source
from transcode.protocol.messages import EpochFinished, Finish, Prepared, Progress

FRAME = VIDEO_SCALE // 30
AAC_FRAME = 1920
SECOND = VIDEO_SCALE


@pytest.fixture(scope="module")
def made(two_seconds: Source) -> EngineOutput:
    return run(orders(two_seconds, begin(two_seconds)))


# -- a source whose packets are reused ------------------------------------------------------------


def test_the_engine_ends_well_and_silent(made: EngineOutput) -> None:
    assert (made.status, made.complaints, made.troubles) == (0, "", {})


def test_it_says_what_it_makes_before_it_does(made: EngineOutput) -> None:
    prepared = made.reports[0]
    assert prepared == Prepared(
        epoch=0, names=("720p", "480p", "360p", AUDIO_RENDITION), reused="720p"
    )
    assert made.names == ["360p", "480p", "720p", AUDIO_RENDITION]


def test_ffmpeg_decodes_every_rendition_without_a_word(made: EngineOutput) -> None:
    assert warnings(made) == {}


def test_the_top_rung_is_the_source_byte_for_byte(made: EngineOutput, two_seconds: Source) -> None:
    (file,) = made.files("720p")
    assert [data for _, _, data in packets(file)] == [
        packet.data for packet in two_seconds.pictures
    ]


def test_the_top_rung_has_the_sources_times(made: EngineOutput, two_seconds: Source) -> None:
    (file,) = made.files("720p")
    first = two_seconds.pictures[0].pts
    # Players place what begins by its first decode time: none is earlier than the first picture.
    assert [(dts, pts) for dts, pts, _ in packets(file)] == [
        (ORIGIN + max(90 * (packet.dts - first), index), ORIGIN + 90 * (packet.pts - first))
        for index, packet in enumerate(two_seconds.pictures)
    ]


@pytest.mark.parametrize(
    ("name", "size"),
    [("720p", (960, 48)), ("480p", (854, 43)), ("360p", (640, 32))],
)
def test_a_rung_has_its_size_and_every_frame(
    made: EngineOutput, two_seconds: Source, name: str, size: tuple[int, int]
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


def test_out_frames_are_in_frames(made: EngineOutput, two_seconds: Source) -> None:
    sums = made.finished
    count = len(two_seconds.pictures)
    assert sums.frames_in == count
    assert {sums.frames_out[name] for name in ("720p", "480p", "360p")} == {count}


def test_segments_are_two_seconds_and_begin_together(made: EngineOutput) -> None:
    assert made.in_step()
    for name in ("720p", "480p", "360p"):
        assert made.starts(name) == [ORIGIN + n * 2 * SECOND for n in range(4)]
        assert all(abs(each.duration - 2 * SECOND) <= FRAME for each in made.segments(name))


def test_every_segment_of_a_rung_begins_with_an_idr_picture(made: EngineOutput) -> None:
    for name in ("720p", "480p", "360p"):
        for segment in made.segments(name):
            with av.open(io.BytesIO(made.files(name)[0]), "r") as container:
                keys = {packet.pts for packet in container.demux() if packet.is_keyframe}
            assert segment.start in keys


def test_segments_follow_each_other_without_a_hole(made: EngineOutput) -> None:
    for name in made.names:
        segments = made.segments(name)
        for before, after in itertools.pairwise(segments):
            assert before.start + before.duration == after.start


def test_a_segment_is_its_parts_joined(made: EngineOutput) -> None:
    for name in made.names:
        for segment in made.segments(name):
            parts = [each for each in made.parts(name) if each.sequence == segment.sequence]
            assert [part.index for part in parts] == list(range(segment.parts))
            assert len(made.data(segment)) == segment.size
            # Parts last as long as decoding them: where all begins that is less, by the reordering.
            slack = 3 * FRAME if segment.sequence == 0 else FRAME
            assert abs(sum(part.duration for part in parts) - segment.duration) <= slack
            assert parts[0].independent


def test_parts_are_about_half_a_second_but_for_the_last(made: EngineOutput) -> None:
    for name in made.names:
        for segment in made.segments(name):
            parts = [each for each in made.parts(name) if each.sequence == segment.sequence]
            assert all(part.duration <= SECOND // 2 for part in parts)
            assert all(part.duration >= 0.85 * SECOND // 2 for part in parts[:-1])


def test_a_segment_is_reported_after_its_parts_and_its_init(made: EngineOutput) -> None:
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


def test_the_end_is_where_the_last_rendition_ends(made: EngineOutput) -> None:
    last = max(
        segment.start + segment.duration for name in made.names for segment in made.segments(name)
    )
    assert made.finished.end == last
    assert 0 <= last - (ORIGIN + 8 * SECOND) <= FRAME


def test_sound_is_aac_at_48_khz_in_stereo_without_a_hole(made: EngineOutput) -> None:
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


def test_a_lone_rung_of_the_sources_packets_costs_no_decoder(
    made: EngineOutput, two_seconds: Source
) -> None:
    order = begin(two_seconds)
    assert order.ladder
    alone = msgspec.structs.replace(order, ladder=Ladder(order.ladder.renditions[:1]))
    lone = run(orders(two_seconds, alone))
    assert (lone.status, lone.troubles) == (0, {})
    assert lone.in_step()
    assert lone.files("720p") == made.files("720p")
    assert lone.finished.frames_out["720p"] == len(two_seconds.pictures)


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
    ends = [each.end for each in made.of(EpochFinished)]
    assert [each.epoch for each in made.of(EpochFinished)] == [0, 1, 2]
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
    assert [each.epoch for each in made.of(EpochFinished)] == [0, 1]
    assert finished_order(made.reports) == ["prepared 0", "finished 0", "prepared 1", "finished 1"]


def finished_order(reports: Iterable[object]) -> list[str]:
    return [
        f"{'prepared' if isinstance(report, Prepared) else 'finished'} {report.epoch}"
        for report in reports
        if isinstance(report, Prepared | EpochFinished)
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
    assert made.starts("360p")[0] == ORIGIN * 3
    assert made.in_step()


def test_an_epoch_without_media_ends_where_it_began(small: Source) -> None:
    made = run([begin(small), Finish()])
    assert made.status == 0
    assert made.finished == EpochFinished(
        epoch=0, end=ORIGIN, frames_in=0, frames_out={AUDIO_RENDITION: 0}
    )
    assert made.of(Segment) == []


def test_it_says_how_far_it_is(two_seconds: Source) -> None:
    half = len(two_seconds.packets) // 2
    first, second = two_seconds.packets[:half], two_seconds.packets[half:]
    # Reports come once a second.
    made = run_with_pauses(
        [begin(two_seconds), *first],
        [*second, begin(two_seconds, epoch=1), *first],
        [*second],
        pause=1.1,
    )
    progress = made.of(Progress)
    assert len(progress) >= 3
    for each in progress:
        assert 0 <= each.frames <= len(two_seconds.pictures)
        # `taken` is where the last picture begins; when all is made, `made` is where it ends.
        assert 0 <= each.made <= each.taken + 34
        assert each.taken <= 8_100
    assert max(each.frames for each in progress) > 0
    last = progress[-1]
    assert last.cpu_ms > 100
    assert 20 << 20 < last.memory_bytes < 500 << 20
