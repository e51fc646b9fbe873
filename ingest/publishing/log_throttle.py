"""Decides which refusals get a line of their own in the log, and counts the others.

An attacker who is refused a thousand times a second must not fill the disk. The first refusals of a
cause are logged each; the rest are summed up in one line for each period and cause. Pure: the time
is an argument, seconds of a monotonic clock. Memory grows with the causes, which are a short list,
and not with the networks that are refused.
"""

from typing import Final

import msgspec

PERIOD_SECONDS: Final = 60.0
# A misconfigured encoder retries every few seconds: five lines show the problem.
LINES_PER_NETWORK: Final = 5
# Six networks in trouble are logged in full. 30 lines of 200 bytes a minute are 9 MB a day and
# cause.
LINES_PER_CAUSE: Final = 30


class SuppressedLines(msgspec.Struct, frozen=True):
    """What was not logged: `count` times `event` for `cause`, within `seconds`."""

    event: str
    cause: str
    count: int
    seconds: float


class _Period:
    """A cause's lines since its first."""

    __slots__ = ("began", "lines", "networks", "suppressed")

    def __init__(self, began: float) -> None:
        self.began = began
        self.lines = 0
        self.suppressed = 0
        self.networks: dict[str, int] = {}


class LogThrottle:
    """Bounds the log lines of each event and cause."""

    def __init__(self) -> None:
        self._periods: dict[tuple[str, str], _Period] = {}

    def should_log(self, event: str, cause: str, network: str, now: float) -> bool:
        """Return whether to log that `event` happened to `network` for `cause`; else count it.

        `event` and `cause` are fixed phrases of ours, few of them; `network` is any peer's.
        """
        period = self._periods.get((event, cause))
        if period is None:
            period = self._periods[event, cause] = _Period(now)
        logged = period.networks.get(network, 0)
        if logged >= LINES_PER_NETWORK or period.lines >= LINES_PER_CAUSE:
            period.suppressed += 1
            return False
        period.networks[network] = logged + 1
        period.lines += 1
        return True

    def finished_summaries(self, now: float) -> list[SuppressedLines]:
        """Return the summaries of the periods that are over; to be called regularly."""
        over = [key for key, period in self._periods.items() if _age(period, now) >= PERIOD_SECONDS]
        return self._pop_summaries(over, now)

    def remaining_summaries(self, now: float) -> list[SuppressedLines]:
        """Return the summaries of all periods; to be called at the end."""
        return self._pop_summaries(list(self._periods), now)

    def _pop_summaries(self, keys: list[tuple[str, str]], now: float) -> list[SuppressedLines]:
        summaries: list[SuppressedLines] = []
        for event, cause in keys:
            period = self._periods.pop((event, cause))
            if period.suppressed:
                seconds = round(_age(period, now), 1)
                summaries.append(SuppressedLines(event, cause, period.suppressed, seconds))
        return summaries


def _age(period: _Period, now: float) -> float:
    return now - period.began
