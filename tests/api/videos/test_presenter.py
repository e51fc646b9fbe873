"""The format of lengths in the bodies of videos."""

import pytest

from api.videos.presenter import iso8601_duration


@pytest.mark.parametrize(
    ("length_us", "text"),
    [
        (0, "PT0S"),
        (499, "PT0S"),
        (500, "PT0.001S"),
        (1_000_000, "PT1S"),
        (1_500_000, "PT1.5S"),
        (60_000_000, "PT1M"),
        (61_000_000, "PT1M1S"),
        (3_600_000_000, "PT1H"),
        (3_723_456_000, "PT1H2M3.456S"),
        (100 * 3_600_000_000, "PT100H"),
    ],
)
def test_a_length_is_an_iso_8601_duration_to_the_millisecond(length_us: int, text: str) -> None:
    assert iso8601_duration(length_us) == text
