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
def output(two_seconds: Source) -> EngineOutput:
    return run(orders(two_seconds, begin(two_seconds)))


# -- a source whose packets are reused ------------------------------------------------------------


def test_the_engine_ends_well_and_silent(output: EngineOutput) -> None:
    assert (output.status, output.complaints, output.troubles) == (0, "", {})


def test_the_engine_announces_its_renditions_before_the_media(output: EngineOutput) -> None:
    prepared = output.reports[0]
    assert prepared == Prepared(
        epoch=0, names=("720p", "480p", "360p", AUDIO_RENDITION), reused="720p"
    )
    assert output.names == ["360p", "480p", "720p", AUDIO_RENDITION]


def test_ffmpeg_decodes_every_rendition_without_a_word(output: EngineOutput) -> None:
    assert warnings(output) == {}


def test_the_top_rung_is_the_source_byte_for_byte(
    output: EngineOutput, two_seconds: Source
) -> None:
    (file,) = output.files("720p")
    assert [data for _, _, data in packets(file)] == two_seconds.published


def test_the_top_rung_has_the_sources_times(output: EngineOutput, two_seconds: Source) -> None:
    (file,) = output.files("720p")
    first = two_seconds.pictures[0].pts
    times = [(dts - ORIGIN, pts - ORIGIN) for dts, pts, _ in packets(file)]
    own = [(90 * (each.dts - first), 90 * (each.pts - first)) for each in two_seconds.pictures]
    assert [pts for _, pts in times] == [pts for _, pts in own]
    # Players place a run by its first decode time, which is not before the first picture. Those
    # that should have been decoded before it share the time of a frame.
    moved = sum(dts <= 0 for dts, _ in own)
    # The last one of a part may be a millisecond early, to keep the part within its target.
    later = pytest.approx([dts for dts, _ in own[moved + 1 :]], abs=90)
    assert [dts for dts, _ in times[moved + 1 :]] == later
    assert times[moved][0] == pytest.approx(own[moved][0], abs=90)  # frames of whole milliseconds
    assert times[0][0] == 0
    steps = [after - before for (before, _), (after, _) in itertools.pairwise(times[: moved + 1])]
    assert min(steps) >= FRAME // (moved + 1)


@pytest.mark.parametrize(
    ("name", "size"),
    [("720p", (960, 48)), ("480p", (854, 43)), ("360p", (640, 32))],
)
def test_a_rung_has_its_size_and_every_frame(
    output: EngineOutput, two_seconds: Source, name: str, size: tuple[int, int]
) -> None:
    (file,) = output.files(name)
    frames_shown = frames(file)
    assert {(width, height) for _, width, height in frames_shown} == {
        expected(two_seconds, name, size)
    }
    first = two_seconds.pictures[0].pts
    wanted = sorted(ORIGIN + 90 * (packet.pts - first) for packet in two_seconds.pictures)
    assert [pts for pts, _, _ in frames_shown] == wanted


def expected(source: Source, name: str, size: tuple[int, int]) -> tuple[int, int]:
    """The ladder's own size where rounding is its to choose."""
    assert source.video
    rungs = ladder_for(source.video.width, source.video.height, LABELS).renditions
    rung = next(rung for rung in rungs if rung.name == name)
    assert abs(rung.width - size[0]) <= 2
    return rung.width, rung.height


def test_out_frames_are_in_frames(output: EngineOutput, two_seconds: Source) -> None:
    sums = output.finished
    count = len(two_seconds.pictures)
    assert sums.frames_in == count
    assert {sums.frames_out[name] for name in ("720p", "480p", "360p")} == {count}


def test_segments_are_two_seconds_and_begin_together(output: EngineOutput) -> None:
    assert output.in_step()
    for name in ("720p", "480p", "360p"):
        assert output.starts(name) == [ORIGIN + n * 2 * SECOND for n in range(4)]
        assert all(abs(each.duration - 2 * SECOND) <= FRAME for each in output.segments(name))


def test_every_segment_of_a_rung_begins_with_an_idr_picture(output: EngineOutput) -> None:
    for name in ("720p", "480p", "360p"):
        for segment in output.segments(name):
            with av.open(io.BytesIO(output.files(name)[0]), "r") as container:
                keys = {packet.pts for packet in container.demux() if packet.is_keyframe}
            assert segment.start in keys


def test_segments_follow_each_other_without_a_hole(output: EngineOutput) -> None:
    for name in output.names:
        segments = output.segments(name)
        for before, after in itertools.pairwise(segments):
            assert before.start + before.duration == after.start


def test_a_segment_is_its_parts_joined(output: EngineOutput) -> None:
    for name in output.names:
        for segment in output.segments(name):
            parts = [each for each in output.parts(name) if each.sequence == segment.sequence]
            assert [part.index for part in parts] == list(range(segment.parts))
            assert len(output.data(segment)) == segment.size
            # Part durations follow decode times, so those of the first segment are shorter.
            slack = 3 * FRAME if segment.sequence == 0 else FRAME
            assert abs(sum(part.duration for part in parts) - segment.duration) <= slack
            assert parts[0].independent


