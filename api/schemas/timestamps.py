"""Moments as the API writes and reads them: RFC 3339 in UTC, to the microsecond."""

from datetime import UTC, datetime, timedelta
from typing import Final

__all__ = ["format_timestamp", "parse_timestamp"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_BARE_EPOCH: Final = _EPOCH.replace(tzinfo=None)
_MICROSECOND: Final = timedelta(microseconds=1)


def format_timestamp(moment_us: int) -> str:
    """Return a moment (microseconds since the Unix epoch) as `2026-01-31T12:00:00.123456Z`."""
    # Seven times for each video of a list: `strftime` would take three times as long.
    moment = _BARE_EPOCH + timedelta(microseconds=moment_us)
    return moment.isoformat(timespec="microseconds") + "Z"


def parse_timestamp(text: str) -> int | None:
    """Return the microseconds of a moment or a day; without an offset it is UTC's. None: neither.

    A moment before 1970 counts as 1970.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0, (moment - _EPOCH) // _MICROSECOND)
