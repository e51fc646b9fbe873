"""How many parts a segment will have."""

import pytest

from media.hls.playlist import PartialSegment
from storage.live.part_counts import PartCounts

SECOND = 90_000
HALF = PartialSegment("7.0.m4s", SECOND // 2, independent=True)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        pytest.param([], 0, id="nothing is known"),
        pytest.param([4], 4, id="as the only one"),
        pytest.param([4, 4, 7], 4, id="one is longer"),
        pytest.param([4, 4, 2], 4, id="one is shorter"),
        pytest.param([4, 4, 4, 5, 5], 5, id="another frame rate"),
    ],
)
def test_a_segment_has_as_many_as_those_before_it(counts: list[int], expected: int) -> None:
    part_counts = PartCounts()
    for count in counts:
        part_counts.add("720p", count)
        part_counts.add("audio", 9)
    assert part_counts.expected("720p", 7, [HALF]) == expected


@pytest.mark.parametrize(
    ("length", "part", "expected"),
    [
        pytest.param(2 * SECOND, SECOND // 2, 4, id="whole parts"),
        pytest.param(2 * SECOND + 90, SECOND // 2, 4, id="a millisecond more"),
        pytest.param(2 * SECOND + 1920, SECOND // 2, 5, id="a frame of sound more"),
        pytest.param(16 * SECOND // 5, SECOND // 2, 7, id="a part that is shorter"),
        pytest.param(2 * SECOND, 0, 179_100, id="parts without a duration"),
    ],
)
def test_an_announced_length_counts_for_its_segment(length: int, part: int, expected: int) -> None:
    counts = PartCounts()
    for _ in range(3):
        counts.add("720p", 3)
    counts.announce_length(7, length)
    parts = [
        PartialSegment("7.0.m4s", part, independent=True),
        PartialSegment("7.1.m4s", 0, independent=False),
    ]
    assert counts.expected("720p", 7, parts) == expected
    assert counts.expected("720p", 8, parts) == 3
    counts.announce_length(8, 0)
    assert counts.expected("720p", 8, parts) == 3
