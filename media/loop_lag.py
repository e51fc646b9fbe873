"""Measures when an event loop was held up, so that its peers are not mistaken for silent.

While a loop is held up it reads no socket and its timers run late. Afterwards the timers run before
the data that has arrived meanwhile is read: an encoder seems silent, and a deadline seems missed. A
regular beat detects that. Silence is measured up to `read_until`, deadlines of peers with
`elapsed`, which excludes the lag. Pure; times are seconds of the loop's monotonic clock.
"""

from collections import deque
from typing import Final

# The interval of the beat: how precisely the beginning of a lag is known.
BEAT_SECONDS: Final = 0.1
# A busy machine delays a beat by tens of milliseconds; the shortest detection of silence is 0.5 s.
_LATE_SECONDS: Final = 0.25
# With a lag each second these are the last minutes; older ones count as time that passed normally.
_REMEMBERED: Final = 256


class LoopLag:
    """The lags of one event loop, which calls `beat` every `BEAT_SECONDS`.

    `seconds` is the sum of all lags and `count` their number. Before the first beat nothing counts
    as lag.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.count = 0
        self._newest: float | None = None  # beat
        self._before_lag: float | None = None  # the beat before the newest, if that was late
        self._lags: deque[tuple[float, float]] = deque(maxlen=_REMEMBERED)  # from, to

    def beat(self, now: float) -> float:
        """Record a turn of the loop; return for how many seconds it was held up, or 0."""
        lag = self._lag_at(now)
        self._before_lag = self._newest if lag else None
        self._newest = now
        if lag:
            self._lags.append((now - lag, now))
            self.seconds += lag
            self.count += 1
        return lag

    def read_until(self, now: float) -> float:
        """Return the time up to which the loop has read its sockets: `now`, or a lag's beginning.

        It is `now` again one beat after a lag, when all sockets have had their turn.
        """
        if self._before_lag is not None:
            return min(now, self._before_lag)
        if self._newest is not None and self._lag_at(now):
            return self._newest
        return now

    def elapsed(self, since: float, now: float) -> float:
        """Return how many seconds have passed, except those in which the loop was held up."""
        passed = now - since
        for begin, end in reversed(self._lags):
            if end <= since:
                break
            passed -= max(0.0, min(end, now) - max(begin, since))
        lag = self._lag_at(now)
        return passed - min(lag, now - since) if lag and now > since else passed

    def _lag_at(self, now: float) -> float:
        """Return how many seconds the next beat is late; 0 if less than `_LATE_SECONDS`."""
        if self._newest is None:
            return 0.0
        late = now - self._newest - BEAT_SECONDS
        return late if late >= _LATE_SECONDS else 0.0
