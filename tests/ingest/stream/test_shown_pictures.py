"""Up to which moment pictures were shown, also when reordered ones are missing."""

import pytest

from ingest.stream.shown_pictures import ShownPictures
from media.packet import MediaPacket
from tests.ingest.stream.test_live_stream import VIDEO

# Two pictures in between refer to the next one: times of decoding and of presentation.
REORDERED = [(0, 40), (40, 160), (80, 80), (120, 120), (160, 280), (200, 200), (240, 240)]


def shown(times: list[tuple[int, int]], since: float | None = None) -> ShownPictures:
    pictures = ShownPictures(since)
    for dts, pts in times:
        pictures.add([MediaPacket(track=VIDEO, dts=dts, pts=pts, key=False, data=b"x")])
    return pictures


def test_the_next_picture_follows_the_last_one() -> None:
    assert shown([(at, at) for at in range(0, 400, 40)]).until == pytest.approx(0.4)
    assert shown(REORDERED).until == pytest.approx(0.32)


@pytest.mark.parametrize(("count", "until"), [(5, 0.2), (6, 0.24), (7, 0.32)])
def test_a_picture_without_those_before_it_does_not_count(count: int, until: float) -> None:
    assert shown(REORDERED[:count]).until == pytest.approx(until)


def test_a_pause_of_the_camera_is_no_hole() -> None:
    assert shown([(0, 0), (40, 40), (80, 80), (900, 900), (940, 940)]).until == pytest.approx(0.98)


def test_the_first_picture_does_not_say_how_long_it_lasts() -> None:
    assert shown([]).until is None
    assert shown([(0, 40)]).until is None
    assert shown([(0, 40)], since=0.04).until == 0.04


def test_only_the_newest_are_kept() -> None:
    pictures = shown([(at, at) for at in range(0, 100_000, 40)])
    assert pictures.until == pytest.approx(100.0)


def test_what_came_beyond_a_hole_is_not_to_be_shown() -> None:
    pictures = shown(REORDERED[:5])
    assert pictures.first_beyond == pytest.approx(0.28)
    assert shown(REORDERED).first_beyond is None


@pytest.mark.parametrize(
    ("limit", "count", "complete"),
    [(0.12, 4, True), (0.2, 4, True), (0.2, 5, False), (0.28, 7, True)],
)
def test_it_ends_once_all_before_the_limit_and_before_what_is_beyond_were_shown(
    limit: float, count: int, *, complete: bool
) -> None:
    pictures = shown(REORDERED[:count])
    pictures.limit = limit
    assert pictures.is_complete is complete
