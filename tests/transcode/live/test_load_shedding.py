"""Load shedding alone, and against a machine with a given number of cores."""

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transcode.live.load_shedding import (
    MAX_LAG_SECONDS,
    MOST_ROOM_SECONDS,
    RETURN_SECONDS,
    ROOM_SECONDS,
    SETTLE_SECONDS,
    LoadShedder,
    RunLoad,
)

COSTS = {"720p": 0.3, "480p": 0.15, "360p": 0.08}


def load(
    late: float = 1.5,
    pace: float = 1.0,
    *,
    off: frozenset[str] = frozenset(),
    least: int = 0,
    cores: float = 0.6,
) -> RunLoad:
    return RunLoad(
        stream="a", lag=late, pace=pace, cores=cores, costs=COSTS, off=off, min_rungs=least
    )


@pytest.mark.parametrize(
    ("run", "off"),
    [
        pytest.param(load(), None, id="all is well"),
        pytest.param(load(5.0, 1.2), None, id="late, but catching up"),
        pytest.param(load(1.5, 0.7), None, id="slow for a moment"),
        pytest.param(load(2.0, 0.7), {"720p"}, id="soon to be late"),
        pytest.param(load(4.0, 0.9), {"720p"}, id="a little short: the costliest goes"),
        pytest.param(load(4.0, 0.65), {"720p", "480p"}, id="as many as it takes"),
        pytest.param(load(4.0, 0.1), {"720p", "480p", "360p"}, id="the source's packets alone"),
        pytest.param(load(4.0, 0.1, least=1), {"720p", "480p"}, id="a picture is left"),
        pytest.param(load(4.0, 0.9, off=frozenset({"720p"})), {"720p", "480p"}, id="the next one"),
        pytest.param(load(4.0, 0.9, off=frozenset(COSTS)), None, id="nothing is left to shed"),
    ],
)
def test_what_is_shed(run: RunLoad, off: set[str] | None) -> None:
    assert LoadShedder().decide(0.0, [run], 0.0) == ({} if off is None else {"a": frozenset(off)})


def test_a_decision_gets_time_to_show() -> None:
    load_shedder = LoadShedder()
    assert load_shedder.decide(0.0, [load(4.0, 0.9)], 0.0)
    off = frozenset({"720p"})
    assert not load_shedder.decide(SETTLE_SECONDS - 1, [load(5.0, 0.9, off=off)], 0.0)
    assert load_shedder.decide(SETTLE_SECONDS, [load(5.0, 0.9, off=off)], 0.0)


def test_a_run_that_is_very_late_sheds_again_soon() -> None:
    load_shedder = LoadShedder()
    assert load_shedder.decide(0.0, [load(4.0, 0.9)], 0.0)
    assert load_shedder.decide(2.0, [load(9.0, 0.5, off=frozenset({"720p"}))], 0.0)


def test_what_was_shed_returns_when_there_was_room_for_a_while_the_cheapest_first() -> None:
    load_shedder = LoadShedder()
    off = frozenset({"720p", "480p"})
    for second in range(int(ROOM_SECONDS)):
        assert load_shedder.decide(second, [load(off=off)], 0.5) == {}, second
    assert load_shedder.decide(ROOM_SECONDS, [load(off=off)], 0.5) == {"a": frozenset({"720p"})}


def test_nothing_returns_without_room() -> None:
    load_shedder = LoadShedder()
    off = frozenset({"360p"})
    assert not any(load_shedder.decide(second, [load(off=off)], 0.09) for second in range(100))


def test_nothing_returns_to_a_run_that_is_late() -> None:
    load_shedder = LoadShedder()
    run = load(MAX_LAG_SECONDS + 1, 1.1, off=frozenset({"360p"}))
    assert not any(load_shedder.decide(second, [run], 2.0) for second in range(100))


@pytest.mark.parametrize("lag", [MAX_LAG_SECONDS + 1, 7200.0])
@pytest.mark.parametrize("pace", [0.0, 0.5, 1.0, 1.1])
def test_a_run_that_is_late_does_not_hold_back_the_others(lag: float, pace: float) -> None:
    """That holds whether or not it has rungs left to shed; idle cores show that there is room."""
    shedder = LoadShedder()
    off = {"late": frozenset[str](), "well": frozenset({"360p"})}
    for second in range(int(2 * ROOM_SECONDS)):
        runs = [
            msgspec.structs.replace(load(lag, pace, off=off["late"]), stream="late"),
            msgspec.structs.replace(load(off=off["well"]), stream="well"),
        ]
        off |= shedder.decide(second, runs, 2.0)
    assert off["well"] == frozenset()


