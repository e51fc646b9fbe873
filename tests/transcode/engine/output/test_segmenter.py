"""Samples into parts and segments."""

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from media.hls.fmp4 import Sample
from media.hls.segment import GapStart, InitSection, Part, Segment, SegmentStart
from tests.transcode.engine.input.test_random_access import AVC
from transcode.engine.output.segment_grid import Cut
from transcode.engine.output.segmenter import FileSegmenter, LiveSegmenter
from transcode.protocol.messages import EngineReport

SECOND = 90_000
FRAME = 3_000
AAC = 1_024


def track(
    reports: list[EngineReport], scale: int = SECOND, name: str = "720p", init: int = 0
) -> LiveSegmenter:
    segmenter = LiveSegmenter(name, scale, reports.append, init=init)
    segmenter.begin(epoch=3, part=SECOND // 2)
    return segmenter


def sample(offset: int, *, step: int = FRAME, key: bool = False, data: bytes = b"x") -> Sample:
    return Sample(offset * step, offset * step, 0, key, data)


def parts(reports: list[EngineReport]) -> list[Part]:
    return [report for report in reports if isinstance(report, Part)]


def segments(reports: list[EngineReport]) -> list[Segment]:
    return [report for report in reports if isinstance(report, Segment)]


def test_a_segment_is_announced_before_its_first_part_as_later_reported() -> None:
    reports: list[EngineReport] = []
    of = track(reports, init=2)
    of.describe("avc1.640028", b"init")
    for index in range(90):
        cut = Cut(sequence=4 + index // 60, at=0, discontinuity=True) if index % 60 == 0 else None
        of.add(sample(index, key=cut is not None), cut)
    of.gap(Cut(sequence=6, at=90 * FRAME), 90 * FRAME)
    of.end()
    kinds = [type(report) for report in reports[1:]]
    assert kinds == [
        *(SegmentStart, Part, Part, Part, Part, Segment),
        *(SegmentStart, Part, Part, Segment),
        *(GapStart, Segment),
    ]
    starts = [report for report in reports if isinstance(report, SegmentStart)]
    for start, segment in zip(starts, segments(reports), strict=False):
        facts = msgspec.structs.asdict(start)
        assert not facts.pop("borrowed")
        assert facts.items() <= msgspec.structs.asdict(segment).items()


def test_a_segment_that_is_given_up_before_its_first_part_is_announced_as_a_gap() -> None:
    reports: list[EngineReport] = []
    of = track(reports)
    of.add(sample(0, key=True), Cut(sequence=0, at=0))
    of.discard()
    of.end()
    assert [type(report) for report in reports] == [GapStart, Segment]


def test_parts_hold_what_fits_into_the_target() -> None:
    reports: list[EngineReport] = []
    of = track(reports)
    for index in range(50):
        cut = Cut(sequence=0, at=0) if index == 0 else None
        of.add(sample(index, key=index == 0), cut)
    of.end()
    assert [part.duration for part in parts(reports)] == [15 * FRAME] * 3 + [5 * FRAME]
    assert [part.index for part in parts(reports)] == [0, 1, 2, 3]
    assert [part.independent for part in parts(reports)] == [True, False, False, False]


def test_a_part_is_bounded_in_bytes_where_times_do_not_advance() -> None:
    reports: list[EngineReport] = []
    of = track(reports)
    data = bytes(3 << 20)
    of.add(sample(0, key=True, data=data), Cut(sequence=0, at=0))
    for _ in range(9):
        of.add(Sample(0, 0, 0, False, data))
    of.end()
    assert len(parts(reports)) == 4
    assert all(len(part.data) < 10 << 20 for part in parts(reports))
    assert segments(reports)[0].frames == 10


def test_a_segment_that_is_given_up_is_a_gap() -> None:
    reports: list[EngineReport] = []
    of = track(reports)
    for index in range(20):
        of.add(sample(index, key=index == 0), Cut(sequence=0, at=0) if index == 0 else None)
    of.discard()
    assert reports[-1] == GapStart(rendition="720p", sequence=0), "at once, not at its end"
    of.gap(Cut(sequence=1, at=60 * FRAME), 60 * FRAME)
    assert reports[-1] == GapStart(rendition="720p", sequence=1)
    of.add(sample(120, key=True), Cut(sequence=2, at=120 * FRAME))
    of.end()
    assert [each.gap for each in segments(reports)] == [True, True, False]
    first, second, third = segments(reports)
    assert (first.size, first.parts, first.frames) == (0, 0, 0)
    assert [first.duration, second.duration] == [60 * FRAME, 60 * FRAME]
    assert third.start == 120 * FRAME
    assert of.frames == 1


def test_a_part_goes_out_with_its_last_frame() -> None:
    reports: list[EngineReport] = []
    of = track(reports)
    for position in range(15):
        assert not reports
        of.add(sample(position), Cut(sequence=0, at=0) if position == 0 else None)
    (part,) = parts(reports)
    assert times(part) == [(index * FRAME, index * FRAME, FRAME) for index in range(15)]


def test_parts_of_whole_milliseconds_leave_no_hole_and_do_not_overlap() -> None:
    reports: list[EngineReport] = []
    of = track(reports)
    for index in range(300):
        at = index * 1000 // 30 * 90  # FLV at 30 a second: 33, 33 and 34 ms
        of.add(
            Sample(at, at, 0, index % 60 == 0, b"x"),
            Cut(sequence=index // 60, at=at) if index % 60 == 0 else None,
        )
    part_times = [times(part) for part in parts(reports)]
    assert [len(each) for each in part_times] == [15] * 20
    for before, after in itertools.pairwise(part_times):
        assert after[0][0] == before[-1][0] + before[-1][2]


@pytest.mark.parametrize("number", range(15))
def test_pictures_that_come_late_are_decoded_from_the_end_of_the_part_before(number: int) -> None:
    """Otherwise a browser discards what follows the hole, up to the next keyframe."""
    reports: list[EngineReport] = []
    of = track(reports)
    usual, late = 30 + number, 20
    times_shown = [index * FRAME for index in range(usual)]
    times_shown += [times_shown[-1] + (position + 1) * 3 * FRAME for position in range(late)]
    for place, at in enumerate(times_shown):
        of.add(Sample(at, at, 0, place == 0, b"x"), Cut(sequence=0, at=0) if place == 0 else None)
    assert of.end() == times_shown[-1] + 3 * FRAME
    part_times = [times(part) for part in parts(reports)]
    assert [pts for part in part_times for _, pts, _ in part] == times_shown
    for before, after in itertools.pairwise(part_times):
        assert after[0][0] == before[-1][0] + before[-1][2]
    assert all(dts <= pts for part in part_times for dts, pts, _ in part)


@pytest.mark.parametrize("early", range(300, 9000, 300))
@pytest.mark.parametrize("held", [0, 1, 2, 8])
def test_parts_last_as_announced_after_a_held_picture_that_was_repeated_out_of_turn(
    early: int, held: int
) -> None:
    """A slate: held pictures ten times a second, and one where a segment begins between two."""
    reports: list[EngineReport] = []
    of = track(reports)
    moments = [index * FRAME for index in range(44)]
    moments += [moments[-1] + position * 3 * FRAME for position in range(1, 1 + held)]
    cut = moments[-1] + early
    moments += [cut + place * 3 * FRAME for place in range(20)]
    for at in moments:
        opens = Cut(sequence=int(at == cut), at=at) if at in {0, cut} else None
        of.add(Sample(at, at, 0, opens is not None, b"x"), opens)
    of.end()
    for part in parts(reports):
        media = sum(length for _, _, length in times(part))
        assert abs(media - part.duration) <= FRAME, (part.sequence, part.index)


def test_a_rendition_that_was_a_gap_is_not_decoded_from_before_it() -> None:
    reports: list[EngineReport] = []
    of = track(reports)
    for index in range(15):
        of.add(sample(index), Cut(sequence=0, at=0) if index == 0 else None)
    of.discard()
    of.add(sample(60, key=True), Cut(sequence=1, at=60 * FRAME))
    of.end()
    assert times(parts(reports)[-1])[0][0] == 60 * FRAME


def test_a_picture_after_a_hole_does_not_lengthen_its_epoch() -> None:
    reports: list[EngineReport] = []
    of = track(reports)
    for place in (*range(15), 60, 61):
        of.add(sample(place), Cut(sequence=0, at=0) if place == 0 else None)
    assert of.end() == 62 * FRAME


def test_a_group_of_frames_that_were_moved_up_does_not_overlap_the_next_part() -> None:
    """At 3 frames a second each part is a frame; with B-frames the first ones are moved up."""
    reports: list[EngineReport] = []
    of = track(reports)
    of.begin(epoch=3, part=SECOND // 3)
    for each, cut in group(SECOND, Cut(sequence=0, at=SECOND), step=SECOND // 3):
        of.add(each, cut)
    of.end()
    part_times = [times(part) for part in parts(reports)]
    for before, after in itertools.pairwise(part_times):
        assert before[-1][0] + before[-1][2] <= after[0][0]


def test_a_segment_is_reported_when_the_next_one_begins() -> None:
    reports: list[EngineReport] = []
    of = track(reports)
    for index in range(61):
        cut = Cut(sequence=4 + index // 60, at=index * FRAME) if index % 60 == 0 else None
        of.add(sample(index, key=cut is not None, data=b"abc"), cut)
    (first,) = segments(reports)
    assert (first.sequence, first.start, first.duration) == (4, 0, 2 * SECOND)
    assert (first.frames, first.parts, first.epoch) == (60, 4, 3)
    assert first.size == sum(len(part.data) for part in parts(reports))
    assert of.end() == 2 * SECOND + FRAME
    assert [segment.sequence for segment in segments(reports)] == [4, 5]
    assert segments(reports)[1].duration == FRAME
    assert of.frames == 61


def test_sound_is_reported_in_the_common_scale() -> None:
    reports: list[EngineReport] = []
    of = track(reports, scale=48_000, name="audio")
    for index in range(47):
        of.add(sample(index, step=AAC, key=True), Cut(sequence=0, at=0) if index == 0 else None)
    assert of.end() == 47 * 1_920
    assert [part.duration for part in parts(reports)] == [23 * 1_920, 23 * 1_920, 1_920]
    assert all(part.independent for part in parts(reports))


def test_an_init_section_is_sent_when_it_changes() -> None:
    reports: list[EngineReport] = []
    of = track(reports, init=5)
    for data in (b"one", b"one", b"two"):
        of.describe("avc1.640028", data)
    inits = [report for report in reports if isinstance(report, InitSection)]
    assert [(init.number, init.data) for init in inits] == [(5, b"one"), (6, b"two")]


def unit(*units: bytes) -> bytes:
    return b"".join(len(each).to_bytes(4, "big") + each for each in units)


IDR, OTHER = unit(b"\x65\x88"), unit(b"\x41\x9a")
(SPS,), (PPS,) = AVC.sps, AVC.pps
OTHER_PPS = b"\x68\xee\x8f\xcb"


def media_of(part: Part) -> bytes:
    return part.data[part.data.index(b"mdat") + 4 :]


def test_keyframes_bring_the_parameter_sets_of_the_init_section_before_them() -> None:
    reports: list[EngineReport] = []
    of = track(reports)
    of.describe("a", b"source", AVC)
    of.add(sample(0, key=True, data=IDR), Cut(sequence=0, at=0))
    of.add(sample(1, data=OTHER))
    # The waiting samples belong to the source, whatever comes next.
    of.describe("b", b"encoder", msgspec.structs.replace(AVC, pps=(OTHER_PPS,)))
    of.add(sample(2, key=True, data=IDR), Cut(sequence=1, at=2 * FRAME, discontinuity=True))
    of.add(sample(3, key=True, data=unit(SPS, OTHER_PPS) + IDR), Cut(sequence=2, at=3 * FRAME))
    of.end()
    assert [media_of(part) for part in parts(reports)] == [
        unit(SPS, PPS) + IDR + OTHER,
        unit(SPS, OTHER_PPS) + IDR,
        unit(SPS, OTHER_PPS) + IDR,
    ]
    assert [segment.size for segment in segments(reports)] == [
        len(part.data) for part in parts(reports)
    ]


def test_keyframes_of_a_file_bring_them_too() -> None:
    reports: list[EngineReport] = []
    of = FileSegmenter("720p", end=2 * FRAME, send=reports.append)
    of.describe("avc1.640028", b"init", AVC)
    of.add(timed(0, IDR), Cut(sequence=0, at=0))
    of.add(timed(1, OTHER))
    of.end()
    (part,) = parts(reports)
    assert media_of(part) == unit(SPS, PPS) + IDR + OTHER


def test_what_is_not_h264_stays_as_it_is() -> None:
    reports: list[EngineReport] = []
    of = track(reports, scale=48_000, name="audio")
    of.describe("mp4a.40.2", b"init")
    of.add(sample(0, step=AAC, key=True, data=b"sound"), Cut(sequence=0, at=0))
    of.end()
    assert media_of(parts(reports)[0]) == b"sound"


def test_a_paused_segment_is_closed_by_the_next_source() -> None:
    reports: list[EngineReport] = []
    of = track(reports)
    of.describe("a", b"source")
    for index in range(5):
        of.add(sample(index), Cut(sequence=0, at=0) if index == 0 else None)
    of.pause(5 * FRAME)
    assert parts(reports)[-1].duration == 5 * FRAME
    assert not segments(reports)
    of.describe("b", b"encoder")
    of.add(sample(6), Cut(sequence=1, at=5 * FRAME, discontinuity=True))
    of.end()
    assert [(each.duration, each.init) for each in segments(reports)] == [
        (6 * FRAME, 0),
        (FRAME, 1),
    ]
    assert [each.discontinuity for each in segments(reports)] == [False, True]


def test_what_was_not_sent_may_be_taken_back() -> None:
    reports: list[EngineReport] = []
    of = track(reports)
    of.describe("a", b"source")
    for index in range(18):  # 15 make a part
        of.add(sample(index), Cut(sequence=0, at=0) if index == 0 else None)
    assert not of.take_back(4)
    assert of.take_back(1)
    assert of.take_back(2)
    assert not of.take_back(1)
    of.describe("b", b"encoder")
    of.add(sample(15), Cut(sequence=1, at=15 * FRAME))
    of.end()
    assert [(each.duration, each.frames) for each in segments(reports)] == [
        (15 * FRAME, 15),
        (FRAME, 1),
    ]


def test_a_segment_keeps_the_picture_that_opened_it() -> None:
    reports: list[EngineReport] = []
    of = track(reports)
    of.describe("a", b"source")
    for index in range(4):
        of.add(sample(index), Cut(sequence=0, at=0) if index == 0 else None)
    assert not of.take_back(4)
    assert of.take_back(3)
    of.pause(FRAME)
    assert parts(reports)[-1].duration == FRAME
    of.add(sample(1), None)
    assert of.end() == 2 * FRAME


# Decode and presentation places of a group with two B-frames that is decoded a picture early.
_GROUP = ((-1, 0), (0, 3), (1, 1), (2, 2), (3, 4))


def group(start: int, seam: Cut, step: int = FRAME) -> list[tuple[Sample, Cut | None]]:
    """A group of pictures whose first is shown at `start`, in ticks."""
    return [
        (
            Sample(start + dts * step, start + pts * step, 0, number == 0, b"x"),
            seam if number == 0 else None,
        )
        for number, (dts, pts) in enumerate(_GROUP)
    ]


def times(part: Part) -> list[tuple[int, int, int]]:
    """Decode time, presentation time and duration of each sample."""
    position = part.data.index(b"tfdt") + 8
    dts = int.from_bytes(part.data[position : position + 8])
    position = part.data.index(b"trun") + 4
    part_times: list[tuple[int, int, int]] = []
    for at in range(
        position + 12, position + 12 + 16 * int.from_bytes(part.data[position + 4 :][:4]), 16
    ):
        step, offset = (int.from_bytes(part.data[at + k :][:4]) for k in (0, 12))
        part_times.append((dts, dts + offset, step))
        dts += step
    return part_times


def test_what_begins_and_what_follows_a_seam_is_decoded_no_earlier_than_shown() -> None:
    """hls.js places the first decode time at the end of the media before it."""
    reports: list[EngineReport] = []
    of = track(reports)
    of.begin(epoch=3, part=SECOND)
    seam = Cut(sequence=1, at=SECOND + 5 * FRAME, discontinuity=True)
    for each, cut in (*group(SECOND, Cut(sequence=0, at=SECOND)), *group(seam.at, seam)):
        of.add(each, cut)
    of.end()
    for part, start in zip(parts(reports), (SECOND, seam.at), strict=True):
        part_times = times(part)
        assert part_times[0][:2] == (start, start)
        assert all(start <= dts <= pts for dts, pts, _ in part_times)
        assert [pts for _, pts, _ in part_times] == [start + pts * FRAME for _, pts in _GROUP]
        assert max(pts + step for _, pts, step in part_times) == start + 5 * FRAME
        # The picture that was moved up shares the time of a frame with the one after it.
        assert [step for *_, step in part_times] == [FRAME // 2] * 2 + [FRAME] * 3


@pytest.mark.parametrize("depth", [1, 2, 4, 16])
@pytest.mark.parametrize("rate", [24, 25, 30, 60])
def test_no_picture_after_a_beginning_lasts_for_a_tick(rate: int, depth: int) -> None:
    """However deep the source reorders its pictures, which have times of whole milliseconds."""
    reports: list[EngineReport] = []
    of = track(reports)
    of.begin(epoch=3, part=SECOND)

    def at(number: int) -> int:
        return 90 * round(number * 1000 / rate)

    for number in range(3 * depth):
        # Each is shown much later than it is decoded, or right then.
        dts = SECOND + at(number) - at(depth)
        pts = dts if number > depth else SECOND + at(depth + number) - at(depth)
        sample = Sample(dts, pts if number else SECOND, 0, number == 0, b"x")
        of.add(sample, Cut(sequence=0, at=SECOND) if number == 0 else None)
    of.end()
    steps = [step for part in parts(reports) for *_, step in times(part)]
    assert all(dts <= pts for part in parts(reports) for dts, pts, _ in times(part))
    assert min(steps) >= SECOND / rate / (depth + 1) - 91
    assert sum(steps[: depth + 1]) == pytest.approx(SECOND / rate, abs=91)


def test_a_picture_held_up_to_a_seam_is_shown_no_longer() -> None:
    reports: list[EngineReport] = []
    of = track(reports)
    for each, cut in group(SECOND, Cut(sequence=0, at=SECOND)):
        of.add(each, cut)
    of.pause(SECOND + 5 * FRAME, SECOND + 5 * FRAME)
    assert max(pts + step for _, pts, step in times(parts(reports)[-1])) == SECOND + 5 * FRAME


def test_a_gap_is_reported_at_its_end_and_then_the_track_continues() -> None:
    reports: list[EngineReport] = []
    of = track(reports, init=3)
    of.describe("a", b"init")
    of.add(sample(0, key=True), Cut(sequence=0, at=0))
    of.gap(Cut(sequence=1, at=FRAME, discontinuity=True), FRAME)
    assert of.is_gap
    assert [segment.sequence for segment in segments(reports)] == [0]
    of.gap(Cut(sequence=2, at=4 * FRAME), 4 * FRAME)
    of.describe("a", b"init")
    of.add(sample(9, key=True), Cut(sequence=3, at=9 * FRAME))
    assert not of.is_gap
    of.end()
    segments_sent = segments(reports)
    assert [each.gap for each in segments_sent] == [False, True, True, False]
    assert [each.start for each in segments_sent] == [0, FRAME, 4 * FRAME, 9 * FRAME]
    assert [each.duration for each in segments_sent] == [FRAME, 3 * FRAME, 5 * FRAME, FRAME]
    assert [each.discontinuity for each in segments_sent] == [False, True, False, False]
    assert {(each.size, each.frames, each.parts) for each in segments_sent if each.gap} == {
        (0, 0, 0)
    }
    assert {each.init for each in segments_sent} == {3}
    assert of.frames == 2


def test_a_last_gap_ends_where_ordered() -> None:
    reports: list[EngineReport] = []
    of = track(reports)
    of.gap(Cut(sequence=0, at=FRAME), FRAME)
    assert of.end(7 * FRAME) == 7 * FRAME
    assert of.end(9 * FRAME) is None
    (gap,) = segments(reports)
    assert (gap.start, gap.duration, gap.init) == (FRAME, 6 * FRAME, 0)


def test_a_rendition_that_comes_back_is_as_far_as_the_others() -> None:
    reports: list[EngineReport] = []
    of = track(reports)
    of.gap(Cut(sequence=0, at=FRAME), FRAME)
    of.add(sample(60, key=True), Cut(sequence=1, at=60 * FRAME))
    assert of.made == 60 * FRAME


@given(st.lists(st.integers(-20_000, 200_000), min_size=1, max_size=80))
def test_decode_times_rise_whatever_the_sources_times(moves: list[int]) -> None:
    reports: list[EngineReport] = []
    of = track(reports)
    for number, index in enumerate(itertools.accumulate(moves)):
        cut = Cut(sequence=number // 10, at=0) if number % 10 == 0 else None
        of.add(Sample(index, index, 0, False, b""), cut)
    of.end()
    assert sum(segment.frames for segment in segments(reports)) == len(moves)
    assert all(part.duration > 0 for part in parts(reports))
    assert [segment.parts for segment in segments(reports)] == [
        sum(part.sequence == segment.sequence for part in parts(reports))
        for segment in segments(reports)
    ]


def timed(offset: int, data: bytes = b"x") -> Sample:
    return Sample(offset * FRAME, offset * FRAME, FRAME, offset == 0, data)


def test_a_segment_of_a_file_is_one_part() -> None:
    reports: list[EngineReport] = []
    of = FileSegmenter("720p", end=10 * FRAME, send=reports.append)
    of.describe("avc1.640028", b"init")
    for index in range(9):
        of.add(timed(index), Cut(sequence=3 + index // 5, at=0) if index % 5 == 0 else None)
    assert of.end() == 10 * FRAME
    assert [(each.sequence, each.index, each.duration) for each in parts(reports)] == [
        (3, 0, 5 * FRAME), (4, 0, 4 * FRAME),
    ]  # fmt: skip
    assert [(each.start, each.duration) for each in segments(reports)] == [
        (0, 5 * FRAME), (5 * FRAME, 5 * FRAME),
    ]  # fmt: skip
    assert of.end() is None


def test_a_file_without_a_known_end_ends_with_the_sample_that_is_shown_last() -> None:
    reports: list[EngineReport] = []
    of = FileSegmenter("720p", end=None, send=reports.append)
    of.add(timed(0), Cut(sequence=0, at=0))
    of.add(Sample(FRAME, 3 * FRAME, FRAME, False, b"x"))  # a P-frame, shown after the next
    of.add(Sample(2 * FRAME, 2 * FRAME, 90 * FRAME, False, b"x"))
    assert of.end() == 4 * FRAME
    assert [each.duration for each in segments(reports)] == [4 * FRAME]


def test_a_file_part_is_bounded_in_bytes_and_has_no_holes() -> None:
    reports: list[EngineReport] = []
    of = FileSegmenter("720p", end=30 * FRAME, send=reports.append)
    for index in range(6):
        of.add(timed(index, bytes(3 << 20)), Cut(sequence=0, at=0) if index == 0 else None)
    of.add(timed(20))
    of.end()
    assert [each.duration // FRAME for each in parts(reports)] == [3, 3, 1]
    assert all(len(each.data) < 10 << 20 for each in parts(reports))


def test_pictures_of_another_init_section_that_are_to_be_decoded_earlier_share_the_time() -> None:
    """Without a seam: one source reorders its pictures, the one before it did not."""
    reports: list[EngineReport] = []
    of = track(reports)
    of.begin(epoch=3, part=SECOND)
    of.describe("avc1.1", b"one")
    for number in range(6):
        of.add(
            Sample(SECOND + number * FRAME, SECOND + number * FRAME, 0, number == 0, b"x"),
            Cut(sequence=0, at=SECOND) if number == 0 else None,
        )
    of.pause()
    of.describe("avc1.1", b"two")
    for each, cut in group(SECOND + 6 * FRAME, Cut(sequence=1, at=SECOND + 6 * FRAME)):
        of.add(each, cut)
    of.end()
    samples = [each for part in parts(reports) for each in times(part)]
    for (dts, _, step), (following, _, _) in itertools.pairwise(samples):
        assert dts + step == following
    assert [step for *_, step in samples] == [FRAME] * 6 + [FRAME // 2] * 2 + [FRAME] * 3
    assert all(dts <= pts for dts, pts, _ in samples)
    assert [each.init for each in segments(reports)] == [0, 1]
