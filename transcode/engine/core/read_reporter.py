"""Reports how much of a file was read, which shows that an engine works before it produces media.

One reporter serves one pass through a file. Its clock is in seconds and monotonic.
"""

from collections.abc import Callable
from typing import Final

from transcode.protocol.messages import FILE_NOT_READ, BytesRead, Trouble

REPORT_SECONDS: Final = 1.0
# A file whose tracks are stored apart is read in both places alternately, 256 KiB for each packet:
# about sixty times its size if a twentieth of it is sound. A hostile file can make a demuxer loop
# for ever: beyond this, reading is no sign of progress.
_MOST_REREADS: Final = 200
_LEAST_BYTES: Final = 1 << 30


class ReadReporter:
    """Counts the bytes read of a file of `size` bytes, and sends a report every second at most.

    Reports stop once 200 times the file's size plus 1 GiB was read.
    """

    def __init__(
        self, send: Callable[[BytesRead | Trouble], None], size: int, clock: Callable[[], float]
    ) -> None:
        self._send = send
        self._most = _MOST_REREADS * size + _LEAST_BYTES
        self._clock = clock
        self._reported = clock()
        self._total = 0

    def add(self, count: int) -> None:
        """Count bytes that were read."""
        self._total += count
        now = self._clock()
        if count and now - self._reported >= REPORT_SECONDS and self._total <= self._most:
            self._reported = now
            self._send(BytesRead(total=self._total))

    def fail(self, error: OSError) -> None:
        """Report that the file could not be read."""
        self._send(Trouble(what=FILE_NOT_READ, detail=error.strerror or type(error).__name__))
