import pytest
from hypothesis import given
from hypothesis import strategies as st

from media.ladder import (
    BOX_LABELS,
    BOX_NUMBERS,
    BOXES,
    SELECTABLE_BOXES,
    STANDARD_LABELS,
    ladder_for,
)

SIZES = st.integers(2, 8192)


@pytest.mark.parametrize(
    ("width", "height", "expected"),
    [
        pytest.param(
            1920,
            1080,
            [("1080p", 1920, 1080), ("720p", 1280, 720), ("480p", 854, 480), ("360p", 640, 360)],
            id="full HD",
        ),
        pytest.param(
            1920,
            800,
            [("1080p", 1920, 800), ("720p", 1280, 534), ("480p", 854, 356), ("360p", 640, 266)],
            id="wide screen keeps the label of its box",
        ),
        pytest.param(
            1080,
            1920,
            [("1080p", 1080, 1920), ("720p", 720, 1280), ("480p", 480, 854), ("360p", 360, 640)],
            id="portrait turns the boxes",
        ),
        pytest.param(
            1280, 720, [("720p", 1280, 720), ("480p", 854, 480), ("360p", 640, 360)], id="HD"
        ),
        pytest.param(640, 360, [("360p", 640, 360)], id="small"),
        pytest.param(320, 240, [("240p", 320, 240)], id="below every ordinary box"),
        pytest.param(160, 120, [("144p", 160, 120)], id="tiny"),
        pytest.param(641, 361, [("480p", 640, 360)], id="odd sizes are made even, no size twice"),
        pytest.param(
            3840,
            2160,
            [("1080p", 1920, 1080), ("720p", 1280, 720), ("480p", 854, 480), ("360p", 640, 360)],
            id="a box that is off is left out, even the source's own",
        ),
    ],
)
def test_the_standard_ladder(width: int, height: int, expected: list[tuple[str, int, int]]) -> None:
    ladder = ladder_for(width, height, STANDARD_LABELS)
    assert [(rung.name, rung.width, rung.height) for rung in ladder.renditions] == expected


def test_the_top_rung_can_be_the_source_itself_only_at_its_own_size() -> None:
    assert [rung.source_size for rung in ladder_for(1280, 720, STANDARD_LABELS).renditions] == [
        True,
        False,
        False,
    ]
    assert not ladder_for(641, 361, STANDARD_LABELS).renditions[0].source_size
    assert not ladder_for(3840, 2160, STANDARD_LABELS).renditions[0].source_size


def test_chosen_large_boxes_count() -> None:
    ladder = ladder_for(3840, 2160, frozenset({"2160p", "720p"}))
    assert ladder.names == ("2160p", "720p")


def test_nothing_chosen_below_the_source_leaves_the_source() -> None:
    assert ladder_for(1280, 720, frozenset({"1080p"})).names == ("720p",)
    assert ladder_for(1280, 720, frozenset()).names == ("720p",)


@given(SIZES, SIZES, st.frozensets(st.sampled_from([box.label for box in BOXES])))
def test_every_picture_has_a_ladder_that_never_scales_up(
    width: int, height: int, active: frozenset[str]
) -> None:
    ladder = ladder_for(width, height, active)
    sizes = [(rung.width, rung.height) for rung in ladder.renditions]
    assert sizes
    assert all(w <= width and h <= height for w, h in sizes)
    assert all(w % 2 == 0 and h % 2 == 0 and w > 0 and h > 0 for w, h in sizes)
    assert sizes == sorted(set(sizes), reverse=True)
    assert len(set(ladder.names)) == len(ladder.names)
    boxes = {box.label: box for box in BOXES}
    assert all(boxes[rung.name].holds(rung.width, rung.height) for rung in ladder.renditions)


def test_every_box_is_found_by_number_and_by_label() -> None:
    assert BOX_LABELS == {
        1: "360p", 2: "480p", 3: "720p", 4: "1080p", 5: "1440p", 6: "2160p", 7: "240p", 8: "144p",
    }  # fmt: skip
    assert {BOX_NUMBERS[label]: label for label in BOX_NUMBERS} == BOX_LABELS


def test_owners_choose_from_360p_upwards() -> None:
    assert [box.number for box in SELECTABLE_BOXES] == [1, 2, 3, 4, 5, 6]
    assert frozenset({"360p", "480p", "720p", "1080p"}) == STANDARD_LABELS
