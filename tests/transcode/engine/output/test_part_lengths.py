"""Parts last 85 to 100 % of the target at every frame rate, and leave with their last sample."""

import random
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import accumulate
from math import ceil

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from media.hls.fmp4 import Sample
from media.hls.segment import Part, Segment
from media.ticks import VIDEO_SCALE
from tests.support.hls.mp4_boxes import Init, read_fragments
from transcode.engine.output.part_lengths import FrameInterval, PartLengths, choose_target
from transcode.engine.output.segment_grid import Cut, SegmentGrid
from transcode.engine.output.segmenter import LiveSegmenter
from transcode.protocol.messages import EngineReport

HALF = VIDEO_SCALE // 2
MS = VIDEO_SCALE // 1000
INIT = Init(codec="avc1", scale=VIDEO_SCALE, is_video=True, size=(640, 360), defaults=(0, 0, 0))
RATES = [*range(1, 61), Fraction(24_000, 1001), Fraction(30_000, 1001), Fraction(60_000, 1001)]


class SentPart(msgspec.Struct, frozen=True):
    """A part, and how many samples of its rendition had been fed when it was sent."""

    part: Part
    fed: int


class SegmenterFixture:
    """A segmenter that gets a rendition's samples one by one."""

    def __init__(self, target: int, scale: int = VIDEO_SCALE) -> None:
        self.sent: list[EngineReport] = []
        self.arrivals: list[SentPart] = []
        self._track = LiveSegmenter("720p", scale, self.sent.append)
        self._track.begin(epoch=0, part=target)
        self._target = target

    def feed(self, times: Sequence[int], *, each: int) -> "SegmenterFixture":
        """Feed samples of these times; `each` of them make a segment."""
        for fed, at in enumerate(times, 1):
            number, first = divmod(fed - 1, each)
            before = len(self.sent)
            self.add(at, Cut(sequence=number, at=at) if first == 0 else None)
            parts = [report for report in self.sent[before:] if isinstance(report, Part)]
            self.arrivals += [SentPart(part, fed) for part in parts]
        self._track.end()
        return self

    def add(self, at: int, cut: Cut | None) -> None:
        """Feed a sample, which opens the segment of a cut."""
        self._track.add(Sample(at, at, 0, cut is not None, b"x"), cut)

    def lengths(self, sequence: int) -> list[int]:
        """Return the lengths of the parts of a segment."""
        parts = (report for report in self.sent if isinstance(report, Part))
        return [part.duration for part in parts if part.sequence == sequence]

    def obeys(self) -> bool:
        """Assert the rule of 4.4.4.9 for all parts."""
        parts = [report for report in self.sent if isinstance(report, Part)]
        for part, following in zip(parts, (*parts[1:], None), strict=True):
            assert 0 < part.duration <= self._target
            if following is not None and following.sequence == part.sequence:
                assert part.duration >= 0.85 * self._target
        return True

    def drift(self) -> int:
        """Return the largest difference between a segment and the sum of its parts, in ticks."""
        sums: dict[int, int] = {}
        for report in self.sent:
            if isinstance(report, Part):
                sums[report.sequence] = sums.get(report.sequence, 0) + report.duration
        segments = [report for report in self.sent if isinstance(report, Segment)]
        return max(abs(each.duration - sums[each.sequence]) for each in segments)


