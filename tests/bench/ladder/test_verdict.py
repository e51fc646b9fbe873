"""From runs to the verdict: which targets count as missed."""

from typing import Any

import msgspec
import pytest

from bench.ladder.runs import RUNGS, Run
from bench.ladder.verdict import Result, missed, table


def run(cpu: float, peak: float = 300.0) -> Run:
    return Run(cpu=cpu, feeding=0.2, peak=peak)


def looks(score: float) -> dict[str, float]:
    return {name: score for name, *_ in RUNGS}


GOOD = Result(
    clip="talk",
    ours=[run(9.0, 200), run(6.0, 210)],
    ffmpeg=[run(10.0), run(14.0)],
    equal=[run(9.0), run(8.0)],
    vmaf=(looks(79.6), looks(80.0)),
    rates=(looks(800), looks(800)),
)


def test_the_least_cpu_and_the_largest_peak_of_all_rounds_count() -> None:
    assert GOOD.cpu == pytest.approx(0.6)
    assert GOOD.cpu_equal == pytest.approx(0.8)
    assert GOOD.peak == pytest.approx(0.7)
    assert missed([GOOD]) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ours": [run(6.6, 200)]}, "CPU is 0.660"),
        ({"equal": [run(9.5)]}, "CPU at equal preset is 0.950"),
        ({"ours": [run(6.0, 241)]}, "memory at its peak is 0.803"),
        ({"vmaf": ({**looks(80.0), "360p": 79.4}, looks(80.0))}, "360p is 0.60 VMAF below"),
    ],
)
def test_each_target_that_is_missed_is_named(change: dict[str, Any], words: str) -> None:
    (miss,) = missed([msgspec.structs.replace(GOOD, **change)])
    assert words in miss


def test_the_table_has_a_line_for_each_clip_and_rung() -> None:
    lines = table([GOOD]).splitlines()
    assert sum(line.startswith("| talk |") for line in lines) == 1 + len(RUNGS)
    assert any("| 6.00 (0.20) / 10.00 | 0.60 |" in line for line in lines)
