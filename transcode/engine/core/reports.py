"""The engine's only output: framed reports on the pipe to its parent.

Threads share it; a report is written whole. Repeated troubles are counted and sent together, at
most once for each `flush_troubles`, so that a broken source cannot flood the pipe.
"""

import os
import threading
from typing import Final

from transcode.protocol.messages import EngineReport, Trouble, pack

_DETAIL_LENGTH: Final = 200
_KINDS: Final = 64


class ReportWriter:
    """Writes reports to the file descriptor `fd`; waits while the parent does not read.

    If the parent is gone, the thread that writes gets BrokenPipeError.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._writing = threading.Lock()
        self._counting = threading.Lock()
        self._flushing = threading.Lock()
        self._troubles: dict[str, tuple[str, int]] = {}

    def send(self, report: EngineReport) -> None:
        """Write one report."""
        data = memoryview(pack(report))
        with self._writing:
            while data:
                data = data[os.write(self._fd, data) :]

    def count_trouble(self, what: str, detail: object = "") -> None:
        """Count a trouble; the report will quote the newest `detail`."""
        text = str(detail)[:_DETAIL_LENGTH]
        with self._counting:
            if what in self._troubles or len(self._troubles) < _KINDS:
                self._troubles[what] = (text, self._troubles.get(what, ("", 0))[1] + 1)

    def flush_troubles(self) -> None:
        """Report the troubles counted since the last call.

        Return when all of them are written, also those that another thread is flushing: the engine
        exits after its last call.
        """
        with self._flushing:
            with self._counting:
                troubles, self._troubles = self._troubles, {}
            for what, (detail, count) in troubles.items():
                self.send(Trouble(what=what, detail=detail, count=count))
