"""Measurements of single packet windows; `test_meter` measures whole encoders."""

from ingest.report import measures
from ingest.report.packet_window import PacketWindow


def window(
    stamps: list[int], *, sizes: list[int] | None = None, offsets: list[int] | None = None
) -> PacketWindow:
    """Return packets that arrive on time; `sizes` are twice the bytes, odd for a keyframe."""
    return PacketWindow(
        [stamp / 1000 for stamp in stamps],
        stamps,
        offsets or [0] * len(stamps),
        sizes or [2] * len(stamps),
        [0] * len(stamps),
    )


EMPTY = window([])
SECONDS = [0, 500, 1000, 1500, 2000]


def test_too_few_packets_give_no_figures() -> None:
    for few in (EMPTY, window([5]), window([0, 999])):
        assert measures.bit_rates(few) == measures.BitRates(None, None)
        assert measures.picture_order(few) == measures.PictureOrder(None, None)
        assert measures.jitter(few) is None
        assert measures.interleave(few) is None


def test_bit_rates_leave_out_the_last_packets_duration() -> None:
    even = measures.bit_rates(window(SECONDS, sizes=[2 * 1000] * 5))
    assert even.mean == 8 * 4 * 1000 // 2
    assert even.peak is not None
    assert even.peak >= even.mean


def test_missing_frames_are_those_that_fit_into_gaps() -> None:
    whole = [40 * number for number in range(100)]
    assert measures.frame_timing(window(whole)).missing == 0
    holed = [stamp for stamp in whole if stamp not in (400, 440, 2000)]
    timing = measures.frame_timing(window(holed))
    assert (timing.missing, timing.varies) == (3, False)


def test_keyframes_are_marked_by_odd_sizes() -> None:
    report = measures.keyframes(window(SECONDS, sizes=[3, 2, 3, 2, 2]))
    assert (report.intervals, report.min_seconds, report.max_seconds) == (1, 1.0, 1.0)
    assert (report.since_seconds, report.fixed) == (1.0, None)


def test_a_picture_shown_before_its_keyframe_opens_the_group() -> None:
    closed = window(SECONDS, sizes=[3, 2, 2, 3, 2])
    assert measures.picture_order(closed) == measures.PictureOrder(0, False)
    leading = window(SECONDS, sizes=[3, 2, 3, 2, 2], offsets=[0, 0, 1000, 0, 0])
    assert measures.picture_order(leading) == measures.PictureOrder(1, True)


def test_silences_count_from_the_start_of_the_time_to_its_end() -> None:
    packets = [window([1000, 4000]), window([2000])]
    assert measures.longest_silence(packets, 0.0, 5.0) == 2.0
    assert measures.longest_silence(packets, 0.0, 9.5) == 5.5
    assert measures.longest_silence([EMPTY], 3.0, 10.0) == 7.0


def test_steps_back_are_counted() -> None:
    assert measures.steps_back(window([0, 40, 20, 60, 60, 59])) == 2


def test_each_whole_second_counts_the_packets_that_arrived_in_it() -> None:
    # Frames of 100 bytes every 500 ms from 0.5 s on, a keyframe each second; sound of 10 bytes.
    picture = window([500, 1000, 1500, 2000, 2500], sizes=[201, 200, 201, 200, 201])
    sound = window([600, 1700], sizes=[21, 21])
    report = measures.seconds(picture, sound, 0.2, 3.4)
    assert report.newest == 2  # the fourth second is not over, the first one was not whole
    assert report.bit_rates == [8 * 210, 8 * 200]
    assert report.frames == [2, 2]
    assert report.keyframe_seconds == [1.0, 1.0]


def test_a_second_without_packets_is_empty_and_keeps_the_interval() -> None:
    picture = window([0, 900, 1100, 4000], sizes=[3, 3, 2, 3])
    report = measures.seconds(picture, EMPTY, 0.0, 5.0)
    assert report.bit_rates == [16, 8, 0, 0, 8]
    assert report.frames == [2, 1, 0, 0, 1]
    assert report.keyframe_seconds == [0.9, 0.9, 0.9, 0.9, 3.1]


def test_the_first_partial_second_is_not_reported() -> None:
    report = measures.seconds(window([700]), EMPTY, 0.5, 0.9)
    assert (report.bit_rates, report.frames, report.keyframe_seconds) == ([], [], [])
    assert report.newest == -1
