"""Programmes in which many pictures look alike: no place that is believed of them is wrong.

Both encoders' pictures are all decoded, and compared every second, where `picture_aligner` does it
now and then; an offset is believed once two comparisons agree, as in service.
"""

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from ingest.stream.alignment import Alignment
from media.source_comparison import SourceComparison
from media.ticks import VIDEO_SCALE
from tests.conftest import Proof
from tests.support.engine.shown_pictures import FPS, CodedPictures, Luma, scenes
from transcode.engine.watch.picture_offset import picture_offset
from transcode.engine.watch.picture_source import PictureSource

SECONDS = 45
BEHIND = [1.2, -0.4, 2.96]  # of the second encoder, by seed
PICTURE = 1 / FPS
Pair = tuple[list[Luma], list[Luma]]


def slides(seed: int) -> Pair:
    """Each stands for 6 s, every third one has a pointer on it."""
    shown = list(scenes(SECONDS, seed))
    for place in range(len(shown)):
        slide = place // (6 * FPS)
        shown[place] = shown[slide * 6 * FPS].copy()
        if slide % 3 == 2:
            left = 40 + place % 200
            shown[place][80:90, left : left + 10] = 235
    return shown, shown


def still(seed: int) -> Pair:
    shown = [next(scenes(1, seed))] * (SECONDS * FPS)
    return shown, shown


def looped(seed: int) -> Pair:
    """A pattern that repeats every 3 to 5 s."""
    loop = list(scenes(3 + seed, seed))
    shown = [loop[place % len(loop)] for place in range(SECONDS * FPS)]
    return shown, shown


def two_programmes(seed: int) -> Pair:
    return list(scenes(SECONDS, seed)), list(scenes(SECONDS, seed + 10))


def adverts_in_one(seed: int) -> Pair:
    shown, other = list(scenes(SECONDS, seed)), list(scenes(SECONDS, seed))
    other[15 * FPS : 30 * FPS] = list(scenes(15, seed + 10))
    return shown, other


def dark(seed: int) -> Pair:
    shown = list(scenes(SECONDS, seed, dark=0.05))
    return shown, shown


def applause(seed: int) -> Pair:
    """A hall of people who move at random."""
    random, hall = np.random.default_rng(seed), next(scenes(1, seed))
    shown = [
        np.clip(hall + np.kron(random.integers(-9, 10, (18, 32)), np.ones((10, 10))), 16, 235)
        .astype("u1")
        for _ in range(SECONDS * FPS)
    ]  # fmt: skip
    return shown, shown


HARD: Mapping[str, Callable[[int], Pair]] = {
    "slides": slides,
    "a picture that stands still": still,
    "equal bars": looped,
    "two programmes": two_programmes,
    "adverts in one": adverts_in_one,
    "dark scenes": dark,
    "applause": applause,
}
FOUND = {"adverts in one", "dark scenes", "applause"}


def judged(pair: Pair, behind: float) -> tuple[int, int, int]:
    """Return how many comparisons there were, and after how many the belief was right and wrong."""
    start_ms = 5_000 + round(1000 * behind)
    films = (
        CodedPictures(pair[0]),
        CodedPictures(pair[1], kbit=1_000, bframes=0, start_ms=start_ms),
    )
    sources, alignment = [PictureSource(each.track) for each in films], Alignment()
    comparisons = right = wrong = 0
    for second in range(1, SECONDS):
        for source, film, start in zip(sources, films, (0, 5_000), strict=True):
            since, until = start + 1000 * (second - 1), start + 1000 * second
            source.add(
                each for each in film.packets
                if (since <= each.dts or second == 1) and each.dts < until
            )  # fmt: skip
            if source.end is not None:
                source.follow(source.end, 200)
        seen = picture_offset(sources[0].pictures(), sources[1].pictures(), None)
        comparisons += 1
        offset = None if seen is None or not seen.is_believed else seen.ticks / VIDEO_SCALE
        alignment.record(SourceComparison(offset=offset, method="picture"))
        if alignment.offset is not None:
            is_right = abs(alignment.offset - 5 - behind) <= PICTURE
            right, wrong = right + is_right, wrong + (not is_right)
    return comparisons, right, wrong


@pytest.mark.prove
@pytest.mark.parametrize("name", HARD)
def test_no_place_of_pictures_that_is_believed_is_wrong(name: str, proof: Proof) -> None:
    total = found = 0
    for seed, behind in enumerate(BEHIND):
        comparisons, right, wrong = judged(HARD[name](seed), behind)
        total, found = total + comparisons, found + right
        assert wrong == 0, (seed, wrong, right)
    proof(f"{total} comparisons of pictures, {name}", f"{found} believed, 0 wrong", "0 wrong")
    if name in FOUND:
        assert found > total / 3
