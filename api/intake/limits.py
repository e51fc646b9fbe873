"""The settings of resumable uploads, each number with its reason."""

from typing import Annotated, Final

import msgspec

from media.setting import describe
from media.ticks import MICROSECONDS

_HOUR_US: Final = 3600 * MICROSECONDS


class UploadLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of resumable uploads."""

    most_bytes: Annotated[
        int,
        describe("longest upload", "bytes", 1, 1 << 50, reason="hours of a camera's own recording"),
    ] = 50 << 30
    keep_hours: Annotated[
        float,
        describe(
            "an unfinished upload is kept for so long after its last byte",
            "h",
            0.1,
            8760,
            reason="a laptop that was closed for the night goes on",
        ),
    ] = 24.0

    @property
    def keep_us(self) -> int:
        """`keep_hours` in microseconds."""
        return int(self.keep_hours * _HOUR_US)
