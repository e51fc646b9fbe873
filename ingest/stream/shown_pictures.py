"""Up to which moment the pictures of a source were shown without a hole.

A moment is a presentation time by the source's own clock, in seconds. Packets come in decoding
order: when a connection is lost, a picture may have come without those that are shown before it.
Pure.
"""

from bisect import insort
from collections.abc import Iterable
from itertools import pairwise
from math import inf
from statistics import median
from typing import Final

from media.packet import MediaPacket

# Pictures are reordered by a few; their distance is the median of these.
_KEPT: Final = 32
# A step that is longer than this many usual ones is a hole.
_HOLE: Final = 1.5


class ShownPictures:
    """The newest pictures of one source that were shown, or frames of a source of sound alone.

    They begin at the moment `since`, if that is known. They are to end at the moment `limit`, or as
    soon after it as one that others before it are decoded with.
    """

    def __init__(self, since: float | None = None) -> None:
        self.limit = inf
        self._since = since
        self._moments: list[float] = []  # in order
        self._decoded_until = -inf

    def add(self, packets: Iterable[MediaPacket]) -> None:
        """Record packets of pictures, or of sound alone, in decoding order."""
        for packet in packets:
            self._decoded_until = packet.dts / packet.track.scale
            insort(self._moments, packet.pts / packet.track.scale)
        del self._moments[:-_KEPT]

    @property
    def until(self) -> float | None:
        """Where the next picture begins, if none before it is missing; None if that is not known.

        The first picture does not say how long it lasts.
        """
        shown = self._shown()
        step = self.step
        return self._since if step is None or not shown else shown[-1] + step

    @property
    def step(self) -> float | None:
        """How long a picture lasts, in seconds; None if that is not known."""
        moments = self._moments
        if len(moments) < 2:
            return None
        return median(later - sooner for sooner, later in pairwise(moments))

    @property
    def first_beyond(self) -> float | None:
        """The moment of the first picture that came, and is not to be shown; None if none is."""
        shown = len(self._shown())
        return self._moments[shown] if shown < len(self._moments) else None

    @property
    def is_complete(self) -> bool:
        """True if all before the limit were shown, and none is missing before those after it."""
        until, step = self.until, self.step
        if until is None or step is None or self.first_beyond is not None:
            return False
        return until >= self.limit - step / 2

    def _shown(self) -> list[float]:
        step, moments = self.step or 0.0, self._moments
        for place, (sooner, later) in enumerate(pairwise(moments), start=1):
            # No picture comes after one that is decoded later, and is shown before it is decoded.
            if later > self._decoded_until and later - sooner > _HOLE * step:
                return moments[:place]
        return moments
