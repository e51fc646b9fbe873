import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.eta import SpanPace, seconds_remaining

SECOND = 1_000_000
NOW = 1000 * SECOND
WAITING = SpanPace("queued", 100)


START = 600_000  # to the first picture


def running(done: int, seconds: int, cost: int = 100, ago: int = 0) -> SpanPace:
    """Return the pace of a span whose pictures took `seconds`, noted `ago` seconds ago."""
    begun = NOW - (ago + seconds) * SECOND - START
    return SpanPace("running", cost, done, begun, NOW - ago * SECOND)


def done(seconds: int) -> SpanPace:
    return SpanPace("done", 100, 100, NOW - (30 + seconds) * SECOND - START, NOW - 30 * SECOND)


@pytest.mark.parametrize(
    ("spans", "free", "left"),
    [
        pytest.param([WAITING, WAITING], 0, 0, id="nothing is known"),
        pytest.param([running(0, 3), WAITING], 0, 0, id="nothing is done"),
        pytest.param([running(50, 5)], 0, 5, id="half of one"),
        pytest.param([running(50, 5, ago=2)], 0, 3, id="half of one, two seconds ago"),
        pytest.param([running(50, 5, ago=9)], 0, 0, id="slower than before"),
        pytest.param([running(50, 5), WAITING], 0, 16, id="one worker, one more to take"),
        pytest.param([running(50, 5), running(50, 5)], 0, 5, id="two at once"),
        pytest.param([done(10), done(10), running(10, 1)], 0, 9, id="the last one alone"),
        pytest.param([done(10), running(0, 3)], 0, 10, id="the last one, of which nothing is done"),
        pytest.param([done(10), running(90, 9), WAITING], 1, 11, id="who ended takes the last"),
        pytest.param([done(10), WAITING], 0, 11, id="nobody at work just now"),
        pytest.param([running(50, 5), running(50, 5), WAITING], 0, 16, id="three for two"),
        pytest.param([done(10), done(10)], 1, 0, id="all done"),
        # A clock that was set back.
        pytest.param([running(50, -5)], 0, 0, id="no time went by"),
    ],
)
def test_what_is_left_is_as_the_workers_will_take_it(
    spans: list[SpanPace], free: int, left: int
) -> None:
    assert seconds_remaining(spans, NOW, idle_workers=free) == left


@given(
    st.lists(
        st.builds(
            SpanPace,
            state=st.sampled_from(["queued", "running", "done"]),
            cost=st.integers(1, 10_000),
            done=st.integers(0, 20_000),
            begun_us=st.integers(0, 1 << 50),
            changed_us=st.integers(0, 1 << 50),
        )
    ),
    st.integers(0, 3),
)
def test_whatever_was_noted_gives_a_number(spans: list[SpanPace], free: int) -> None:
    assert seconds_remaining(spans, NOW, idle_workers=free) >= 0
