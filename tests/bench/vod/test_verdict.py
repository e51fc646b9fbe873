"""From runs to the verdict: which targets count as missed."""

import msgspec
import pytest

from bench.ladder.runs import RUNGS
from bench.vod.runs import VodRun
from bench.vod.verdict import VodResult, missed_targets, table, worst_eta


def looks(score: float) -> dict[str, float]:
    return {name: score for name, *_ in RUNGS}


def run(cpu: float, wall: float = 50.0, played: float = 2.0) -> VodRun:
    return VodRun(cpu=cpu, wall=wall, played=played)


GOOD = VodResult(
    clip="talk",
    workers=2,
    runs={"ours": [run(99.0), run(96.0)], "ffmpeg": [run(160.0)], "fixed": [run(98.0)]},
    vmaf={"ours": looks(79.6), "ffmpeg": looks(80.0), "fixed": looks(80.5)},
    rates={"ours": looks(400), "ffmpeg": looks(800), "fixed": looks(800)},
)


def test_the_least_cpu_of_all_rounds_counts() -> None:
    assert GOOD.cpu == pytest.approx(0.6)  # pyright: ignore[reportUnknownMemberType]
    assert missed_targets([GOOD]) == []
    assert "50%" in table([GOOD])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"runs": GOOD.runs | {"ours": [run(120.0)]}}, "CPU is 0.750"),
        ({"runs": GOOD.runs | {"ours": [run(96.0, wall=80.0)]}}, "1.20 cores"),
        ({"runs": GOOD.runs | {"ours": [run(96.0, played=6.0)]}}, "played after 12%"),
        ({"vmaf": GOOD.vmaf | {"ours": looks(79.4)}}, "0.60 VMAF below"),
    ],
)
def test_missed_targets_are_reported(change: dict[str, object], words: str) -> None:
    misses = missed_targets([msgspec.structs.replace(GOOD, **change)])
    assert misses
    assert all(words in each for each in misses)


def test_estimates_of_the_time_left_are_judged_from_the_middle_on() -> None:
    points = ((10.0, 20, 900), (25.0, 50, 30), (30.0, 60, 18), (48.0, 95, 9), (50.0, 100, 0))
    # At 25 s it estimated 30 s for the 25 s left; near the end a second is a large part.
    assert worst_eta(VodRun(cpu=1, wall=50.0, looks=points)) == pytest.approx(0.2)  # pyright: ignore[reportUnknownMemberType]
