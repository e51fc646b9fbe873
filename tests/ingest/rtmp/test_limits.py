"""Budgets that refill with time."""

import msgspec
import pytest

from ingest.rtmp.limits import Limits, TokenBucket


def test_a_bucket_gives_what_is_saved_up_and_no_more() -> None:
    bucket = TokenBucket(rate=10, size=50, now=100.0)
    assert bucket.spend(50, 100.0)
    assert not bucket.spend(1, 100.0)


def test_a_bucket_refills_with_time_up_to_its_size() -> None:
    bucket = TokenBucket(rate=10, size=50, now=0.0)
    assert bucket.spend(50, 0.0)
    assert bucket.spend(20, 2.0)
    assert not bucket.spend(51, 1000.0)


def test_an_amount_that_is_not_available_costs_nothing() -> None:
    bucket = TokenBucket(rate=10, size=50, now=0.0)
    assert bucket.spend(45, 0.0)
    assert not any(bucket.spend(6, 0.0) for _ in range(100))
    assert bucket.spend(5, 0.0)
    assert bucket.spend(10, 1.0)


def test_an_average_at_the_rate_is_never_refused() -> None:
    bucket = TokenBucket(rate=1000, size=5000, now=0.0)
    assert all(bucket.spend(100, 0.1 * n) for n in range(1, 1000))


def test_limits_are_read_like_settings_and_unknown_ones_refused() -> None:
    assert msgspec.convert({"connections": "5"}, Limits, strict=False).connections == 5
    with pytest.raises(msgspec.ValidationError, match="chunk_streamz"):
        msgspec.convert({"chunk_streamz": 5}, Limits)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"connections": 0}, Limits)
