"""Which backups are kept: the newest of each of the last days, weeks and months. Pure."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Final

import msgspec

from media.ticks import DAY_US

# A newest backup of this age needs somebody: time to notice, and what is older misses much.
OLD_US: Final = 7 * DAY_US
_NAME: Final = "%Y%m%dT%H%M%SZ"


class Keep(msgspec.Struct, frozen=True, kw_only=True):
    """Of how many days, weeks and months the newest backup is kept; all 0: every backup."""

    daily: int
    weekly: int
    monthly: int


def name_of(time: datetime) -> str:
    """Return the name of a backup that is begun at a time: that, in UTC, to the second."""
    return time.astimezone(UTC).strftime(_NAME)


def time_of(name: str) -> datetime | None:
    """Return when the backup of a name was begun; None if no backup has such a name."""
    try:
        time = datetime.strptime(name, _NAME).replace(tzinfo=UTC)
    except ValueError:
        return None
    return time if name_of(time) == name else None


def kept(names: Iterable[str], keep: Keep) -> frozenset[str]:
    """Return those of the names of backups that are kept; the newest always is.

    Days without a backup do not count, nor do weeks and months. Weeks begin on Monday, in UTC.
    """
    newest_first = sorted(names, reverse=True)
    if not (keep.daily or keep.weekly or keep.monthly):
        return frozenset(newest_first)
    rules: tuple[tuple[int, Callable[[datetime], object]], ...] = (
        (keep.daily, datetime.date),
        (keep.weekly, lambda time: time.isocalendar()[:2]),
        (keep.monthly, lambda time: (time.year, time.month)),
    )
    chosen = set(newest_first[:1])
    for most, period_of in rules:
        periods: set[object] = set()
        for name in newest_first:
            time = time_of(name)
            if time is None or len(periods) >= most:
                continue
            if (period := period_of(time)) not in periods:
                periods.add(period)
                chosen.add(name)
    return frozenset(chosen)
