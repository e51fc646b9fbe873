"""How many requests a caller may send."""

import logging
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path

import pytest
from httpx import AsyncClient
from hypothesis import given
from hypothesis import strategies as st

from api.app import create_app
from api.http.caller_limits import CallerRateLimiter, RateLimits, TokenBuckets
from api.http.errors import ApiError
from media.fair_share import FairShare, Holder
from storage.catalog import open_catalog
from storage.catalog.records.common import Change
from tests.support.api.application import ADDRESSES, NOW_US, STREAMS
from tests.support.api.in_loop_client import client_of
from tests.support.manual_clock import ManualClock
from tests.support.sql import migrated

HERE = "192.0.2.1"


# -- buckets -----------------------------------------------------------------------------------


def test_a_bucket_holds_a_minutes_requests_and_returns_the_wait() -> None:
    buckets = TokenBuckets(60)
    assert [buckets.acquire("a", 0.0) for _ in range(60)] == [0.0] * 60
    assert buckets.acquire("a", 0.0) == pytest.approx(1.0)
    assert buckets.acquire("a", 0.75) == pytest.approx(0.25)
    assert buckets.acquire("a", 1.0) == 0.0
    assert buckets.acquire("a", 1.0) == pytest.approx(1.0)


def test_a_refused_request_costs_nothing() -> None:
    buckets = TokenBuckets(1)
    assert buckets.acquire("a", 0.0) == 0.0
    for _ in range(100):
        assert buckets.acquire("a", 30.0) == pytest.approx(30.0)
    assert buckets.acquire("a", 60.0) == 0.0


def test_buckets_do_not_share() -> None:
    buckets = TokenBuckets(1)
    assert buckets.acquire("a", 0.0) == buckets.acquire("b", 0.0) == 0.0
    assert buckets.acquire("a", 0.0) > 0


def test_zero_is_no_limit() -> None:
    buckets = TokenBuckets(0)
    assert {buckets.acquire("a", 0.0) for _ in range(1000)} == {0.0}
    assert len(buckets) == 0


def test_a_clock_that_goes_back_gives_nothing_and_takes_nothing() -> None:
    buckets = TokenBuckets(1)
    buckets.acquire("a", 100.0)
    assert buckets.acquire("a", 50.0) == pytest.approx(60.0)


def test_the_table_has_an_end_and_forgets_the_oldest() -> None:
    buckets = TokenBuckets(1, most=3)
    for name in "abcd":
        assert buckets.acquire(name, 0.0) == 0.0
    assert len(buckets) == 3
    assert buckets.wait("a", 0.0) == 0.0
    assert buckets.wait("b", 0.0) > 0


@given(
    st.integers(min_value=1, max_value=100),
    st.lists(st.floats(min_value=0, max_value=20), max_size=300),
)
def test_never_more_than_a_minute_and_what_filled_up(per_minute: int, steps: list[float]) -> None:
    buckets = TokenBuckets(per_minute)
    now, accepted = 0.0, 0
    for step in steps:
        now += step
        accepted += buckets.acquire("a", now) == 0.0
        assert accepted <= per_minute * (1 + now / 60) + 1e-6


# -- callers -----------------------------------------------------------------------------------


def test_guesses_of_one_address_are_limited(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="security")
    callers = CallerRateLimiter(RateLimits(requests=0, attempts=5), clock=ManualClock())
    for _ in range(5):
        callers.count_unauthenticated(HERE)
    with pytest.raises(ApiError) as refused:
        callers.count_unauthenticated(HERE)
    assert refused.value.status_code == HTTPStatus.TOO_MANY_REQUESTS
    assert (refused.value.headers or {})["Retry-After"] == "12"
    callers.count_unauthenticated("192.0.2.2")
    events = [(each.msg, vars(each)["peer"]) for each in caplog.records]
    assert events == [
        *[("token refused", HERE)] * 5,
        ("rate limited", HERE),
        ("token refused", "192.0.2.2"),
    ]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("", "", True),
        ("no address", "another", False),
    ],
)
def test_a_stranger_has_one_network_however_many_addresses(
    one: str, other: str, *, same: bool
) -> None:
    callers = CallerRateLimiter(RateLimits(requests=0, attempts=1), clock=ManualClock())
    callers.count_unauthenticated(one)
    if same:
        with pytest.raises(ApiError):
            callers.count_unauthenticated(other)
    else:
        callers.count_unauthenticated(other)


# -- over the application ----------------------------------------------------------------------


@asynccontextmanager
async def limited(
    folder: Path, rates: RateLimits, clock: ManualClock
) -> AsyncGenerator[tuple[AsyncClient, dict[str, str], dict[str, str]]]:
    """Open an application with rate limits; yield a client and the headers of two tokens."""
    async with open_catalog(migrated(folder / "catalog.db"), migrate=True) as catalog:
        first = await catalog.installation.first_start(NOW_US)
        _, second = await catalog.tokens.add("second", None, Change(NOW_US), write=True)
        app = create_app(
            catalog=catalog,
            addresses=ADDRESSES,
            broadcaster_key="key",
            rate_limiter=CallerRateLimiter(rates, clock=clock),
        )
        async with client_of(app) as client:
            yield (
                client,
                {"Authorization": f"Bearer {first.owner_token}"},
                {"Authorization": f"Bearer {second}"},
            )


async def test_a_token_that_asks_too_often_is_429_and_changes_nothing(tmp_path: Path) -> None:
    clock = ManualClock()
    async with limited(tmp_path, RateLimits(requests=3, attempts=0), clock) as (
        client,
        owner,
        other,
    ):
        for _ in range(3):
            answer = await client.post(STREAMS, json={"title": "x"}, headers=owner)
            assert answer.status_code == 201
        answer = await client.post(STREAMS, json={"title": "x"}, headers=owner)
        assert answer.status_code == 429
        assert answer.headers["retry-after"] == "20"
        assert set(answer.json()) == {"message"}
        listed = await client.get(STREAMS, headers=other)
        assert listed.json()["meta"]["total"] == 4  # the first start's, and three
        clock.now += 20
        assert (await client.get(STREAMS, headers=owner)).status_code == 200


async def test_strangers_are_429_and_good_tokens_beside_them_are_not(tmp_path: Path) -> None:
    rates = RateLimits(requests=0, attempts=2)
    async with limited(tmp_path, rates, ManualClock()) as (client, owner, other):
        assert (await client.get(STREAMS, headers=owner)).status_code == 200
        wrong = {"Authorization": "Bearer wrong"}
        statuses = [(await client.get(STREAMS, headers=wrong)).status_code for _ in range(4)]
        assert statuses == [401, 401, 429, 429]
        assert (await client.get(STREAMS)).status_code == 429
        assert (await client.get(STREAMS, headers=owner)).status_code == 200
        # A token that was not seen before is looked up like any other.
        assert (await client.get(STREAMS, headers=other)).status_code == 200
        assert (await client.get(STREAMS, headers=wrong)).status_code == 429


async def test_requests_that_need_no_token_are_not_counted(tmp_path: Path) -> None:
    rates = RateLimits(requests=1, attempts=1)
    async with limited(tmp_path, rates, ManualClock()) as (client, _, _):
        for _ in range(5):
            assert (await client.get("/schema/openapi.json")).status_code == 200


def acquire_all(share: FairShare, *holders: Holder) -> int:
    """Take all places that these holders get, and return their number."""
    count = 0
    while share.acquire(holders) is None:
        count += 1
    return count


def addresses(prefix: str) -> Iterator[str]:
    return (f"{prefix}:{number:x}::1" for number in range(1 << 12))
