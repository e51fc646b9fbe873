"""Times of media as whole ticks of a named scale; never floats.

A scale is ticks per second: RTMP speaks milliseconds (1000), video goes out at 90 000, audio at its
sample rate. Wall-clock times are microseconds since the Unix epoch (`int`), named `_us`.
"""

from typing import Final

__all__ = ["AUDIO_SCALE", "MILLISECONDS", "ORIGIN_SECONDS", "VIDEO_SCALE", "rescale"]

MILLISECONDS: Final = 1_000
# 90 kHz holds 24, 25, 30, 60 and 30000/1001 frames a second exactly.
VIDEO_SCALE: Final = 90_000
# Every audio rendition is made at this rate, so a tick is a sample.
AUDIO_SCALE: Final = 48_000
# Output time of a run's first frame: B-frames and AAC priming put decode times before it, and a
# fragment's base decode time (ISO/IEC 14496-12, tfdt) cannot be negative.
ORIGIN_SECONDS: Final = 10


def rescale(ticks: int, old: int, new: int) -> int:
    """Return `ticks` of scale `old` in scale `new`, rounded to the nearest, halves up."""
    return ticks if old == new else (2 * ticks * new + old) // (2 * old)
