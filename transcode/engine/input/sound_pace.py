"""The sample rate that the times of a track's sound follow, where its configuration says another.

Pure. Films that were joined keep the first one's configuration, if nothing else was written. Sound
of the other rate would then be too high or too low, and leave a gap after each frame, or overlap
with the next one: too much to be stretched. Its times tell.

Times are ticks of 90 000 a second.
"""

from typing import Final

from media.ticks import VIDEO_SCALE

_USUAL: Final = (8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 96_000)
# Frames in each of two measurements that must agree: times in whole milliseconds are exact enough.
_FRAMES: Final = 8
_UNEVEN: Final = VIDEO_SCALE // 500  # beyond: a hole or a repetition, which tells no rate
_SAME: Final = 100  # one in so many is no difference to a usual rate
_LEAST: Final = 30  # nor to the declared one, so much is stretched


class SoundPace:
    """Measures the sample rate of a track, frame by frame."""

    def __init__(self) -> None:
        self._declared = self._rate = 0
        self._measured: int | None = None  # by the last frames
        self._count = self._samples = self._begin = 0
        self._last = self._step = 0

    def rate(self, pts: int, samples: int, declared: int) -> int:
        """Add the next frame; return its sample rate."""
        if declared != self._declared:
            self._declared = self._rate = declared
            self._measured, self._count = None, 0
        step = pts - self._last
        if abs(step - self._step) > _UNEVEN:
            self._measured, self._count = None, 0
        self._last, self._step = pts, step
        if self._count == _FRAMES:
            measured, self._count = self._nearest(pts - self._begin), 0
            if measured is not None and measured == self._measured:
                self._rate = measured
            self._measured = measured
        if not self._count:
            self._begin, self._samples = pts, 0
        self._count += 1
        self._samples += samples
        return self._rate

    def _nearest(self, ticks: int) -> int | None:
        """Return the rate at which the last frames take so long; None if it is unusual."""
        rate = self._samples * VIDEO_SCALE // ticks if ticks > 0 else 0
        if abs(rate - self._declared) * _LEAST < self._declared:
            return self._declared
        return next((usual for usual in _USUAL if abs(rate - usual) * _SAME < usual), None)
