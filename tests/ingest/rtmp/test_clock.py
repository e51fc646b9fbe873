"""One continuous timeline from 32-bit timestamps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.rtmp.clock import TimestampClock, TimestampFit

V, A = 9, 8
FITS, JUMPS, STALE = TimestampFit.FITS, TimestampFit.JUMPS, TimestampFit.STALE

Step = tuple[int, int, int, TimestampFit]  # track, stamp, expected time, expected verdict


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([(V, 0, 0, FITS), (A, 0, 0, FITS), (V, 33, 33, FITS)], id="ordinary"),
        pytest.param(
            [(V, 20_000_000, 20_000_000, FITS), (V, 20_000_033, 20_000_033, FITS)],
            id="starts at five hours and a half",
        ),
        pytest.param(
            [
                (V, 0x7FFF_FFD8, -40, FITS),
                (A, 0x7FFF_FFF0, -16, FITS),
                (V, 0, 0, FITS),
                (A, 7, 7, FITS),
            ],
            id="OBS begins at -40 ms in 31 bits",
        ),
        pytest.param(
            [(V, 0xFFFF_FFD8, -40, FITS), (V, 0, 0, FITS)], id="-40 ms in 32 bits"
        ),
        pytest.param(
            [(V, 1000, 1000, FITS), (A, 760, 760, FITS), (A, 783, 783, FITS),
             (V, 1033, 1033, FITS)],
            id="sound lags behind the picture in the interleave",
        ),
        pytest.param(
            [(V, 1000, 1000, FITS), (V, 751, 751, FITS)], id="249 ms back is a hiccup"
        ),
        pytest.param([(V, 1000, 1000, FITS), (V, 750, 750, JUMPS)], id="250 ms back is a jump"),
        pytest.param([(V, 0, 0, FITS), (V, 5000, 5000, FITS)], id="5 s ahead is a hole"),
        pytest.param([(V, 0, 0, FITS), (V, 5001, 5001, JUMPS)], id="more is a jump"),
        pytest.param(
            [(V, 0, 0, FITS), (V, 3_600_000, 3_600_000, JUMPS), (V, 3_600_033, 3_600_033, FITS)],
            id="an hour ahead, once",
        ),
        pytest.param(
            [(V, 0, 0, FITS), (A, 0, 0, FITS), (A, 4000, 4000, FITS), (A, 8000, 8000, FITS),
             (V, 8000, 8000, FITS)],
            id="a picture that stood still while sound went on is no jump",
        ),
        pytest.param(
            [(V, 100_000, 100_000, FITS), (A, 100_010, 100_010, FITS), (V, 0, 0, JUMPS),
             (A, 10, 10, FITS), (V, 33, 33, FITS)],
            id="both tracks begin anew: one epoch",
        ),
        pytest.param(
            [(V, 100_000, 100_000, FITS), (A, 100_010, 100_010, FITS), (V, 0, 0, JUMPS),
             (A, 100_033, 100_033, STALE), (A, 10, 10, FITS), (V, 33, 33, FITS)],
            id="what was queued before the jump is dropped",
        ),
        pytest.param(
            [(V, 8000, 8000, FITS), (A, 0, 0, FITS), (V, 8033, 8033, FITS), (A, 23, 23, FITS)],
            id="a device with two clocks does not jump with every packet",
        ),
    ],
)  # fmt: skip
def test_timestamps_are_placed(steps: list[Step]) -> None:
    clock = TimestampClock()
    for track, stamp, time, verdict in steps:
        reading = clock.read(track, stamp)
        assert (reading.time, reading.fit) == (time, verdict)


def test_a_track_that_never_follows_the_jump_is_accepted_again() -> None:
    clock = TimestampClock()
    clock.read(V, 100_000)
    clock.read(A, 100_000)
    clock.read(V, 0)
    verdicts = [clock.read(A, 100_000 + 23 * n).fit for n in range(1, 40)]
    assert verdicts.count(STALE) == 25
    assert verdicts[25:] == [FITS] * 14


@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.tuples(st.sampled_from([A, V]), st.integers(0, 4000)), max_size=300),
    st.sampled_from([31, 32]),
)
def test_time_goes_on_through_every_wrap(
    start: int, steps: list[tuple[int, int]], bits: int
) -> None:
    clock = TimestampClock()
    total = start
    first = clock.read(V, start % 2**bits).time
    for track, step in steps:
        total += step
        reading = clock.read(track, total % 2**bits)
        assert reading.fit is FITS
        assert reading.time - first == total - start


@given(st.lists(st.tuples(st.sampled_from([A, V]), st.integers(0, 2**32 - 1)), max_size=200))
def test_within_an_epoch_a_track_never_steps_back_far(stamps: list[tuple[int, int]]) -> None:
    clock = TimestampClock()
    last: dict[int, int] = {}
    for track, stamp in stamps:
        reading = clock.read(track, stamp)
        if reading.fit is STALE:
            continue
        if reading.fit is JUMPS:
            last.clear()
        assert reading.time - last.get(track, reading.time) > -250
        last[track] = reading.time
