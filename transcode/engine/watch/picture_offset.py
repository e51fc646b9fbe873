"""By how much the pictures of one source are later than those of another one.

Pure. As with sound, what changes is compared: an edge that moves, a cut. So brightness and range
cancel out, and what stands still counts nothing.
"""

from typing import Final

import msgspec
import numpy as np

from media.ticks import VIDEO_SCALE
from transcode.engine.watch.correlation import find
from transcode.engine.watch.pictures import BLOCKS, Pictures, Row

_ROW: Final = VIDEO_SCALE // 25
_APART: Final = 3  # rows between which a change is measured: two pictures, where some are left out
_WINDOW: Final = 5 * 25  # rows
REACH: Final = 10 * VIDEO_SCALE
_LEAST_REACH: Final = 4 * 25  # rows
NEAR_REACH: Final = VIDEO_SCALE
# In luma. A cut changes all blocks by more, and would be all that counts.
_MOST_CHANGE: Final = 12.0
_LEAST_CHANGE: Final = 0.3  # what an encoder changes by coding anew
# The mean square of changes: of a person who speaks it is 0.3, of a slide with a pointer 0.01.
_LEAST_CHANGES: Final = 0.05
# Farther apart, what was between two pictures is not known.
_MOST_APART: Final = VIDEO_SCALE // 2
_FINE: Final = VIDEO_SCALE // 500
_LEAST_FINE: Final = 10  # changes that must be seen in both
# Pictures of another programme reach 2.2 and 0.4, one that moves to and fro 1.4 and 1.0; those of
# the same one have 0.85.
_LEAST_RATIO: Final = 2.0
_LEAST_CORRELATION: Final = 0.6


class PictureOffset(msgspec.Struct, frozen=True, kw_only=True):
    """What one shows at t, the other shows at t + `ticks`; the rest is as in `Agreement`."""

    ticks: int
    correlation: float
    ratio: float

    @property
    def is_believed(self) -> bool:
        """Whether the place is right beyond doubt."""
        return self.ratio >= _LEAST_RATIO and self.correlation >= _LEAST_CORRELATION


def picture_offset(reference: Pictures, other: Pictures, near: int | None) -> PictureOffset | None:
    """Return where the newest 5 s of pictures agree; None if too few are known, or nothing moves.

    Within 1 s of `near`, or within 10 s of where both end.
    """
    if not len(reference.times) or not len(other.times):
        return None
    end, other_end = int(reference.times[-1]), int(other.times[-1])
    if near is not None:
        end = min(end, other_end - near)
        other_end = end + near
    ours, theirs = _changes(reference, end), _changes(other, other_end)
    # Where few places can be told apart, a wrong one may be the best by far.
    if min(len(ours), len(theirs)) < _WINDOW + (_LEAST_REACH if near is None else 0):
        return None
    if min(float((each[-_WINDOW:] ** 2).mean()) for each in (ours, theirs)) < _LEAST_CHANGES:
        return None
    reach = REACH if near is None else NEAR_REACH
    found = find(ours, theirs, rows=_WINDOW, reach=reach // _ROW)
    if found is None:
        return None
    coarse = other_end - end + found.rows * _ROW
    agreed = PictureOffset(ticks=coarse, correlation=found.correlation, ratio=found.ratio)
    if not agreed.is_believed:
        return agreed
    until = min(end, int(other.times[-1]) - coarse)
    return msgspec.structs.replace(agreed, ticks=_fine(reference, other, coarse, until))


def _changes(pictures: Pictures, end: int) -> Row:
    """Return how each block changes, a row for each 40 ms up to a time, back to the first hole."""
    times = pictures.times
    holes = np.flatnonzero(np.diff(times) > _MOST_APART)
    since = int(times[holes[-1] + 1]) if len(holes) else int(times[0])
    grid = np.arange(end, since - 1, -_ROW, dtype=np.int64)[::-1]
    rows = _at(pictures, grid)
    if len(rows) <= _APART:
        return np.zeros((0, BLOCKS), np.float32)
    return _strong(rows[_APART:] - rows[:-_APART])


def _at(pictures: Pictures, grid: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> Row:
    """Return the blocks at some times, between those of the pictures before and after."""
    times = pictures.times
    after = np.searchsorted(times, grid, side="right").clip(1, max(1, len(times) - 1))
    if len(times) < 2:
        return np.zeros((0, BLOCKS), np.float32)
    first, last = times[after - 1], times[after]
    share = ((grid - first) / np.maximum(1, last - first)).clip(0, 1).astype(np.float32)[:, None]
    between = pictures.blocks[after - 1] * (1 - share) + pictures.blocks[after] * share
    return between.astype(np.float32)


def _fine(reference: Pictures, other: Pictures, coarse: int, until: int) -> int:
    """Return the offset within a row of a coarse one at which the changes agree best.

    Pictures of the one that shows fewer are taken as they are, and those of the other one between
    two at most: what lies in a gap is where a cut may be, and would be wrong by half of it.
    """
    since = until - _WINDOW * _ROW
    ours = reference.between(since, until)
    theirs = other.between(since + coarse, until + coarse)
    if len(ours.times) <= len(theirs.times):
        return _finest(ours, other, coarse)
    return -_finest(theirs, reference, -coarse)


def _finest(few: Pictures, many: Pictures, coarse: int) -> int:
    changes = _strong(np.diff(few.blocks, axis=0))
    best, most = coarse, 0.0
    gaps = np.diff(many.times)
    widest = 1.5 * float(np.sort(gaps)[len(gaps) // 2])
    for late in sorted(range(-_ROW, _ROW + 1, _FINE), key=abs):
        moments = few.times + coarse + late
        after = np.searchsorted(many.times, moments).clip(1, len(many.times) - 1)
        inside = (moments >= many.times[0]) & (moments <= many.times[-1])
        seen = inside & (gaps[after - 1] <= widest)
        both = seen[1:] & seen[:-1]
        if int(both.sum()) < _LEAST_FINE:
            continue
        theirs = _strong(np.diff(_at(many, moments), axis=0))[both]
        strength = float((changes[both] ** 2).sum()) * float((theirs**2).sum())
        agreement = float((changes[both] * theirs).sum()) / max(1e-6, strength**0.5)
        if agreement > most:
            best, most = coarse + late, agreement
    return best


def _strong(change: Row) -> Row:
    """Return changes without those of an encoder, and with cuts that are no more than movement."""
    rest = np.sign(change) * np.maximum(np.abs(change) - _LEAST_CHANGE, 0)
    return np.clip(rest, -_MOST_CHANGE, _MOST_CHANGE).astype(np.float32)
