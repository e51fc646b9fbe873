"""Times of a file that go back: strays of damage are told from clocks that begin again.

Pure. A damaged header of a Matroska cluster, say, moves two seconds of packets by half a minute. A
video would become that much longer, though the packets after them continue where those before
ended. In a recording that was joined from two, the second one's clock begins again
(`joined_clock` joins them). Times that leap ahead and do not return are neither: there is a hole.

Times are ticks of 90 000 a second.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import msgspec

from media.ticks import VIDEO_SCALE

# No codec holds back more pictures, so a later packet is never shown before one so much earlier.
_REORDERED: Final = 16
# Times that differ by more, from one packet to the next, belong to different runs.
_LEAP: Final = 2 * VIDEO_SCALE
_GAP_SHARE: Final = 4
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
