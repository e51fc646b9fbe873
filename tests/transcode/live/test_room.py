"""How many more streams there is room for."""

import pytest

from transcode.live.load_shedding import ROOM_FACTOR, RunLoad
from transcode.live.room import USUAL_CORES, RoomMeter


def load(
    cores: float, *, off: frozenset[str] = frozenset(), lag: float = 0.0, pace: float = 1.0
) -> RunLoad:
    return RunLoad(
        stream="a", lag=lag, pace=pace, cores=cores, costs={"360p": cores}, off=off, min_rungs=0
    )


def test_before_the_first_stream_a_rule_of_thumb_counts() -> None:
    meter = RoomMeter()
    assert meter.more is None, "nothing was measured yet"
    meter.note([], ROOM_FACTOR * USUAL_CORES * 6.5)
    assert (meter.more, meter.basis) == (6, "usual")


def test_a_run_that_has_just_begun_has_no_known_cost() -> None:
    meter = RoomMeter()
    meter.note([load(0.0)], ROOM_FACTOR * USUAL_CORES * 2.5)
    assert (meter.more, meter.basis) == (2, "usual")
    meter.note([load(0.5)], ROOM_FACTOR * USUAL_CORES * 2.5)
    assert (meter.more, meter.basis) == (5, "running")


@pytest.mark.parametrize(
    ("idle", "costs", "more"),
    [
        (ROOM_FACTOR * 3.5, [1.0], 3),
        (ROOM_FACTOR * 3.5, [0.5, 1.5], 3),
        (ROOM_FACTOR * 0.9, [1.0], 0),
        (0.0, [1.0], 0),
    ],
)
def test_room_is_what_is_idle_by_what_a_stream_costs(
    idle: float, costs: list[float], more: int
) -> None:
    meter = RoomMeter()
    meter.note([load(cores) for cores in costs], idle)
    assert meter.more == more


@pytest.mark.parametrize(
    "worst", [load(1.0, off=frozenset({"360p"})), load(1.0, lag=60.0, pace=0.5)]
)
def test_there_is_no_room_while_a_stream_lacks_some(worst: RunLoad) -> None:
    meter = RoomMeter()
    meter.note([load(1.0), worst], 8.0)
    assert meter.more == 0
    meter.note([load(1.0)], 8.0)
    assert meter.more is not None
    assert meter.more > 0


def test_a_burst_changes_little_and_a_minute_all() -> None:
    meter = RoomMeter()
    for _ in range(60):
        meter.note([load(1.0)], ROOM_FACTOR * 10.5)
    assert meter.more == 10
    meter.note([load(1.0)], 0.0)
    assert meter.more == 9
    for _ in range(60):
        meter.note([load(1.0)], 0.0)
    assert meter.more == 0


def test_when_no_stream_is_on_air_any_more_the_last_ones_count() -> None:
    meter = RoomMeter()
    for _ in range(60):
        meter.note([load(0.5)], ROOM_FACTOR * 4.6)
    meter.note([], ROOM_FACTOR * 4.6)
    assert (meter.more, meter.basis) == (9, "before")
    # The next stream is another one, so earlier measurements no longer count.
    meter.note([load(2.0)], ROOM_FACTOR * 4.6)
    assert (meter.more, meter.basis) == (2, "running")
