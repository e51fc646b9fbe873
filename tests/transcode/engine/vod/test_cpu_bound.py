"""The CPU time that files may take: plenty for honest ones, little for ones that lie."""

import pytest

from media.ladder import STANDARD_LABELS, Rendition, ladder_for
from transcode.engine.vod.cpu_bound import cpu_seconds, survey_seconds

HOUR = 3600.0
MIB = 1 << 20
MEASURED = 0.9  # seconds for one of 1080p, by `bench.vod`


def full_hd(seconds: float, packets: int, file_bytes: int) -> float:
    ladder: tuple[Rendition, ...] = ladder_for(1920, 1080, STANDARD_LABELS).renditions
    return cpu_seconds(
        file_bytes=file_bytes, seconds=seconds, packets=packets, size=(1920, 1080), rungs=ladder
    )


@pytest.mark.parametrize(
    ("rate", "file_bytes"),
    [
        pytest.param(30, 2 << 30, id="film"),
        pytest.param(1, 20 * MIB, id="screen recording of few pictures"),
        pytest.param(60, 4 << 30, id="game"),
    ],
)
def test_an_honest_hour_has_ten_times_what_it_takes(rate: int, file_bytes: int) -> None:
    assert full_hd(HOUR, round(HOUR * rate), file_bytes) > 10 * MEASURED * HOUR


def test_the_bound_grows_with_what_is_to_be_made() -> None:
    hour = full_hd(HOUR, 108_000, 2 << 30)
    assert hour < 60 * HOUR  # on one core
    assert full_hd(2 * HOUR, 216_000, 2 << 30) > 1.8 * hour
    assert (
        cpu_seconds(file_bytes=2 << 30, seconds=HOUR, packets=108_000, size=(640, 360)) < hour / 3
    )


@pytest.mark.parametrize("days", [1, 30])
def test_a_length_without_packets_or_bytes_is_not_believed(days: int) -> None:
    """Three pictures in a kilobyte: one minute."""
    assert full_hd(days * 24 * HOUR, 3, 1024) == full_hd(60.0, 3, 1024) < HOUR


def test_a_picture_that_stands_for_a_day_has_time_for_its_segments() -> None:
    """Each needs a picture in all sizes and two seconds of silence: 0.2 s of CPU."""
    bound = cpu_seconds(
        file_bytes=1024,
        seconds=24 * HOUR,
        packets=2,
        segments=43_200,
        size=(1920, 1080),
        rungs=ladder_for(1920, 1080, STANDARD_LABELS).renditions,
    )
    assert 5 * 0.2 * 43_200 < bound < 24 * HOUR


def test_pictures_beyond_all_cameras_do_not_count() -> None:
    """A tick apart: 90 000 pictures a second, a hundred bytes each."""
    assert full_hd(10.0, 900_000, 90 * MIB) < 2 * full_hd(10.0, 2400, 90 * MIB)


def test_a_picture_with_hours_of_sound_has_time_for_its_sound() -> None:
    assert full_hd(3 * HOUR, 1, 60 * MIB) > 10 * 0.02 * 3 * HOUR


def test_sound_of_unknown_length_is_bounded_by_its_bytes() -> None:
    assert 0.12 * HOUR < cpu_seconds(file_bytes=8 * MIB) < HOUR
    assert cpu_seconds(file_bytes=0) == survey_seconds(0)
