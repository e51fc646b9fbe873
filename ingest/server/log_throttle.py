"""Which refusals get a line of their own in the log, and how many were only counted.

An attacker who is refused a thousand times a second must not fill the disk. The first of a cause
are logged each; the rest are summed, one line a period and cause. Pure: the time is an argument,
seconds of a clock that never goes back. What is kept grows with the causes, which are a short list,
and never with the sites that are refused.
"""

from typing import Final

import msgspec

__all__ = ["EACH_CAUSE", "EACH_SITE", "PERIOD_SECONDS", "Complaints", "Summed"]

PERIOD_SECONDS: Final = 60.0
# An encoder that is set up wrongly tries again every few seconds: five tell what is the matter.
EACH_SITE: Final = 5
# Six sites in trouble are seen whole. 30 lines of 200 bytes a minute are 9 MB a day and cause.
EACH_CAUSE: Final = 30


class Summed(msgspec.Struct, frozen=True):
    """What was not logged: `count` times `what` for `cause`, within `seconds`."""

    what: str
    cause: str
    count: int
    seconds: float


class _Period:
    """A cause's lines since its first."""

    __slots__ = ("began", "lines", "sites", "unsaid")

    def __init__(self, began: float) -> None:
        self.began = began
        self.lines = 0
        self.unsaid = 0
        self.sites: dict[str, int] = {}


class Complaints:
    """Says which refusals are worth a line."""

    def __init__(self) -> None:
        self._periods: dict[tuple[str, str], _Period] = {}

    def worth_a_line(self, what: str, cause: str, site: str, now: float) -> bool:
        """Say whether to log that `what` befell `site` for `cause`; if not, it is summed.

        `what` and `cause` are words of ours, few of them; `site` is whatever the peer is.
        """
        period = self._periods.get((what, cause))
        if period is None:
            period = self._periods[what, cause] = _Period(now)
        said = period.sites.get(site, 0)
        if said >= EACH_SITE or period.lines >= EACH_CAUSE:
            period.unsaid += 1
            return False
        period.sites[site] = said + 1
        period.lines += 1
        return True

    def due(self, now: float) -> list[Summed]:
        """Return what was summed in the periods that are over; call it now and then."""
        over = [key for key, period in self._periods.items() if _age(period, now) >= PERIOD_SECONDS]
        return self._close(over, now)

    def rest(self, now: float) -> list[Summed]:
        """Return what was summed in all periods: at the end."""
        return self._close(list(self._periods), now)

    def _close(self, keys: list[tuple[str, str]], now: float) -> list[Summed]:
        found: list[Summed] = []
        for what, cause in keys:
            period = self._periods.pop((what, cause))
            if period.unsaid:
                found.append(Summed(what, cause, period.unsaid, round(_age(period, now), 1)))
        return found


def _age(period: _Period, now: float) -> float:
    return now - period.began
