"""The engine's one way out: reports, framed, on the pipe to its parent.

Threads share it: a report is written whole. Troubles that repeat are counted and go out together,
at most once for each `flush_troubles`, so that a broken source cannot flood the pipe.
"""

import os
import threading
from typing import Final

from transcode.protocol.messages import Report, Trouble, pack

__all__ = ["Outlet"]

_DETAIL_LENGTH: Final = 200
_KINDS: Final = 64


class Outlet:
    """Writes reports to the file descriptor `fd`; waits while the parent does not read.

    A parent that is gone surfaces as BrokenPipeError in whichever thread wrote.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._writing = threading.Lock()
        self._counting = threading.Lock()
        self._troubles: dict[str, tuple[str, int]] = {}

    def send(self, report: Report) -> None:
        """Write one report."""
        data = memoryview(pack(report))
        with self._writing:
            while data:
                data = data[os.write(self._fd, data) :]

    def trouble(self, what: str, detail: object = "") -> None:
        """Count a trouble; `detail` of the newest is what the report quotes."""
        text = str(detail)[:_DETAIL_LENGTH]
        with self._counting:
            if what in self._troubles or len(self._troubles) < _KINDS:
                self._troubles[what] = (text, self._troubles.get(what, ("", 0))[1] + 1)

    def flush_troubles(self) -> None:
        """Report what was counted since the last time."""
        with self._counting:
            troubles, self._troubles = self._troubles, {}
        for what, (detail, count) in troubles.items():
            self.send(Trouble(what=what, detail=detail, count=count))
