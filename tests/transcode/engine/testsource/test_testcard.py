"""The test picture and its tone, frame by frame."""

from array import array
from itertools import pairwise

import pytest
from av import VideoFrame

from transcode.engine.testsource.testcard import FLASH_MS, TestCard, Tone, clock_text

RATE = 48_000


def luma(frame: VideoFrame) -> list[bytes]:
    """Return the rows of the brightness plane without what pads them."""
    plane = frame.planes[0]
    data = bytes(plane)
    return [data[y * plane.line_size :][: frame.width] for y in range(frame.height)]


def band(frame: VideoFrame) -> list[bytes]:
    """Return the rows of the clock's band: from 9/20 to 15/20 of the picture's height."""
    return luma(frame)[frame.height * 9 // 20 + 2 : frame.height * 15 // 20 - 2]


def brightness(rows: list[bytes]) -> float:
    return sum(map(sum, rows)) / sum(map(len, rows))


def levels(tone: Tone, sample: int, count: int) -> list[float]:
    frame = tone.frame(sample, count)
    left, right = (array("f", bytes(plane)[: 4 * count]) for plane in frame.planes)
    assert left == right
    return left.tolist()


@pytest.mark.parametrize(
    ("tick", "fps", "text"),
    [
        pytest.param(0, 30, "00:00:00.000", id="the epoch"),
        pytest.param(30 * (3600 * 25 + 60 * 2 + 3) + 1, 30, "01:02:03.033", id="the next day"),
        pytest.param(25 * 86_400 - 1, 25, "23:59:59.960", id="the last frame of a day"),
    ],
)
def test_the_clock_shows_a_frames_time(tick: int, fps: int, text: str) -> None:
    assert clock_text(tick, fps) == text


@pytest.mark.parametrize("size", [(1280, 720), (854, 480), (480, 854), (64, 64), (66, 300)])
def test_pictures_of_all_shapes_are_drawn(size: tuple[int, int]) -> None:
    card = TestCard(*size, 30)
    frame = card.frame(45)
    assert (frame.width, frame.height, frame.format.name) == (*size, "yuv420p")
    rows = luma(frame)
    assert (rows[0][0], rows[0][-1]) == (180, 16), "white left and black right of the bars"
    assert min(map(min, rows)) == 16
    assert max(map(max, rows)) <= 235


@pytest.mark.parametrize("fps", [1, 24, 30, 60])
def test_the_band_is_bright_in_the_first_tenth_of_each_second(fps: int) -> None:
    card = TestCard(320, 180, fps)
    for tick in range(2 * fps):
        bright = tick % fps / fps < FLASH_MS / 1000
        assert (brightness(band(card.frame(tick))) > 125) is bright, tick


def test_the_band_shows_the_clock_and_nothing_else() -> None:
    card = TestCard(640, 360, 30)
    noon, next_day = 30 * 43_200 + 10, 30 * (43_200 + 86_400) + 10
    assert clock_text(noon, 30) == clock_text(next_day, 30)
    assert band(card.frame(noon)) == band(card.frame(next_day))
    assert band(card.frame(noon)) != band(card.frame(noon + 1))


def test_each_frame_differs_from_the_one_before() -> None:
    card = TestCard(320, 180, 30)
    frames = [b"".join(luma(card.frame(tick))) for tick in range(61)]
    assert all(before != after for before, after in pairwise(frames))


def test_a_frame_follows_from_its_tick_alone() -> None:
    first, second = TestCard(320, 180, 30), TestCard(320, 180, 30)
    second.frame(4)
    assert luma(first.frame(99)) == luma(second.frame(99))


def test_the_beep_lasts_as_long_as_the_flash() -> None:
    second = levels(Tone(), 5 * RATE, RATE)
    beep, rest = second[: RATE * FLASH_MS // 1000], second[RATE * FLASH_MS // 1000 :]
    assert max(beep) > 0.45
    assert 0.02 < max(rest) < 0.04, "quiet, but not silent"
    crossings = sum(before < 0 <= after for before, after in pairwise(beep[:2400]))
    assert crossings in (49, 50, 51), "1 kHz in 50 ms"


def test_sound_continues_without_a_seam() -> None:
    tone = Tone()
    start = 7 * RATE - 3000
    whole = levels(tone, start, 6 * 1024)
    pieces = [level for n in range(6) for level in levels(tone, start + 1024 * n, 1024)]
    assert pieces == whole
    assert max(abs(after - before) for before, after in pairwise(whole)) < 0.1, "no click"


def test_no_few_seconds_of_sound_are_like_others() -> None:
    """Else two encoders would look as far apart as a loop is long."""
    tone = Tone()
    seconds = [tuple(levels(tone, (1_700_000_000 + n) * RATE, RATE)) for n in range(60)]
    assert len(set(seconds)) == 60
