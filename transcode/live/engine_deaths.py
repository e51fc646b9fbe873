"""Decides when a stream's next engine may start, and when to give up, after engines have died.

An engine that worked for a while is replaced at once. One that dies as soon as it starts has a
cause that a new one meets as well, so each such death doubles the pause before the next start.
Pure; times are seconds of a monotonic clock.
"""

from collections import deque
from typing import Final

# Engines that die more often within the period have a cause that a new engine does not cure.
_MAX_DEATHS: Final = 5
PERIOD_SECONDS: Final = 60.0
# An engine publishes its first segment after about 4 s.
_SHORT_LIFE_SECONDS: Final = 5.0
_FIRST_PAUSE_SECONDS: Final = 0.5
# Less than what the backlog holds (10 s).
_LONGEST_PAUSE_SECONDS: Final = 8.0


class EngineDeaths:
    """The deaths of one stream's engines, over all its runs."""

    def __init__(self) -> None:
        self._deaths: deque[float] = deque(maxlen=_MAX_DEATHS)
        self._short_lives = 0  # in a row

    def record(self, now: float, *, lived: float) -> None:
        """Record the death of an engine that lived for so many seconds."""
        if not self._is_recent(now):
            self._short_lives = 0
        self._deaths.append(now)
        self._short_lives = self._short_lives + 1 if lived < _SHORT_LIFE_SECONDS else 0

    def are_too_many(self, now: float) -> bool:
        """Return whether the run must end instead of getting another engine."""
        return len(self._deaths) == _MAX_DEATHS and now - self._deaths[0] <= PERIOD_SECONDS

    def pause(self, now: float) -> float:
        """Return for how many seconds the next engine has to wait."""
        if not self._short_lives or not self._is_recent(now):
            return 0.0
        doubled = _FIRST_PAUSE_SECONDS * 2.0 ** (self._short_lives - 1)
        return max(0.0, self._deaths[-1] + min(doubled, _LONGEST_PAUSE_SECONDS) - now)

    def is_over(self, now: float) -> bool:
        """Return whether all deaths are too long ago to matter."""
        return not self._is_recent(now)

    def _is_recent(self, now: float) -> bool:
        return bool(self._deaths) and now - self._deaths[-1] <= PERIOD_SECONDS
