"""Units of time. Media times are integer ticks of a scale, never floats.

A scale is a number of ticks per second: RTMP counts milliseconds (1000), video output uses 90 000
and audio output its sample rate. Wall-clock times are integer microseconds since the Unix epoch;
their names end in `_us`, so `seconds * MICROSECONDS` is a duration of that kind.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

MILLISECONDS: Final = 1_000
MICROSECONDS: Final = 1_000_000
DAY_US: Final = 86_400 * MICROSECONDS
# 90 kHz holds 24, 25, 30, 60 and 30000/1001 frames a second exactly.
VIDEO_SCALE: Final = 90_000
# The sample rate of every audio rendition, so a tick is a sample.
AUDIO_SCALE: Final = 48_000
# Output time of the first frame of a run. Decode times of B-frames and AAC priming precede it, and
# the base decode time of a fragment (ISO/IEC 14496-12, tfdt) cannot be negative.
ORIGIN_SECONDS: Final = 10
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def rescale(ticks: int, old: int, new: int) -> int:
    """Convert `ticks` from scale `old` to scale `new`, rounding to the nearest tick, halves up."""
    return ticks if old == new else (2 * ticks * new + old) // (2 * old)


def utc(moment_us: int) -> datetime:
    """Return a wall-clock time in UTC, exact to the microsecond.

    Raises:
        OverflowError: it is outside of the years 1 to 9999.
    """
    return _EPOCH + timedelta(microseconds=moment_us)


def since_epoch_us(moment: datetime) -> int:
    """Return a time with a zone in microseconds since the Unix epoch; the inverse of `utc`."""
    return (moment - _EPOCH) // timedelta(microseconds=1)
