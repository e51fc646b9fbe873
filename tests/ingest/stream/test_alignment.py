"""What several comparisons of two encoders say together."""

import pytest

from ingest.stream.alignment import Alignment
from media.source_comparison import SourceComparison

SILENT = SourceComparison(offset=None, reason="silent")


def recorded(*offsets: float | None) -> Alignment:
    alignment = Alignment()
    for offset in offsets:
        alignment.record(
            SILENT if offset is None else SourceComparison(offset=offset, correlation=0.9, ratio=5)
        )
    return alignment


@pytest.mark.parametrize(
    ("offsets", "expected"),
    [
        ((), None),
        ((1.371,), None),
        ((1.371, 1.372), 1.3715),
        ((1.371, 1.42), None),
        ((1.371, None, 1.372), None),
        ((1.371, 1.372, None, None, None, None), 1.3715),
        ((1.0, 1.0, 3.0), None),
        ((1.0, 1.0, 3.0, 1.0), None),
        ((1.0, 1.0, 3.0, 3.001), 3.0005),
        ((1.0, 1.0, 3.0, 1.0, 1.0), 1.0),
        ((-0.3, -0.299, -0.31, -0.3, -0.3, -0.301), -0.3),
    ],
)
def test_an_offset_holds_once_two_agree(
    offsets: tuple[float | None, ...], expected: float | None
) -> None:
    found = recorded(*offsets).offset
    assert found == (None if expected is None else pytest.approx(expected))


def test_an_offset_that_is_outdated_does_not_hold() -> None:
    alignment = recorded(*[1.371] * 9, None)
    assert alignment.near == 1.371
    alignment.record(SourceComparison(offset=None, reason="outdated"))
    assert (alignment.offset, alignment.near, alignment.is_settled) == (None, None, False)
    assert (alignment.reason, alignment.is_awaited) == ("outdated", True)


def test_a_clock_that_drifts_is_followed() -> None:
    drift = 360e-6
    alignment = recorded(*(0.5 + 10 * step * drift for step in range(300)))
    assert alignment.offset == pytest.approx(0.5 + 2990 * drift, abs=1 / 60)


def test_the_search_is_wide_until_an_offset_is_settled_and_after_some_misses() -> None:
    assert recorded().near is None
    assert recorded(*[1.0] * 7).near is None
    assert recorded(*[1.0] * 8).near == 1.0
    assert recorded(*[1.0] * 8, None, None).near == 1.0
    assert recorded(*[1.0] * 8, 2.0, 2.0).near is None
    missed = recorded(*[1.0] * 8, None, None, None)
    assert (missed.near, missed.offset, missed.reason) == (None, 1.0, "silent")


def test_what_was_found_ends_with_its_clock() -> None:
    alignment = recorded(1.0, 1.0)
    assert (alignment.confidence, alignment.reason) == (0.9, None)
    alignment = Alignment()
    assert (alignment.offset, alignment.confidence) == (None, 0.0)
    assert alignment.reason == "not compared yet"
    alignment.record(SourceComparison(offset=1.0, correlation=0.8))
    assert alignment.offset is None


@pytest.mark.parametrize(("pictures", "known"), [(None, 1.0), (1.03, 1.0), (1.2, 1.2), (0.8, 0.8)])
def test_pictures_are_apart_as_the_sound_is_unless_lip_sync_differs(
    pictures: float | None, known: float
) -> None:
    alignment = Alignment()
    assert alignment.picture_offset is None
    for _ in range(2):
        alignment.record(SourceComparison(offset=1.0, picture_offset=pictures))
    alignment.record(SourceComparison(offset=1.01))
    assert alignment.offset == pytest.approx(1.0, abs=0.011)
    assert alignment.picture_offset == pytest.approx(known, abs=0.011)


@pytest.mark.parametrize(
    ("reason", "awaited"),
    [("too short", True), ("different", True), ("silent", False), ("steady", False)],
)
def test_an_offset_is_awaited_unless_more_sound_does_not_help(
    reason: str, *, awaited: bool
) -> None:
    alignment = Alignment()
    assert alignment.is_awaited
    alignment.record(SourceComparison(offset=None, reason=reason))
    assert alignment.is_awaited is awaited
    alignment.record(SourceComparison(offset=1.0, correlation=0.8))
    assert alignment.is_awaited
    alignment.record(SourceComparison(offset=1.0, correlation=0.8))
    assert not alignment.is_awaited
