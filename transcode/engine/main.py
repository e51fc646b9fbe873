"""The engine's process: boxed in, orders on standard input, reports on standard output.

    python -m transcode.engine live [LABEL]      LABEL is for the process list only
    python -m transcode.engine probe             the file is standard input: what is it?
    python -m transcode.engine video MAKE        its renditions; MAKE is JSON
    python -m transcode.engine film FILM         what of it is made in one piece; FILM is JSON
    python -m transcode.engine stretch STRETCH   some segments of its rungs; STRETCH is JSON
    python -m transcode.engine poster MAKE       its posters
    python -m transcode.engine subtitles         its subtitles
    python -m transcode.engine still MAKE        those of a picture that is standard input

It ends with 0 when its input ends, with 1 when something of ours broke, with 2 for a wrong call or
orders that are none. A file that is no good is no failure of the engine: it says so in a report.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import av.logging
import msgspec

from transcode.engine.core.reports import Outlet
from transcode.engine.images.cover_art import covers
from transcode.engine.images.poster import posters
from transcode.engine.images.still import stills
from transcode.engine.images.subtitles import subtitles
from transcode.engine.input.container import BadUpload
from transcode.engine.input.probe import probe
from transcode.engine.live.session import Live
from transcode.engine.vod.asset import AHEAD, make_film, make_stretch
from transcode.engine.vod.live_fallback import convert
from transcode.protocol.file_messages import Film, Stretch
from transcode.protocol.messages import Make, Order, Refused, Report, WireError, WireReader
from transcode.sandbox.landlock import hide_files
from transcode.sandbox.rlimits import (
    BoxError,
    deny_changes,
    deny_network,
    deny_openings,
    die_with_parent,
    set_limits,
)

__all__ = ["main"]

_READ_BYTES: Final = 1 << 18
# A 2160p60 source with all six rungs encoded takes 1.7 GB of data; a hostile one tries for more.
_MEMORY_BYTES: Final = 3 << 30
# Answering viewers comes before making the next segment on a machine that is too small for both.
_NICE: Final = 5
_FILE_NICE: Final = 10  # files can wait, live streams cannot
_BROKE, _WRONG_CALL = 1, 2
# The tables of wide colours are read when a file needs them, and nothing else is.
_READABLE: Final = tuple((Path(__file__).parent / "codec").glob("*.cube"))


class _Box(msgspec.Struct, frozen=True, kw_only=True):
    """How narrow a kind of engine is kept.

    `closed` forbids to open files for reading, also where the kernel cannot hide them.
    """

    memory_bytes: int = _MEMORY_BYTES
    cpu_seconds: int | None = None
    nice: int = _NICE
    closed: bool = False

    @property
    def batch(self) -> bool:
        """Whether it takes no processor away from who wakes up."""
        return self.nice > _NICE


_BOXES: Final = {
    "live": _Box(),
    # A file of a few kilobytes can claim a picture of gigabytes; an honest one of 8192 x 4320 with
    # the frames that its decoder holds takes 600 MB.
    "probe": _Box(memory_bytes=1 << 30, cpu_seconds=20, nice=_FILE_NICE, closed=True),
    # Not closed: the tables of wide colours are read when a file needs them.
    "video": _Box(nice=_FILE_NICE),
    "film": _Box(nice=_FILE_NICE - AHEAD),
    "stretch": _Box(nice=_FILE_NICE),
    "poster": _Box(memory_bytes=1 << 30, cpu_seconds=60, nice=_FILE_NICE),
    # A film of hours has to be read whole, where its container has no index of its subtitles.
    "subtitles": _Box(memory_bytes=1 << 30, cpu_seconds=60, nice=_FILE_NICE, closed=True),
    "still": _Box(memory_bytes=1 << 30, cpu_seconds=20, nice=_FILE_NICE, closed=True),
}


_ORDERS: Final[dict[str, type[Film | Stretch]]] = {"film": Film, "stretch": Stretch}


def main(arguments: list[str]) -> int:
    """Run the engine that `arguments` name; return the exit status."""
    kind = arguments[0] if arguments else ""
    if kind not in _BOXES:
        sys.stderr.write(f"usage: python -m transcode.engine {'|'.join(_BOXES)} [LABEL|MAKE]\n")
        return _WRONG_CALL
    try:
        _box_in(_BOXES[kind])
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
        outlet = Outlet(reports)
        return _live(outlet) if kind == "live" else _read(kind, arguments[1:], outlet)
    except BrokenPipeError:
        return _BROKE


def _box_in(box: _Box) -> None:
    die_with_parent()
    set_limits(
        memory_bytes=box.memory_bytes,
        cpu_seconds=box.cpu_seconds,
        nice=box.nice,
        batch=box.batch,
    )
    hide_files(_READABLE)
    deny_network()
    deny_changes()
    if box.closed:
        deny_openings()


def _read(kind: str, wanted: list[str], outlet: Outlet) -> int:
    """Do what is asked of the file that is standard input."""
    try:
        form = _ORDERS.get(kind, Make)
        make = msgspec.json.decode(wanted[0], type=form) if wanted else None
        return _make(kind, make, sys.stdin.fileno(), outlet)
    except msgspec.MsgspecError as error:
        sys.stderr.write(f"an order that is none: {error}\n")
        return _WRONG_CALL
    except BadUpload as error:
        outlet.send(Refused(reason=str(error)))
    except MemoryError:
        outlet.send(Refused(reason="The file needs more memory than a file may take."))
    return 0


def _make(kind: str, make: Make | Film | Stretch | None, file: int, outlet: Outlet) -> int:
    match kind, make:
        case "probe", None:
            outlet.send(probe(file))
        case "video", Make():
            convert(file, make, outlet)
        case "film", Film():
            make_film(file, make, outlet)
        case "stretch", Stretch():
            make_stretch(file, make, outlet)
        case ("subtitles", None) | ("poster" | "still", Make()):
            for report in _found(kind, make, file):
                outlet.send(report)
        case _:
            return _WRONG_CALL
    return 0


def _found(kind: str, make: Make | None, file: int) -> Iterable[Report]:
    """Return what is found in a file besides what plays."""
    if make is None:
        return subtitles(file)
    if kind == "still":
        return stills(file, make)
    return covers(file) if make.ladder is None else posters(file, make)


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
