"""What is said of a player that got through a film, or did not."""

import pytest

from bench.players.film import FPS, SEAMS, SECONDS
from bench.players.init_change import Passage, judge
from bench.players.verdict import SeenPicture

BEGAN = 1_000_000.0
LATER = 3_000.0  # ms from a picture's place in the film to its sight
PICTURES = SECONDS * FPS


def seen(numbers: range, later: float = LATER) -> list[SeenPicture]:
    times = [BEGAN + number * 1000 / FPS for number in numbers]
    return [SeenPicture(at=time + later, drawn=time) for time in times]


def rounded(passage: Passage) -> tuple[int, float, float | None]:
    stop = None if passage.stop is None else round(passage.stop, 2)
    return passage.pictures, round(passage.hole, 2), stop


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        pytest.param([], (0, float(SECONDS), None), id="nothing"),
        pytest.param(seen(range(PICTURES)), (PICTURES, 0.0, 0.03), id="everything"),
        pytest.param(
            2 * seen(range(PICTURES)), (PICTURES, 0.0, 0.03), id="the same picture seen twice"
        ),
        pytest.param(seen(range(0, PICTURES, 3)), (PICTURES // 3, 0.07, 0.1), id="every third"),
        pytest.param(
            seen(range(SEAMS[0] * FPS)),
            (SEAMS[0] * FPS, float(SECONDS - SEAMS[0]), None),
            id="stopped at the change",
        ),
        pytest.param(
            seen(range(SEAMS[0] * FPS)) + seen(range(SEAMS[0] * FPS, PICTURES), LATER + 1500),
            (PICTURES, 0.0, 1.53),
            id="waited at the change",
        ),
        pytest.param(
            seen(range(SEAMS[0] * FPS)) + seen(range(SEAMS[1] * FPS, PICTURES), LATER - 4000),
            (PICTURES - 4 * FPS, 4.0, 0.03),
            id="left the other encoder out",
        ),
        pytest.param(
            seen(range(2 * FPS)) + seen(range(2 * FPS, PICTURES), LATER + 900),
            (PICTURES, 0.0, 0.03),
            id="waited elsewhere",
        ),
    ],
)
def test_a_passage(shown: list[SeenPicture], expected: tuple[int, float, float | None]) -> None:
    assert rounded(judge(shown, BEGAN)) == expected
