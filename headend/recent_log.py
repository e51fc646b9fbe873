"""The newest warnings and errors that this process logged, kept in memory for its operator.

They are a copy; the log itself is not changed. Facts are those of the log lines, which hold no
secrets; of an exception its type and message are kept, without the traceback. What peers sent is
made printable, as in the log.
"""

import logging
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from api.operations.report import LoggedProblem
from headend.printable import printable
from media.ticks import MICROSECONDS

# A page of them; each is cut to a few hundred bytes.
_MOST: Final = 100
_MOST_FACTS: Final = 12
_MOST_CHARACTERS: Final = 300
# What every record has: the rest are the facts of the event.
_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class RecentLog(logging.Handler):
    """Keeps the newest lines of level warning and above."""

    def __init__(self, most: int = _MOST) -> None:
        super().__init__(logging.WARNING)
        self._lines: deque[LoggedProblem] = deque(maxlen=most)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        facts = {name: _cut(value) for name, value in vars(record).items() if name not in _STANDARD}
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            facts["exception"] = _cut(f"{type(error).__name__}: {error}")
        self._lines.append(
            LoggedProblem(
                at_us=round(record.created * MICROSECONDS),
                level="error" if record.levelno >= logging.ERROR else "warning",
                event=_cut(record.getMessage()),
                facts=dict(list(facts.items())[:_MOST_FACTS]),
            )
        )

    def newest_first(self) -> tuple[LoggedProblem, ...]:
        """Return the lines that are kept."""
        # A thread may log meanwhile.
        self.acquire()
        try:
            return tuple(reversed(self._lines))
        finally:
            self.release()


def _cut(value: object) -> str:
    return printable(str(value)[:_MOST_CHARACTERS])


@contextmanager
def keeping_recent_log() -> Generator[RecentLog, None, None]:
    """Keep what is logged for the length of the block."""
    kept = RecentLog()
    root = logging.getLogger()
    root.addHandler(kept)
    try:
        yield kept
    finally:
        root.removeHandler(kept)