def test_parts_are_about_half_a_second_but_for_the_last(output: EngineOutput) -> None:
    for name in output.names:
        for segment in output.segments(name):
            parts = [each for each in output.parts(name) if each.sequence == segment.sequence]
            assert all(part.duration <= SECOND // 2 for part in parts)
            assert all(part.duration >= 0.85 * SECOND // 2 for part in parts[:-1])


def test_a_segment_is_reported_after_its_parts_and_its_init(output: EngineOutput) -> None:
    seen: set[tuple[str, int]] = set()
    inits: set[tuple[str, int]] = set()
    for report in output.reports:
        if isinstance(report, InitSection):
            inits.add((report.rendition, report.number))
        elif isinstance(report, Part):
            assert (report.rendition, report.sequence) not in seen
        elif isinstance(report, Segment):
            seen.add((report.rendition, report.sequence))
            assert (report.rendition, report.init) in inits


def test_the_end_is_where_the_last_rendition_ends(output: EngineOutput) -> None:
    last = max(
        segment.start + segment.duration
        for name in output.names
        for segment in output.segments(name)
    )
    assert output.finished.end == last
    assert 0 <= last - (ORIGIN + 8 * SECOND) <= FRAME


def test_sound_is_aac_at_48_khz_in_stereo_without_a_hole(output: EngineOutput) -> None:
    (init,) = output.inits(AUDIO_RENDITION)
    assert init.codecs == "mp4a.40.2"
    (file,) = output.files(AUDIO_RENDITION)
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
    output: EngineOutput, two_seconds: Source
) -> None:
    order = begin(two_seconds)
    assert order.ladder
    alone = msgspec.structs.replace(order, ladder=Ladder(order.ladder.renditions[:1]))
    lone = run(orders(two_seconds, alone))
    assert (lone.status, lone.troubles) == (0, {})
    assert lone.in_step()
    assert lone.files("720p") == output.files("720p")
    assert lone.finished.frames_out["720p"] == len(two_seconds.pictures)


# -- several epochs -------------------------------------------------------------------------------


def test_epochs_share_numbers_clock_and_process(small: Source, pulsing: Source) -> None:
    assert small.video
    assert pulsing.video
    output = run(
        orders(small, begin(small)),
        orders(pulsing, begin(pulsing, epoch=1)),
        orders(small, begin(small, epoch=2)),
    )
    assert (output.status, output.troubles) == (0, {})
    ends = [each.end for each in output.of(EpochFinished)]
    assert [each.epoch for each in output.of(EpochFinished)] == [0, 1, 2]
    sound = output.segments(AUDIO_RENDITION)
    assert [segment.sequence for segment in sound] == list(range(7))
    assert [segment.epoch for segment in sound] == [0, 0, 1, 1, 1, 2, 2]
    marks = [segment.sequence for segment in sound if segment.discontinuity]
    assert marks == [2, 5]
    assert [segment.start for segment in sound if segment.sequence in marks] == [
        pytest.approx(end, abs=2) for end in ends[:2]
    ]
    assert len(output.inits(AUDIO_RENDITION)) == 1
    assert [segment.init for segment in output.segments("360p")] == [0, 0, 0, 0], "the same source"
    stamps = [dts for file in output.files("360p") for dts, _, _ in packets(file)]
    assert all(a < b for a, b in itertools.pairwise(stamps))
    assert warnings(output) == {}


def test_a_beginning_without_a_finish_finishes_first(small: Source) -> None:
    half = [begin(small), *small.packets[: len(small.packets) // 2]]
    output = run(half, [begin(small, epoch=1), *small.packets])
    assert output.status == 0
    assert [each.epoch for each in output.of(EpochFinished)] == [0, 1]
    assert finished_order(output.reports) == [
        "prepared 0",
        "finished 0",
        "prepared 1",
        "finished 1",
    ]


def finished_order(reports: Iterable[object]) -> list[str]:
    return [
        f"{'prepared' if isinstance(report, Prepared) else 'finished'} {report.epoch}"
        for report in reports
        if isinstance(report, Prepared | EpochFinished)
    ]


def test_a_new_engine_continues_the_numbers_of_its_order(small: Source) -> None:
    order = begin(
        small, epoch=4, start=ORIGIN * 3, sequence=71, inits={"360p": 5}, discontinuity=True
    )
    output = run(orders(small, order))
    assert [segment.sequence for segment in output.segments("360p")] == [71, 72]
    assert [segment.discontinuity for segment in output.segments("360p")] == [True, False]
    assert [init.number for init in output.inits("360p")] == [5]
    assert [init.number for init in output.inits(AUDIO_RENDITION)] == [0]
    assert output.starts("360p")[0] == ORIGIN * 3
    assert output.in_step()


def test_an_epoch_without_media_ends_where_it_began(small: Source) -> None:
    output = run([begin(small), Finish()])
    assert output.status == 0
    assert output.finished == EpochFinished(
        epoch=0, end=ORIGIN, frames_in=0, frames_out={AUDIO_RENDITION: 0}
    )
    assert output.of(Segment) == []


def test_the_engine_reports_its_progress(two_seconds: Source) -> None:
    half = len(two_seconds.packets) // 2
    first, second = two_seconds.packets[:half], two_seconds.packets[half:]
    # Reports come once a second.
    output = run_with_pauses(
        [begin(two_seconds), *first],
        [*second, begin(two_seconds, epoch=1), *first],
        [*second],
        pause=1.1,
    )
    progress = output.of(Progress)
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
