"""The engine's process: boxed in, orders on standard input, reports on standard output.

    python -m transcode.engine live [LABEL]      LABEL is for the process list only

It ends with 0 when its input ends, with 1 when something of ours broke, with 2 for a wrong call or
orders that are none.
"""

import os
import signal
import sys
import threading
from typing import Final

import av.logging

from transcode.engine.live import Live
from transcode.engine.outlet import Outlet
from transcode.limits import (
    BoxError,
    deny_changes,
    deny_network,
    die_with_parent,
    set_limits,
)
from transcode.wire import Order, WireError, WireReader

__all__ = ["main"]

_READ_BYTES: Final = 1 << 18
# A 2160p60 source with all six rungs encoded takes 1.7 GB of data; a hostile one tries for more.
_MEMORY_BYTES: Final = 3 << 30
# Answering viewers comes before making the next segment on a machine that is too small for both.
_NICE: Final = 5
_BROKE, _WRONG_CALL = 1, 2


def main(arguments: list[str]) -> int:
    """Run the engine that `arguments` name; return the exit status."""
    if not arguments or arguments[0] != "live":
        sys.stderr.write("usage: python -m transcode.engine live [LABEL]\n")
        return _WRONG_CALL
    try:
        _box_in()
    except BoxError as error:
        sys.stderr.write(f"the engine cannot box itself in: {error}\n")
        return _BROKE
    # What ends a service reaches all its processes; this one ends when its parent is done with it.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    threading.excepthook = _stage_broke
    # Whatever prints goes to the complaints: the reports' stream is ours alone.
    reports = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    # The library's chatter about damaged media would flood them; its errors come as exceptions.
    av.logging.set_level(None)
    try:
        return _live(Outlet(reports))
    except BrokenPipeError:
        return _BROKE


def _box_in() -> None:
    die_with_parent()
    set_limits(memory_bytes=_MEMORY_BYTES, nice=_NICE)
    deny_network()
    deny_changes()


def _live(outlet: Outlet) -> int:
    reader: WireReader[Order] = WireReader(Order)
    live = Live(outlet)
    source = sys.stdin.fileno()
    try:
        while data := os.read(source, _READ_BYTES):
            for order in reader.feed(data):
                live.take(order)
    except WireError as error:
        sys.stderr.write(f"orders that are none: {error}\n")
        return _WRONG_CALL
    live.close()
    return 0


def _stage_broke(broken: threading.ExceptHookArgs) -> None:
    """End the engine: without one of its stages the others would wait for ever."""
    if not isinstance(broken.exc_value, BrokenPipeError):
        threading.__excepthook__(broken)
        sys.stderr.flush()
    os._exit(_BROKE)
