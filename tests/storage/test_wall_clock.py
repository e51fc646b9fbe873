"""This host's wall clock, against the standard library's calendar."""

from datetime import UTC, datetime, timedelta

from storage.wall_clock import wall_clock_us

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def test_it_counts_microseconds_since_the_epoch() -> None:
    before = datetime.now(UTC)
    moment = EPOCH + timedelta(microseconds=wall_clock_us())
    # `datetime` rounds, this cuts off.
    assert before - timedelta(microseconds=1) <= moment <= datetime.now(UTC)
