"""What comparing two sources of one programme has found."""

from typing import Literal

import msgspec


class SourceComparison(msgspec.Struct, frozen=True, kw_only=True):
    """How far the packets' times of two sources are apart, in seconds.

    What the first shows at t, the other shows at t + `offset`. It is None if nothing can be
    believed, and then `reason` says why. `correlation` is 1 for equal sound, and `ratio` says how
    many times better it fits there than anywhere else. `method` is by what it was found.
    `picture_offset` is that of the pictures, if they were compared: it differs where lip sync does.
    """

    offset: float | None
    reason: str | None = None
    correlation: float = 0.0
    ratio: float = 0.0
    method: Literal["sound", "picture"] = "sound"
    picture_offset: float | None = None


PICTURES_AWAITED = "pictures awaited"
"""The reason if sound says nothing, and pictures are compared later: what is known still holds."""

OUTDATED = "outdated"
"""The reason if pictures have told the offset too long ago: what was known holds no more."""
