"""A crossfade: the sound of one source becomes that of the next without a click.

Pure. It takes place in the last sound of the old source that is not encoded yet: 5 to 26 ms, of
which 5 are held back for it. Positions are samples on the output clock.
"""

from array import array
from typing import Final

from av.audio.frame import AudioFrame
from av.audio.plane import AudioPlane

from media.ticks import AUDIO_SCALE
from transcode.engine.codec.decode import SAMPLE_BYTES, stereo_frame

LEAST_HELD: Final = AUDIO_SCALE // 200
"""So many samples are held back: shorter fades can be heard."""


class Crossfade:
    """The `held` samples of the old source, up to the position `end`."""

    def __init__(self, held: AudioFrame, end: int) -> None:
        self._length = held.samples
        self._start = end - held.samples
        self._planes = [_samples(plane, held.samples) for plane in held.planes]

    def mix(self, frame: AudioFrame, at: int) -> None:
        """Mix in what the new source has for the same time, in a frame whose position is `at`."""
        first, last = max(0, at - self._start), min(self._length, at - self._start + frame.samples)
        skipped = self._start - at
        for held, plane in zip(self._planes, frame.planes, strict=True):
            new = _samples(plane, frame.samples)
            for place in range(first, last):
                share = (place + 1) / (self._length + 1)
                held[place] += share * (new[place + skipped] - held[place])

    def frame(self) -> AudioFrame:
        """Return the held samples with all that was mixed in."""
        planes = tuple(plane.tobytes() for plane in self._planes)
        return stereo_frame(self._length, planes, AUDIO_SCALE)


def _samples(plane: AudioPlane, count: int) -> "array[float]":
    return array("f", bytes(plane)[: count * SAMPLE_BYTES])
