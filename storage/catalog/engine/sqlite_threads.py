"""Opens SQLite files; waits for locks on threads, and interrupts threads on cancellation."""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable
from typing import Final

from sqlalchemy.exc import DBAPIError

HELD: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_PAUSE_SECONDS: Final = 0.005  # between two attempts to get a lock that another process holds
_INTERRUPT_SECONDS: Final = 0.05  # until an interrupted thread is interrupted again


def connect(path: str, busy_ms: int, *pragmas: str) -> sqlite3.Connection:
    """Open a file in WAL mode with additional pragmas; `busy_ms` is the lock timeout of opening.

    The statements of the connection do not wait for locks: see `retry_while_locked`.

    Raises:
        sqlite3.Error: it cannot be opened.
    """
    raw = sqlite3.connect(
        path, timeout=busy_ms / 1000, isolation_level=None, check_same_thread=False
    )
    try:
        for pragma in ("journal_mode=WAL", "foreign_keys=ON", *pragmas, "busy_timeout=0"):
            raw.execute(f"PRAGMA {pragma}")
    except BaseException:
        raw.close()
        raise
    return raw


def result_code(error: BaseException | None) -> int:
    """Return the primary result code of SQLite's error or SQLAlchemy's around it; 0 if none."""
    if isinstance(error, DBAPIError):
        error = error.orig
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def retry_while_locked(
    action: Callable[[], object], cancelled: threading.Event, seconds: float
) -> None:
    """Run an action, and repeat it while another process holds a lock; blocks its thread.

    It is not repeated once `cancelled` is set.

    Raises:
        sqlite3.Error: the action failed, or the lock was not released in time.
        DBAPIError: the same, from SQLAlchemy.
    """
    until = time.monotonic() + seconds
    while True:
        try:
            action()
        except (sqlite3.OperationalError, DBAPIError) as error:
            is_held = result_code(error) in HELD
            if not is_held or time.monotonic() > until or cancelled.wait(_PAUSE_SECONDS):
                raise
        else:
            return


async def wait_or_interrupt(
    running: "asyncio.Future[None]", raw: sqlite3.Connection, cancelled: threading.Event
) -> None:
    """Wait for a thread's action; if cancelled, interrupt it and wait until it has ended.

    The connection must not be used before that.

    Raises:
        sqlite3.Error: the action failed.
        DBAPIError: the same, from SQLAlchemy.
    """
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        cancelled.set()
        while not running.done():
            raw.interrupt()
            # In a cancelled task of Python 3.11.2, `asyncio.timeout` raises CancelledError.
            await asyncio.wait((running,), timeout=_INTERRUPT_SECONDS)
        running.exception()  # the caller is gone
        raise
