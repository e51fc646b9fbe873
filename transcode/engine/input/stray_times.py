"""Times of a file that go back: strays of damage, and clocks that begin again.

Pure. A damaged header of a Matroska cluster, say, moves two seconds of packets by half a minute. A
video would become that much longer, though the packets after them continue where those before
ended. In a recording that was joined from two, the second one's clock begins again. Times that leap
ahead and do not return are neither: there is a hole.

Times are ticks of 90 000 a second.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import msgspec

from media.ticks import VIDEO_SCALE

__all__ = ["REWIND", "ClockJoiner", "TimeLine", "time_line"]

# No codec holds back more pictures, so a later packet is never shown before one so much earlier.
_REORDERED: Final = 16
# Times that differ by more, from one packet to the next, belong to different runs.
_LEAP: Final = 2 * VIDEO_SCALE
# Decode times that a container states go back by more only where its clock begins again: parts that
# were joined may be as short as the segments of a stream. Damage and fields shift them by less.
REWIND: Final = VIDEO_SCALE // 2
_GAP_SHARE: Final = 4
_STEP: Final = VIDEO_SCALE // 30
# Beyond this, the file is so damaged that its times mean nothing.
_MOST_RUNS: Final = 1_000


class _Run(msgspec.Struct, gc=False):
    """Packets that follow each other in the file and in time."""

    first: int
    last: int


class TimeLine(msgspec.Struct, frozen=True):
    """The times that most of a track follows, from `first` to `last`.

    `strays` is True if all other packets outside are strays, and there are some. `restarts` is True
    if the track does not end on the line that it begins on.
    """

    first: int
    last: int
    strays: bool
    restarts: bool


def time_line(times: Sequence[int]) -> TimeLine | None:
    """Return the line that times follow; None if they never go back, or at random.

    `times` are the presentation times of a track's packets in decode order.
    """
    if not _goes_back(times):
        return None
    runs = _runs(times)
    if len(runs) > _MOST_RUNS:
        return None
    line = _best_line(runs)
    first, last = runs[line[0]].first, max(runs[index].last for index in line)
    outside = [
        index
        for index, run in enumerate(runs)
        if index not in line and not first <= run.first <= run.last <= last
    ]
    return TimeLine(
        first=first,
        last=last,
        strays=bool(outside) and all(line[0] < index < line[-1] for index in outside),
        restarts=line[0] > 0 or line[-1] < len(runs) - 1,
    )


class ClockJoiner:
    """Joins the parts of a file whose clock begins again.

    The track that begins a part continues where it ended, and the others keep their distance to it.
    """

    def __init__(self, rewind: int = _LEAP) -> None:
        """Begin before the first packet; times that go back by more than `rewind` begin a part."""
        self._rewind = rewind
        self._offsets = [0]  # by part
        self._newest: dict[int, list[int]] = {}  # by track, of each part up to its present one
        self._steps: dict[int, int] = {}  # by track, between its last two packets
        self._shown: dict[int, int] = {}  # by track, the latest time on the joined clock

    def offset(self, track: int, dts: int, pts: int) -> int:
        """Return what to add to the times of a track's next packet."""
        newest = self._newest.setdefault(track, [dts] * len(self._offsets))
        step = dts - newest[-1]
        if step < -self._rewind:
            if len(newest) == len(self._offsets):
                # Pictures may wait longer to be shown in one part than in another.
                delay = max(newest[-1] + self._offsets[-1] - dts, self._shown[track] - pts)
                self._offsets.append(delay + self._steps.get(track, _STEP))
            # A track may be missing in parts; the newest one is where the others are.
            newest += [newest[-1]] * (len(self._offsets) - len(newest) - 1) + [dts]
        elif step > _LEAP and len(newest) > 1 and dts >= newest[-2]:
            newest.pop()  # what went back was a stray
        elif step > 0:
            self._steps[track] = step
        newest[-1] = max(newest[-1], dts)
        offset = self._offsets[len(newest) - 1]
        self._shown[track] = max(self._shown.get(track, pts + offset), pts + offset)
        return offset


def _goes_back(times: Sequence[int]) -> bool:
    """Return whether the times ever go back by more than reordering explains."""
    newest: int | None = None
    for index in range(_REORDERED + 1, len(times)):
        before = times[index - _REORDERED - 1]
        newest = before if newest is None or before > newest else newest
        if newest - times[index] > _LEAP:
            return True
    return False


def _runs(times: Sequence[int]) -> list[_Run]:
    runs = [_Run(times[0], times[0])]
    for before, time in pairwise(times):
        run = runs[-1]
        if abs(time - before) > _LEAP:
            runs.append(_Run(time, time))
            continue
        run.first, run.last = min(run.first, time), max(run.last, time)
    return runs


def _best_line(runs: Sequence[_Run]) -> list[int]:
    """Return the indices of runs, each beginning after the last, with the most time and least gaps.

    A part of the gaps is subtracted from the time that the runs cover: a stray leaves a gap too,
    but a shorter one than the gap to the stray itself.
    """
    best = [run.last - run.first for run in runs]
    previous = [-1] * len(runs)
    for index, run in enumerate(runs):
        for earlier in range(index):
            gap = run.first - runs[earlier].last
            together = best[earlier] + run.last - run.first - max(0, gap) // _GAP_SHARE
            if gap >= -_LEAP and together > best[index]:
                best[index], previous[index] = together, earlier
    line: list[int] = []
    index = max(range(len(runs)), key=lambda number: best[number])
    while index >= 0:
        line.insert(0, index)
        index = previous[index]
    return line
