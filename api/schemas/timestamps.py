"""Timestamps of the API: RFC 3339 in UTC, to the microsecond."""

from datetime import UTC, datetime, timedelta
from typing import Final

__all__ = ["format_timestamp", "parse_timestamp"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_BARE_EPOCH: Final = _EPOCH.replace(tzinfo=None)
_MICROSECOND: Final = timedelta(microseconds=1)


def format_timestamp(moment_us: int) -> str:
    """Format microseconds since the Unix epoch as `2026-01-31T12:00:00.123456Z`."""
    # Called seven times per video of a list: `strftime` would take three times as long.
    moment = _BARE_EPOCH + timedelta(microseconds=moment_us)
    return moment.isoformat(timespec="microseconds") + "Z"


def parse_timestamp(text: str) -> int | None:
    """Parse a timestamp or a date into microseconds; None if it is neither.

    Without an offset it is in UTC; before 1970 it counts as 1970.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0, (moment - _EPOCH) // _MICROSECOND)
