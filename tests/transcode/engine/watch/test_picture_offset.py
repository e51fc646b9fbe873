"""Where the pictures of two encoders agree, and whether that is believed."""

import numpy as np
import pytest

from media.ticks import VIDEO_SCALE
from tests.support.engine.made_signatures import encoded, programme, until
from transcode.engine.watch.picture_offset import picture_offset
from transcode.engine.watch.pictures import Pictures, pictures_of

NOTHING = pictures_of(())


def shown(seed: int, *, behind: float = 0.0, own: int = 0, seconds: float = 30) -> Pictures:
    """What an encoder shows of a programme, from its 10th second on."""
    whole = encoded(programme(40, seed), own, gain=0.9 if own else 1.0, behind=behind)
    return until(whole, round(seconds * VIDEO_SCALE)).pictures


@pytest.mark.parametrize("behind", [-9.0, -1.25, 0.04, 9.0])
def test_what_is_believed_is_right(behind: float) -> None:
    believed = 0
    for seed in range(8):
        found = picture_offset(shown(seed), shown(seed, behind=behind, own=1), None)
        if found is not None and found.is_believed:
            believed += 1
            assert abs(found.ticks / VIDEO_SCALE - behind) < 0.02
    assert believed >= 3


def test_near_an_assumed_offset_less_is_searched() -> None:
    found = [
        picture_offset(shown(seed), shown(seed, behind=2.0, own=1), round(near * VIDEO_SCALE))
        for seed in range(8)
        for near in (1.4, 2.6)
    ]
    right = [each for each in found if each is not None and each.is_believed]
    assert len(right) >= 6
    assert all(abs(each.ticks / VIDEO_SCALE - 2) < 0.02 for each in right)
    far = [picture_offset(shown(seed), shown(seed, behind=2.0, own=1), 0) for seed in range(8)]
    assert not any(each is not None and each.is_believed for each in far)


def test_another_programme_is_not_believed() -> None:
    for seed in range(20):
        for near in (None, 0):
            found = picture_offset(shown(seed), shown(seed + 100, own=1), near)
            assert found is None or not found.is_believed


def test_what_stands_still_or_is_short_has_none() -> None:
    moving = shown(1)
    still = Pictures(
        moving.times, np.repeat(moving.blocks[:1], len(moving.times), 0), moving.bright
    )
    assert picture_offset(still, still, None) is None
    assert picture_offset(moving, NOTHING, None) is None
    assert picture_offset(NOTHING, moving, 0) is None
    short = moving.between(int(moving.times[-1]) - 3 * VIDEO_SCALE, int(moving.times[-1]))
    assert picture_offset(short, moving, None) is None
    assert picture_offset(short.between(0, int(short.times[0])), moving, None) is None


def test_what_comes_again_and_again_is_not_believed() -> None:
    times = np.arange(300, dtype=np.int64) * (VIDEO_SCALE // 10)
    sway = 60 * np.sin(2 * np.pi * times / VIDEO_SCALE / 2)[:, None] * np.linspace(0, 1, 144)
    loop = Pictures(times, (100 + sway).astype("f4"), np.full(300, 200, np.float32))
    later = Pictures(times + VIDEO_SCALE // 2, loop.blocks, loop.bright)
    found = picture_offset(loop, later, None)
    assert found is not None
    assert not found.is_believed
