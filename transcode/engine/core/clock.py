"""Maps a source's times to the run's output clock.

Pure. One offset serves picture and sound, so their relation is kept. If a source's times jump, it
is spliced and continues where it was; otherwise a single absurd timestamp would make hours of
silence, or stop the output for as long. Output: ticks of 90 000 a second.
"""

from typing import Final

from media.ticks import VIDEO_SCALE, rescale

# No encoder that still sends leaves a hole like this; the ingest ends a silent source earlier.
JUMP: Final = 20 * VIDEO_SCALE
_STEP: Final = VIDEO_SCALE // 30


class OutputClock:
    """Maps an epoch's times; `scale` is that of the leading track, and `first` maps to `origin`."""

    def __init__(self, *, first: int, scale: int, origin: int) -> None:
        self._offset = origin - rescale(first, scale, VIDEO_SCALE)
        self._newest: int | None = None

    def place(self, time: int, scale: int) -> int:
        """Return the place of a source's time on the output clock."""
        return rescale(time, scale, VIDEO_SCALE) + self._offset

    def advance(self, dts: int, scale: int) -> bool:
        """Record the leading track's next decode time; return True if it jumped and was spliced."""
        place = self.place(dts, scale)
        jumped = self._newest is not None and abs(place - self._newest) > JUMP
        if jumped and self._newest is not None:
            self.restart(dts, scale, self._newest + _STEP)
        else:
            self._newest = place
        return jumped

    def restart(self, time: int, scale: int, place: int) -> None:
        """Continue at `place` with the source's time `time`, because its clock has restarted."""
        self._offset = place - rescale(time, scale, VIDEO_SCALE)
        self._newest = place

    @property
    def newest(self) -> int:
        """How far the output is filled; 0 before the first time."""
        return self._newest or 0

    @property
    def offset(self) -> int:
        """The place of the source's time 0."""
        return self._offset

    def advance_to(self, place: int) -> None:
        """Record that the output was filled up to `place` without the leading track."""
        if self._newest is not None:
            self._newest = max(self._newest, place)