def test_a_run_whose_rungs_came_back_too_soon_does_not_make_the_others_wait() -> None:
    """Its measured load is wrong: it sheds each rung as soon as the rung has returned."""
    shedder, off = LoadShedder(), {"odd": frozenset[str](), "well": frozenset({"360p"})}

    def second(now: int, *, late: float, streams: tuple[str, ...]) -> None:
        odd = load(late, 0.9, off=off["odd"])
        runs = [
            msgspec.structs.replace(odd, stream="odd", costs={"360p": 0.01}),
            msgspec.structs.replace(load(off=off["well"]), stream="well"),
        ]
        off.update(shedder.decide(now, [run for run in runs if run.stream in streams], 2.0))

    for now in range(3_000):
        second(now, late=1.5 if off["odd"] else 9.0, streams=("odd",))
    for now in range(3_000, 3_000 + 2 * int(ROOM_SECONDS) + 2):
        second(now, late=1.5, streams=("odd", "well"))
    assert not off["well"]


def test_a_rung_that_came_back_too_soon_waits_longer_each_time() -> None:
    load_shedder, now, waits = LoadShedder(), 0.0, list[float]()
    for _ in range(8):
        assert load_shedder.decide(now, [load(4.0, 0.9)], 0.0)
        shed = now
        while not load_shedder.decide(now, [load(off=frozenset({"720p"}))], 2.0):
            now += 1
        waits.append(now - shed)
        now += SETTLE_SECONDS
    assert waits == sorted(waits)
    assert waits[0] <= ROOM_SECONDS + 2
    assert waits[-1] == pytest.approx(MOST_ROOM_SECONDS, rel=0.1)


class SimulatedCores:
    """Runs of 1080p sources on some cores: each engine gets its share of what there is."""

    def __init__(self, runs: int, cores: float, overhead: float = 0.15) -> None:
        self.cores = cores
        self.overhead = overhead
        self.late = dict.fromkeys((f"run {number}" for number in range(runs)), 1.5)
        self.off: dict[str, frozenset[str]] = dict.fromkeys(self.late, frozenset())
        self.worst = 0.0

    def need(self, stream: str) -> float:
        cost_sum = sum(cost for name, cost in COSTS.items() if name not in self.off[stream])
        return self.overhead + cost_sum

    def second(self) -> tuple[list[RunLoad], float]:
        needs = {stream: self.need(stream) for stream in self.late}
        # An engine that is behind uses up to a core; the others keep the pace of their media.
        wants = {s: max(need, 1.0) if self.late[s] > 1.6 else need for s, need in needs.items()}
        share = min(1.0, self.cores / sum(wants.values()))
        loads: list[RunLoad] = []
        for stream, want in wants.items():
            granted = want * share
            pace = granted / needs[stream]
            self.late[stream] = max(1.5, self.late[stream] + 1 - pace)
            self.worst = max(self.worst, self.late[stream])
            loads.append(
                RunLoad(
                    stream=stream,
                    lag=self.late[stream],
                    pace=pace,
                    cores=granted,
                    costs=COSTS,
                    off=self.off[stream],
                    min_rungs=0,
                )
            )
        return loads, max(0.0, self.cores - sum(wants.values()))


def test_eight_streams_on_two_cores_keep_up_with_what_fits() -> None:
    machine, load_shedder, changes = SimulatedCores(8, 2.0), LoadShedder(), list[float]()
    for now in range(300):
        loads, idle = machine.second()
        for stream, off in load_shedder.decide(now, loads, idle).items():
            machine.off[stream] = off
            changes.append(now)
    assert machine.worst < 11, "players are 12 s behind"
    assert all(late < MAX_LAG_SECONDS for late in machine.late.values())
    assert sum(map(machine.need, machine.late)) <= 2.0
    assert len([when for when in changes if when > 120]) <= 8, "it has come to rest"


def test_all_returns_when_the_load_is_over() -> None:
    machine, load_shedder = SimulatedCores(4, 1.0), LoadShedder()
    for now in range(900):
        machine.cores = 1.0 if now < 60 else 4.0
        loads, idle = machine.second()
        for stream, off in load_shedder.decide(now, loads, idle).items():
            machine.off[stream] = off
        if now == 59:
            assert any(machine.off.values())
    assert not any(machine.off.values())


@given(
    runs=st.integers(1, 10),
    cores=st.lists(st.floats(1.0, 8.0), min_size=1, max_size=6),
    least=st.integers(0, 1),
)
def test_whatever_the_machine_a_picture_is_left_and_nothing_flaps(
    runs: int, cores: list[float], least: int
) -> None:
    machine, load_shedder, returns = SimulatedCores(runs, cores[0]), LoadShedder(), list[float]()
    for now in range(60 * len(cores)):
        machine.cores = cores[now // 60]
        loads, idle = machine.second()
        loads = [msgspec.structs.replace(run, min_rungs=least) for run in loads]
        for stream, off in load_shedder.decide(now, loads, idle).items():
            assert len(COSTS) - len(off) >= least
            if off < machine.off[stream]:
                returns.append(now)
            machine.off[stream] = off
    gaps = [after - before for before, after in itertools.pairwise(returns)]
    assert all(gap >= ROOM_SECONDS for gap in gaps), "one at a time, each after a while of room"
    assert RETURN_SECONDS > ROOM_SECONDS
