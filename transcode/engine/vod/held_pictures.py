"""Pictures that stand still: a forward gap in a file's picture is held, or its clock leaps.

Pure. A screen recorder writes no picture while nothing moves, and a slide show one for each slide.
Players show such a picture until the next one, so a gap is part of the video wherever something
says that the time passed: the picture's own duration (all of MP4 and MOV have one), sound that goes
on, or simply the file's one clock, if there is no sound in doubt. Where the sound leaps together
with the picture, the recording was interrupted, and what lies before and after is joined. The clock
of an MPEG stream may begin anew anywhere, so there a leap of the picture alone is one, too.

Times are ticks of 90 000 a second.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from media.ticks import VIDEO_SCALE
from transcode.engine.output.segment_grid import HOLE

# A picture that stands for less is held in any file.
JUMP: Final = 20 * VIDEO_SCALE
_LONGEST: Final = 24 * 3600 * VIDEO_SCALE  # of a whole video, as the probe allows
# Sound and picture do not end at the same time where a recording is interrupted.
_SKEW: Final = 2 * VIDEO_SCALE


def has_leap(
    shown: Sequence[int],
    end: int,
    *,
    durations: Mapping[int, int] | None,
    sound: Sequence[int],
    one_clock: bool,
) -> bool:
    """Return whether the clock of a file leaps ahead between two pictures.

    `shown` are the times of its pictures, in order, and `end` is where the last one ends.
    `durations` are those that are longer than `JUMP`, by the picture's time, None if all pictures
    have one and last until the next. `sound` are the times of the sound's packets. `one_clock` is
    False if the container's clock may begin anew.
    """
    gaps = [each for each in pairwise(shown) if each[1] - each[0] > JUMP]
    stands = bool(gaps) or end - shown[-1] > JUMP
    if stands and end - shown[0] > _LONGEST:
        return True
    if durations is None:
        return False
    heard = sorted(sound) if gaps else ()
    return any(
        after - before - durations.get(before, 0) > HOLE
        and _leaps(before, after, heard, one_clock=one_clock)
        for before, after in gaps
    )


def frame_rate(shown: Sequence[int], end: int) -> int:
    """Return the frames per 1000 s on average, of pictures that move if any do; 0 if unknown."""
    stills = [after - before for before, after in pairwise(shown) if after - before > HOLE]
    stills += [end - shown[-1]] if end - shown[-1] > HOLE else []
    moving, length = len(shown) - len(stills), end - shown[0] - sum(stills)
    if not moving:
        moving, length = len(shown), end - shown[0]
    return moving * VIDEO_SCALE * 1000 // length if length > 0 else 0


def _leaps(before: int, after: int, sound: Sequence[int], *, one_clock: bool) -> bool:
    """Return whether nothing but the clock says that the time from one picture to another passed.

    Sound that was over before, or begins later, says nothing.
    """
    first, last = bisect_right(sound, before), bisect_left(sound, after)
    heard = [before, *sound[first:last], after]
    silence = max(later - earlier for earlier, later in pairwise(heard))
    if after - before - silence > _SKEW:
        return False
    return not one_clock or 0 < first <= last < len(sound)