def constant(rate: Fraction | int, count: int, *, rounded: bool) -> list[int]:
    """Times at a rate from 10 s on, in whole milliseconds as FLV has them if `rounded`."""
    scale = 1000 if rounded else VIDEO_SCALE
    return [
        (10 * scale + int(number * scale / rate)) * (VIDEO_SCALE // scale)
        for number in range(count)
    ]


def target_of(rate: Fraction | int, wanted: int = HALF) -> int:
    return choose_target(wanted, FrameInterval(VIDEO_SCALE / Fraction(rate)))


@pytest.mark.parametrize(
    ("rate", "wanted", "ms"),
    [
        (30, 500, 500), (60, 500, 500), (25, 500, 480), (24, 500, 500), (50, 500, 500),
        (Fraction(30_000, 1001), 500, 501), (3, 500, 334), (1, 500, 1000), (2, 500, 500),
        (4, 200, 250), (3, 200, 334), (1, 200, 1000), (60, 200, 200), (25, 200, 200),
        (7, 1000, 1000), (30, 1000, 1000), (Fraction(1, 2), 500, 1000), (Fraction(1, 9), 200, 1000),
    ],
)  # fmt: skip
def test_a_target_is_a_whole_number_of_frames(rate: Fraction | int, wanted: int, ms: int) -> None:
    assert target_of(rate, wanted * MS) == ms * MS


@given(
    st.integers(200, 1000).map(lambda ms: ms * MS),
    st.fractions(1, 60, max_denominator=1001),
)
def test_a_target_is_between_a_fifth_of_a_second_and_a_second(wanted: int, rate: Fraction) -> None:
    target = target_of(rate, wanted)
    assert 200 * MS <= target <= 1000 * MS
    frames = target * rate / VIDEO_SCALE
    assert frames % 1 < MS * rate / VIDEO_SCALE or frames.denominator == 1


def test_an_uncertain_interval_makes_room_for_its_error() -> None:
    measured = FrameInterval(Fraction(3_000), Fraction(9))
    assert choose_target(HALF, measured) == HALF + 2 * MS


@pytest.mark.parametrize("rate", RATES, ids=str)
@pytest.mark.parametrize("rounded", [False, True], ids=["exact", "milliseconds"])
def test_every_part_of_a_constant_source_leaves_with_its_last_frame(
    rate: Fraction | int, *, rounded: bool
) -> None:
    for wanted_ms in (200, 333, 500, 1000):
        target = target_of(rate, wanted_ms * MS)
        frames = max(1, int(target * rate / VIDEO_SCALE))
        fed = SegmenterFixture(target).feed(
            constant(rate, 12 * frames + 5, rounded=rounded), each=4 * frames
        )
        assert fed.obeys()
        assert fed.drift() <= 2 * MS
        whole = [arrival for arrival in fed.arrivals if arrival.part.duration >= 0.85 * target]
        assert len(whole) >= 12
        # Until two frames have come, their interval is unknown.
        assert [each.fed for each in whole if each.fed % frames] in ([], [2])


def jittery(rate: int, count: int, jitter: float, seed: int) -> list[int]:
    """Times that are off by up to `jitter` of a frame."""
    chance = random.Random(seed)
    step = VIDEO_SCALE / rate
    return [
        round(10 * VIDEO_SCALE + (number + chance.uniform(-jitter, jitter) / 2) * step)
        for number in range(count)
    ]


@example(4, 200, 0.75, 988109804)
@given(
    st.integers(1, 60),
    st.sampled_from([200, 400, 500, 800, 1000]),
    st.floats(0, 0.9),
    st.integers(0, 1 << 30),
)
def test_jitter_breaks_no_rule(rate: int, wanted_ms: int, jitter: float, seed: int) -> None:
    target = target_of(rate, wanted_ms * MS)
    fed = SegmenterFixture(target).feed(jittery(rate, 6 * rate + 5, jitter, seed), each=2 * rate)
    assert fed.obeys()
    # The announced parts follow the media within two frames.
    assert fed.drift() <= 2 * VIDEO_SCALE / rate + 2 * MS


@given(st.integers(1, 60), st.integers(1, 60), st.sampled_from([200, 500, 1000]), st.booleans())
def test_a_rate_that_the_target_was_not_made_for_breaks_no_rule(
    assumed: int, rate: int, wanted_ms: int, rounded: bool
) -> None:
    target = target_of(assumed, wanted_ms * MS)
    assert (
        SegmenterFixture(target)
        .feed(constant(rate, 5 * rate + 3, rounded=rounded), each=2 * rate)
        .obeys()
    )


def changing(first: int, second: int) -> Iterator[int]:
    at = 10 * VIDEO_SCALE
    for rate in (first, second, first):
        for _ in range(3 * rate):
            yield at
            at += VIDEO_SCALE // rate


@pytest.mark.parametrize(("first", "second"), [(30, 60), (60, 15), (30, 1), (25, 7), (3, 50)])
def test_a_rate_that_changes_breaks_no_rule(first: int, second: int) -> None:
    assert SegmenterFixture(target_of(first)).feed(list(changing(first, second)), each=50).obeys()


@given(st.lists(st.integers(0, 3 * VIDEO_SCALE), min_size=2, max_size=60))
def test_holes_break_no_rule(steps: list[int]) -> None:
    times = list(accumulate(steps, initial=10 * VIDEO_SCALE))
    assert SegmenterFixture(HALF).feed(times, each=20).obeys()


@given(st.integers(200, 1000).map(lambda ms: ms * MS))
def test_sound_has_whole_frames_in_every_part(target: int) -> None:
    fed = SegmenterFixture(target, scale=48_000).feed(
        [480_000 + number * 1024 for number in range(400)], each=94
    )
    assert fed.obeys()
    assert all(part.duration % 1920 == 0 for part in fed.sent if isinstance(part, Part))
    assert fed.drift() == 0


@pytest.mark.parametrize("lost", [1, 2, 5, 10])
@pytest.mark.parametrize("first", range(1, 30))
def test_parts_cover_a_hole_that_one_of_them_has_room_for(first: int, lost: int) -> None:
    times = constant(30, 90, rounded=True)
    fed = SegmenterFixture(HALF).feed(times[:first] + times[first + lost :], each=45)
    assert fed.obeys()
    assert fed.drift() <= MS


@pytest.mark.parametrize("pictures", range(61, 120))
def test_parts_are_announced_as_they_last_where_a_picture_is_held(pictures: int) -> None:
    times = constant(30, pictures, rounded=True)
    times += [times[-1] + number * HALF // 5 for number in range(1, 60)]
    fed = SegmenterFixture(HALF).feed(times, each=200)
    assert fed.obeys()
    for arrival in fed.arrivals:
        (media,) = read_fragments(arrival.part.data, INIT)
        assert abs(media.duration - arrival.part.duration) <= 2 * MS


def test_a_hole_does_not_shorten_the_parts_after_it() -> None:
    lengths = PartLengths(VIDEO_SCALE, HALF)
    lengths.begin_segment(0)
    assert lengths.end_part(0, 3 * HALF, last=False) == HALF
    lengths.begin_part(3 * HALF)
    assert lengths.end_part(3 * HALF, 4 * HALF, last=False) == HALF


@pytest.mark.parametrize(
    ("intervals", "shortest"),
    [
        ([33, 34, 33, 33, 34, 33, 33, 100, 100], 100),
        ([33, 34, 33, 33, 34, 33, 33, 33, 100], 33),
        ([33, 33, 66, 33, 66, 33, 33, 100, 100], 33),
        ([33, 33, 33, 33, 33, 33, 33, 34, 34], 33),
        ([100, 100, 100, 100, 100, 100, 100, 33, 33], 33),
    ],
)
def test_the_shortest_interval_counts_until_a_steady_source_has_a_lower_rate(
    intervals: list[int], shortest: int
) -> None:
    lengths = PartLengths(VIDEO_SCALE, HALF)
    for time in accumulate(intervals, initial=0):
        lengths.measure(time * MS)
    assert lengths.shortest == shortest * MS


# -- last parts -----------------------------------------------------------------------------------


def in_segments(
    times: Sequence[int], target: int, *, gop: int, reuse: bool, scale: int = VIDEO_SCALE
) -> SegmenterFixture:
    """Feed samples whose segments the grid decides, with an IDR picture every `gop` samples."""
    grid = SegmentGrid(
        sequence=0, discontinuity=False, cut=2 * VIDEO_SCALE, longest=4 * VIDEO_SCALE, reuse=reuse
    )
    fixture = SegmenterFixture(target, scale)
    for number, at in enumerate(times):
        ticks = at * VIDEO_SCALE // scale
        found = grid.add_picture(ticks, idr=number % gop == 0)
        fixture.add(at, found[0] if found else None)
    return fixture


def best_last_part(frames: int, most: int, least: int) -> int:
    """The longest last part of a segment of so many frames, by trying all numbers of parts."""
    lasts = (
        min(most, frames - others * least)
        for others in range(frames)
        if frames - others * least >= 1 and frames - others * most <= most
    )
    return max(lasts)


def assert_no_last_part_is_tiny(fixture: SegmenterFixture, target: int, step: Fraction) -> None:
    """Assert that the last part of each whole segment but the first is half a part or the best."""
    assert fixture.obeys()
    frames = target // step
    least = ceil(Fraction(85, 100) * target / step)
    for segment in [each for each in fixture.sent if isinstance(each, Segment)][1:]:
        lengths = fixture.lengths(segment.sequence)
        best = best_last_part(segment.frames, frames, least)
        assert lengths[-1] + 2 * MS >= min(frames / 2, best) * step, (lengths, segment.frames)


@pytest.mark.parametrize("wanted_ms", [200, 250, 333, 500, 1000])
@pytest.mark.parametrize("rate", [1, 3, 7, 12, 15, 24, 25, 30, 50, 60, Fraction(30_000, 1001)])
@pytest.mark.parametrize("rounded", [False, True], ids=["exact", "milliseconds"])
def test_the_last_part_of_a_segment_is_half_a_part_where_that_is_possible(
    rate: Fraction | int, wanted_ms: int, *, rounded: bool
) -> None:
    step = VIDEO_SCALE / Fraction(rate)
    target = choose_target(wanted_ms * MS, FrameInterval(step), 2 * VIDEO_SCALE)
    times = constant(rate, ceil(5 * rate), rounded=rounded)
    for gop, reuse in ((len(times), False), (round(2 * rate), True)):
        assert_no_last_part_is_tiny(in_segments(times, target, gop=gop, reuse=reuse), target, step)


@given(
    st.fractions(1, 120, max_denominator=1001),
    st.integers(200, 1000).map(lambda ms: ms * MS),
    st.integers(60, 240),
    st.booleans(),
)
def test_that_holds_at_any_rate_part_target_and_distance_of_keyframes(
    rate: Fraction, wanted: int, group: int, rounded: bool
) -> None:
    step = VIDEO_SCALE / rate
    target = choose_target(wanted, FrameInterval(step), 2 * VIDEO_SCALE)
    gop = max(1, round(group * rate / 60))
    times = constant(rate, 3 * gop + 1, rounded=rounded)
    assert_no_last_part_is_tiny(in_segments(times, target, gop=gop, reuse=True), target, step)


@given(st.integers(200, 1000).map(lambda ms: ms * MS), st.integers(0, 1023))
def test_the_last_part_of_sound_is_never_tiny(target: int, begin: int) -> None:
    times = [480_000 + begin + number * 1024 for number in range(600)]
    fed = in_segments(times, target, gop=1, reuse=False, scale=48_000)
    assert_no_last_part_is_tiny(fed, target, Fraction(1920))
    assert min(fed.lengths(number)[-1] for number in (0, 1, 2, 3)) > 60 * MS


@pytest.mark.parametrize(
    ("ms", "frames"),
    [(500, [20, 20, 20, 20, 14]), (200, [9] * 6 + [8] * 5), (1000, [40, 40, 14])],
)
def test_sound_is_spread_over_the_parts_of_a_segment(ms: int, frames: list[int]) -> None:
    times = [480_000 + number * 1024 for number in range(200)]
    fed = in_segments(times, ms * MS, gop=1, reuse=False, scale=48_000)
    assert [length // 1920 for length in fed.lengths(0)] == frames


@pytest.mark.parametrize(
    ("rate", "wanted", "ms"),
    [
        (30, 500, 500), (25, 500, 480), (15, 500, 467), (25, 250, 280), (24, 250, 250),
        (3, 500, 334), (10, 250, 200), (Fraction(1, 9), 500, 1000), (30, 1000, 1000),
    ],
)  # fmt: skip
def test_the_target_is_one_that_divides_segments(
    rate: Fraction | int, wanted: int, ms: int
) -> None:
    interval = FrameInterval(VIDEO_SCALE / Fraction(rate))
    assert choose_target(wanted * MS, interval, 2 * VIDEO_SCALE) == ms * MS
