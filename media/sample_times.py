"""When to sample a video for the thumbnails over its time line, and in which order.

The sample times are visited from coarse to fine, so a caller that stops early has seen the whole
video, only less densely.
"""

from collections.abc import Iterator
from typing import Final

from media.ticks import MICROSECONDS

# Minimum distance of two samples, so that a video of a few seconds has several.
_LEAST_STEP: Final = 500_000  # µs
_STEP: Final = 2 * MICROSECONDS
# One sheet of thumbnails. A long video has more sheets rather than steps of over ten seconds.
_SHEET_SAMPLES: Final = 100
_COARSE_STEP: Final = 10 * MICROSECONDS
# Four sheets. Each sample costs a seek and a keyframe, 20 ms at 1080p: 8 s for over an hour.
MOST_SAMPLES: Final = 400


def sample_times(length_us: int) -> list[int]:
    """Return where to sample a video of that length, in microseconds from its beginning."""
    if length_us <= _LEAST_STEP:
        return [0]
    step = min(max(_STEP, length_us // _SHEET_SAMPLES), _COARSE_STEP)
    if length_us < _SHEET_SAMPLES * _LEAST_STEP:
        step = _LEAST_STEP
    step = max(step, -(-length_us // MOST_SAMPLES))
    return list(range(0, length_us, step))


def coarse_to_fine(count: int) -> Iterator[int]:
    """Yield the numbers below `count`, each once: every eighth before every fourth, and so on."""
    step = 1
    while step < count:
        step *= 2
    previous = -1  # step, whose multiples were already yielded
    while step and count:
        for number in range(0, count, step):
            if previous < 0 or number % previous:
                yield number
        previous, step = step, step // 2
