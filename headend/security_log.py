"""The log of security events: a file in the data folder, apart from all other logs and events.

Modules log these events with the logger `security`: wrong stream keys, refused tokens, callers over
a rate limit, engines that ended unexpectedly. Each line is a JSON object with `time`, `event`, and
facts such as `peer`, the client's address; a flood is summed up. A thread writes, so that a slow
disk holds up nothing else. Each role has a file of its own, with four older ones beside it; several
processes of one role may share it.
"""

import datetime
import json
import logging
import os
import queue
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from logging.handlers import QueueHandler, QueueListener, RotatingFileHandler
from pathlib import Path
from typing import Any, Final

from headend.printable import printable
from ingest.publishing.log_throttle import LogThrottle, SuppressedLines

_LOGGER: Final = "security"
# The throttle passes 30 lines of about 150 bytes a minute and event: days, even in a flood.
_FILE_BYTES: Final = 4 << 20
_OLDER_FILES: Final = 4
_WAITING: Final = 1000  # events that wait for the disk; more are lost
_FACTS: Final = ("peer", "stream", "video", "token", "cause")


def security_log_path(folder: Path, role: str) -> Path:
    """Return the newest file of a role."""
    return folder / f"security-{role}.log"


class _Events(QueueHandler):
    """Passes the events that the throttle admits to the writing thread."""

    def __init__(self, events: queue.Queue[Any], clock: Callable[[], float]) -> None:
        super().__init__(events)
        self._throttle = LogThrottle()
        self._clock = clock

    def emit(self, record: logging.LogRecord) -> None:
        """Pass an event on, after the summaries that are due."""
        now = self._clock()
        self._enqueue_summaries(self._throttle.finished_summaries(now), record.created)
        event = record.getMessage()
        facts = {name: value for name in _FACTS if (value := getattr(record, name, None))}
        if self._throttle.should_log(event, "", str(facts.get("peer", "")), now):
            self._enqueue_line({"event": event, **facts}, record.created)

    def finish(self) -> None:
        """Pass on the summaries of what was not logged."""
        self._enqueue_summaries(self._throttle.remaining_summaries(self._clock()), time.time())

    def _enqueue_summaries(self, summaries: list[SuppressedLines], created: float) -> None:
        for each in summaries:
            facts = {"event": each.event, "more": each.count, "seconds": each.seconds}
            self._enqueue_line(facts, created)

    def _enqueue_line(self, facts: dict[str, Any], created: float) -> None:
        moment = datetime.datetime.fromtimestamp(created, datetime.UTC)
        line = {"time": moment.isoformat(timespec="milliseconds"), **facts}
        passed = logging.makeLogRecord(
            {"msg": printable(json.dumps(line)), "levelno": logging.INFO}
        )
        try:
            self.enqueue(passed)
        except queue.Full:
            return  # the disk does not answer; the service continues


class _RoleFile(RotatingFileHandler):
    """The file of a role, which another process of that role may have rotated since."""

    def shouldRollover(self, record: logging.LogRecord) -> bool:
        """Return whether the file is full, after opening the one that now has its name."""
        if self.stream and not _is_at(Path(self.baseFilename), self.stream.fileno()):
            before, self.stream = self.stream, self._open()
            before.close()
        return bool(super().shouldRollover(record))


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


@contextmanager
def security_log(
    folder: Path, role: str, *, clock: Callable[[], float] = time.monotonic
) -> Generator[Path]:
    """Write security events to the role's file for the length of the block; yields its path.

    Raises:
        OSError: the file cannot be opened.
    """
    path = security_log_path(folder, role)
    file = _RoleFile(path, maxBytes=_FILE_BYTES, backupCount=_OLDER_FILES, encoding="utf-8")
    events: queue.Queue[Any] = queue.Queue(_WAITING)
    handler = _Events(events, clock)
    listener = QueueListener(events, file)
    logger = logging.getLogger(_LOGGER)
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False  # the ordinary log has lines of its own
    listener.start()
    try:
        yield path
    finally:
        logger.removeHandler(handler)
        logger.level, logger.propagate = before
        handler.finish()
        listener.stop()
        file.close()
