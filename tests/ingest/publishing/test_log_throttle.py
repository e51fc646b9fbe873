from hypothesis import given
from hypothesis import strategies as st

from ingest.publishing.log_throttle import (
    LINES_PER_CAUSE,
    LINES_PER_NETWORK,
    PERIOD_SECONDS,
    LogThrottle,
    SuppressedLines,
)


def lines(
    throttle: LogThrottle, site: str, count: int, now: float, cause: str = "wrong key"
) -> int:
    return sum(throttle.should_log("refused", cause, site, now) for _ in range(count))


def test_the_first_lines_of_a_network_are_logged_and_the_rest_summed_once_a_period() -> None:
    throttle = LogThrottle()
    assert lines(throttle, "a", 417, 10.0) == LINES_PER_NETWORK == 5
    assert throttle.finished_summaries(10.0 + PERIOD_SECONDS - 0.1) == []
    assert throttle.finished_summaries(10.0 + PERIOD_SECONDS) == [
        SuppressedLines("refused", "wrong key", 412, 60.0)
    ]
    assert throttle.finished_summaries(10.0 + 2 * PERIOD_SECONDS) == []


def test_the_next_period_logs_the_first_lines_again() -> None:
    throttle = LogThrottle()
    lines(throttle, "a", 100, 0.0)
    throttle.finished_summaries(60.0)
    assert lines(throttle, "a", 100, 60.5) == LINES_PER_NETWORK


def test_lines_below_the_limit_are_not_summed() -> None:
    throttle = LogThrottle()
    assert lines(throttle, "a", LINES_PER_NETWORK, 0.0) == LINES_PER_NETWORK
    assert throttle.finished_summaries(60.0) == []


def test_a_flood_from_one_network_leaves_lines_for_others() -> None:
    throttle = LogThrottle()
    lines(throttle, "flood", 10_000, 0.0)
    assert lines(throttle, "studio", 3, 1.0) == 3


def test_causes_and_events_are_counted_separately() -> None:
    throttle = LogThrottle()
    lines(throttle, "a", 10, 0.0)
    assert lines(throttle, "a", 10, 0.0, cause="occupied") == LINES_PER_NETWORK
    assert throttle.should_log("closed", "wrong key", "a", 0.0)
    assert {
        (summary.event, summary.cause, summary.count)
        for summary in throttle.finished_summaries(60.0)
    } == {
        ("refused", "wrong key", 5),
        ("refused", "occupied", 5),
    }


def test_a_flood_from_many_networks_is_limited_in_lines_and_memory() -> None:
    throttle = LogThrottle()
    logged = sum(lines(throttle, f"site {number}", 2, 0.0) for number in range(100_000))
    assert logged == LINES_PER_CAUSE
    (period,) = throttle._periods.values()  # pyright: ignore[reportPrivateUsage]  # memory is the point
    assert len(period.networks) <= LINES_PER_CAUSE
    assert throttle.finished_summaries(60.0)[0].count == 200_000 - LINES_PER_CAUSE
    assert not throttle._periods  # pyright: ignore[reportPrivateUsage]  # as above


def test_the_end_returns_the_remaining_summaries() -> None:
    throttle = LogThrottle()
    lines(throttle, "a", 8, 5.0)
    assert throttle.remaining_summaries(17.5) == [SuppressedLines("refused", "wrong key", 3, 12.5)]
    assert throttle.remaining_summaries(18.0) == []


@given(
    st.lists(
        st.tuples(
            st.floats(0, 20), st.sampled_from("abcdefgh"), st.sampled_from(["x", "y"])
        ),
        max_size=300,
    )
)  # fmt: skip
def test_every_refusal_is_logged_or_summed(logged: list[tuple[float, str, str]]) -> None:
    throttle = LogThrottle()
    now, counted = 0.0, 0
    for step, site, cause in logged:
        now += step
        counted += sum(summary.count for summary in throttle.finished_summaries(now))
        counted += throttle.should_log("refused", cause, site, now)
    counted += sum(summary.count for summary in throttle.remaining_summaries(now))
    assert counted == len(logged)
