"""How far an engine's media have been published, by its own clock and by that of its source.

Pure. A new engine goes on from there when this one has died. Times are ticks of 90 000 a second.
"""

from typing import Final

from media.hls.segment import EpochStart, GapStart, InitSection, Part, Segment, SegmentStart
from media.ticks import VIDEO_SCALE
from transcode.protocol.messages import Placed

# A rendition that is so far behind the others is not made now: it is shed.
_MOST_BEHIND: Final = 2 * VIDEO_SCALE


class PublishedMedia:
    """The media of one engine."""

    def __init__(self) -> None:
        self._ends: dict[str, int] = {}  # by rendition, on the output clock
        self._placed: Placed | None = None

    def place(self, report: Placed) -> None:
        """Record where the times of a source are on the output clock."""
        self._placed = report

    def add(
        self, report: EpochStart | InitSection | SegmentStart | GapStart | Part | Segment
    ) -> None:
        """Record what was published."""
        match report:
            case SegmentStart():
                self._ends[report.rendition] = report.start
            case Part():
                self._ends[report.rendition] = self._ends.get(report.rendition, 0) + report.duration
            case GapStart():
                self._ends.pop(report.rendition, None)
            case Segment() if report.gap:
                self._ends.pop(report.rendition, None)
            case _:
                pass

    def source_end(self, epoch: int) -> int | None:
        """Return where the media end that every rendition has, by the clock of that epoch's source.

        None if nothing of it was published.
        """
        placed = self._placed
        if placed is None or placed.epoch != epoch or not self._ends:
            return None
        farthest = max(self._ends.values())
        ends = [end for end in self._ends.values() if end >= farthest - _MOST_BEHIND]
        return min(ends) - placed.offset
