"""Where a source's times lie on the run's output clock.

Pure. One offset serves picture and sound, so what the source put together stays together. A source
whose times jump is spliced: what follows goes on where it was, else a single absurd stamp would
make hours of silence or stop the output for as long. Output: ticks of 90 000 a second.
"""

from typing import Final

from media.ticks import VIDEO_SCALE, rescale

__all__ = ["JUMP", "Clock"]

# No encoder that is still sending leaves a hole like this; the ingest ends a silent source earlier.
JUMP: Final = 20 * VIDEO_SCALE
_STEP: Final = VIDEO_SCALE // 30


class Clock:
    """Maps an epoch's times. `scale` is the leading track's, `first` goes to `origin`."""

    def __init__(self, *, first: int, scale: int, origin: int) -> None:
        self._offset = origin - rescale(first, scale, VIDEO_SCALE)
        self._newest: int | None = None

    def place(self, ticks: int, scale: int) -> int:
        """Return a source's time on the output clock."""
        return rescale(ticks, scale, VIDEO_SCALE) + self._offset

    def lead(self, dts: int, scale: int) -> bool:
        """Note the leading track's next decode time; True where it jumped and was spliced."""
        place = self.place(dts, scale)
        jumped = self._newest is not None and abs(place - self._newest) > JUMP
        if jumped and self._newest is not None:
            self._offset += self._newest + _STEP - place
            place = self._newest + _STEP
        self._newest = place
        return jumped

    def follow(self, place: int) -> None:
        """Note that the output has been filled up to `place` without the leading track."""
        if self._newest is not None:
            self._newest = max(self._newest, place)
