"""The colour tables: how light is mapped; the engine's files are these tables."""

import pytest

from scripts.cubes import CUBES, FOLDER, NODES, mapped, table

# Coded PQ of 26, 203, 1000 and 10 000 cd/m2 (BT.2100), and coded HLG of the first three.
PQ = {"grey": 0.3804, "white": 0.5807, "peak": 0.7518, "most": 1.0}
HLG = {"grey": 0.38, "white": 0.75, "peak": 1.0}


def grey(name: str, code: float) -> float:
    """Return the output for a grey of this code, from 0 to 1."""
    return mapped(name, (code, code, code))[1]


def luma(name: str, code: float) -> int:
    """Return the output code of a grey, from 16 to 235."""
    return round(16 + 219 * grey(name, code))


@pytest.mark.parametrize(("name", "codes"), [("pq", PQ), ("hlg", HLG)])
def test_grey_white_and_highlights_land_where_a_viewer_expects_them(
    name: str, codes: dict[str, float]
) -> None:
    # A grey card (BT.2408: 26 cd/m2) is as bright as it was: a gamma of 2.4 makes 0.43 of it.
    assert 105 <= luma(name, codes["grey"]) <= 113
    # White stays clear of the top, so that what is brighter can still be told from it.
    assert 205 <= luma(name, codes["white"]) <= 222
    assert luma(name, codes["peak"]) == 235
    assert luma(name, codes.get("most", 1.0)) == 235
    assert luma(name, 0.0) == 16


def test_brighter_never_gets_darker() -> None:
    for name in CUBES:
        greys = [grey(name, code / 200) for code in range(201)]
        assert greys == sorted(greys)


def test_greys_stay_grey_and_wide_colours_grow_more_saturated() -> None:
    for name in CUBES:
        red, green, blue = mapped(name, (0.5, 0.5, 0.5))
        assert max(red, green, blue) - min(red, green, blue) < 0.002
    red, green, blue = mapped("wide", (0.6, 0.4, 0.4))
    assert red > 0.6
    assert green < 0.4


def test_17_nodes_are_enough() -> None:
    worst = 0.0
    for name in CUBES:
        for step in range(1_001):
            place = step / 1_000 * (NODES - 1)
            low = min(int(place), NODES - 2)
            ends = [grey(name, (low + each) / (NODES - 1)) for each in (0, 1)]
            between = ends[0] + (ends[1] - ends[0]) * (place - low)
            worst = max(worst, abs(between - grey(name, step / 1_000)))
    assert worst * 219 < 2


@pytest.mark.parametrize("name", CUBES)
def test_the_engine_s_file_is_what_the_script_writes(name: str) -> None:
    # If not: .venv/bin/python -m scripts.cubes
    assert (FOLDER / f"{name}.cube").read_text() == table(name)
