"""Timestamps of the API: RFC 3339 in UTC, to the microsecond."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from media.ticks import since_epoch_us, utc

_BARE_EPOCH: Final = utc(0).replace(tzinfo=None)
_RFC_3339: Final = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)", re.ASCII
)


class Moment(int):
    """A moment in a request: RFC 3339 with an offset, in microseconds since the Unix epoch."""

    __slots__ = ()

    @classmethod
    def parse(cls, value: object) -> "Moment":
        """Validate the moment in a request.

        Raises:
            ValueError: it is invalid; the message is for the client.
        """
        text = value.upper() if isinstance(value, str) else ""
        moment_us = parse_timestamp(text) if _RFC_3339.fullmatch(text) else None
        if moment_us is None:
            raise ValueError("This must be a time such as 2026-01-31T12:00:00.123Z (RFC 3339).")
        return cls(moment_us)


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
    return max(0, since_epoch_us(moment))
