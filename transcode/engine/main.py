"""The engine's process: sandboxed, orders on standard input, reports on standard output.

    python -m transcode.engine live [LABEL]      LABEL is for the process list only
    python -m transcode.engine watch [LABEL]     compare the encoders of one stream
    python -m transcode.engine probe             describe the file on standard input
    python -m transcode.engine video ORDER       its renditions, by the live engine's ladder
    python -m transcode.engine asset ORDER       survey it; make what is made in one piece
    python -m transcode.engine span ORDER        make some segments of its renditions
    python -m transcode.engine poster ORDER      its posters and previews
    python -m transcode.engine previews ORDER    previews and poster of keyframes on standard input
    python -m transcode.engine subtitles         its subtitles
    python -m transcode.engine still ORDER       posters of a picture on standard input

ORDER is JSON. The exit status is 0 when the input ends, 1 for an internal failure, 2 for a wrong
call or invalid orders. A bad file is reported, and is no failure of the engine.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import av.logging
import msgspec

from transcode.engine.core.reports import ReportWriter
from transcode.engine.images.cover_art import make_covers
from transcode.engine.images.poster import make_posters
from transcode.engine.images.recording_previews import make_previews
from transcode.engine.images.still import make_stills
from transcode.engine.images.subtitles import read_subtitles
from transcode.engine.input.container import BadUpload
from transcode.engine.input.probe import probe
from transcode.engine.live.session import LiveSession
from transcode.engine.vod.asset import NICE_ADVANTAGE, make_asset, make_span
from transcode.engine.vod.live_fallback import convert
from transcode.protocol.file_messages import AssetOrder, PreviewOrder, SpanOrder
from transcode.protocol.messages import (
    EngineOrder,
    EngineReport,
    FileOrder,
    Refused,
    WireError,
    WireReader,
)
from transcode.protocol.watch_messages import WatchOrder
from transcode.sandbox.landlock import hide_files
from transcode.sandbox.rlimits import SandboxError, die_with_parent, limit_cpu, set_limits
from transcode.sandbox.seccomp import deny_changes, deny_network, deny_openings

if TYPE_CHECKING:
    from transcode.engine.watch.session import WatchSession

M = TypeVar("M")
_READ_BYTES: Final = 1 << 18
# A 2160p60 source with all six rungs encoded takes 1.7 GB of data; a hostile one tries for more.
_MEMORY_BYTES: Final = 3 << 30
# Answering viewers comes before making the next segment if a machine is too small for both.
_NICE: Final = 5
_FILE_NICE: Final = 10  # files can wait, live streams cannot
# A file without an index is read to its end: half a second of processor time for 100 MB of MPEG-TS.
_BYTES_PER_CPU_SECOND: Final = 50_000_000
_FAILED, _WRONG_CALL = 1, 2
# The colour lookup tables are read when a file needs them, and nothing else is.
_READABLE: Final = tuple((Path(__file__).parent / "codec").glob("*.cube"))


class _Sandbox(msgspec.Struct, frozen=True, kw_only=True):
    """The limits for a kind of engine.

    `cpu_seconds` is for a small file; a large one may take longer (see `_enter_sandbox`). Where it
    is None, the engine is live, or limits itself by what the file declares. `closed` forbids
    opening files for reading, even if the kernel cannot hide them.
    """

    memory_bytes: int = _MEMORY_BYTES
    cpu_seconds: int | None = None
    nice: int = _NICE
    closed: bool = False

    @property
    def batch(self) -> bool:
        """True if it must not preempt a process that wakes up."""
        return self.nice > _NICE


SANDBOXES: Final = {
    "live": _Sandbox(),
    # It decodes half a minute of sound at once, which takes a few MiB, and pictures of two sources:
    # with 1080p it has 130 MB, and a decoder of 4K holds 16 pictures of 12 MB at most.
    "watch": _Sandbox(memory_bytes=768 << 20, closed=True),
    # A file of a few kilobytes can declare a picture of gigabytes; a real one of 8192 x 4320 with
    # the frames that its decoder holds takes 600 MB.
    "probe": _Sandbox(memory_bytes=1 << 30, cpu_seconds=20, nice=_FILE_NICE, closed=True),
    # Not closed: the colour lookup tables are read when a file needs them.
    "video": _Sandbox(nice=_FILE_NICE),
    "asset": _Sandbox(nice=_FILE_NICE - NICE_ADVANTAGE),
    "span": _Sandbox(nice=_FILE_NICE),
    "poster": _Sandbox(memory_bytes=1 << 30, cpu_seconds=60, nice=_FILE_NICE),
    "previews": _Sandbox(memory_bytes=1 << 30, cpu_seconds=60, nice=_FILE_NICE),
    # A long file must be read whole if its container has no index of its subtitles.
    "subtitles": _Sandbox(memory_bytes=1 << 30, cpu_seconds=60, nice=_FILE_NICE, closed=True),
    "still": _Sandbox(memory_bytes=1 << 30, cpu_seconds=20, nice=_FILE_NICE, closed=True),
}


_ORDERS: Final[dict[str, type[AssetOrder | SpanOrder | PreviewOrder]]] = {
    "asset": AssetOrder,
    "span": SpanOrder,
    "previews": PreviewOrder,
}


def main(arguments: list[str]) -> int:
    """Run the engine that `arguments` name; return the exit status."""
    kind = arguments[0] if arguments else ""
    if kind not in SANDBOXES:
        sys.stderr.write(f"usage: python -m transcode.engine {'|'.join(SANDBOXES)} [LABEL|ORDER]\n")
        return _WRONG_CALL
    # It imports numpy, which reads files and allocates what the sandbox would count.
    watch = _watch_session() if kind == "watch" else None
    try:
        _enter_sandbox(SANDBOXES[kind], os.fstat(sys.stdin.fileno()).st_size)
    except SandboxError as error:
        sys.stderr.write(f"the engine cannot enter its sandbox: {error}\n")
        return _FAILED
    # Signals that end a service reach all its processes; this one ends when its parent closes it.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    threading.excepthook = _end_after_failure
    # Anything that prints goes to standard error: the original output is for reports alone.
    descriptor = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    # The library's log about damaged media would flood it; its errors come as exceptions.
    av.logging.set_level(None)
    try:
        reports = ReportWriter(descriptor)
        if watch is not None:
            return _watch(watch, reports)
        return _live(reports) if kind == "live" else _read(kind, arguments[1:], reports)
    except BrokenPipeError:
        return _FAILED


def _enter_sandbox(limits: _Sandbox, input_bytes: int) -> None:
    """Enter the sandbox; `input_bytes` is the size of the file to work on, 0 for a pipe."""
    cpu_seconds = limits.cpu_seconds
    if cpu_seconds is not None:
        cpu_seconds += input_bytes // _BYTES_PER_CPU_SECOND
    die_with_parent()
    set_limits(
        memory_bytes=limits.memory_bytes,
        cpu_seconds=cpu_seconds,
        nice=limits.nice,
        batch=limits.batch,
    )
    hide_files(_READABLE)
    deny_network()
    deny_changes()
    if limits.closed:
        deny_openings()


def _read(kind: str, orders: list[str], reports: ReportWriter) -> int:
    """Carry out an order for the file on standard input."""
    try:
        order_type = _ORDERS.get(kind, FileOrder)
        make = msgspec.json.decode(orders[0], type=order_type) if orders else None
        return _make(kind, make, sys.stdin.fileno(), reports)
    except (msgspec.MsgspecError, WireError) as error:
        sys.stderr.write(f"invalid order: {error}\n")
        return _WRONG_CALL
    except BadUpload as error:
        reports.send(Refused(reason=str(error)))
    except MemoryError:
        reports.send(Refused(reason="The file needs more memory than a file may take."))
    return 0


def _make(
    kind: str,
    make: FileOrder | AssetOrder | SpanOrder | PreviewOrder | None,
    file: int,
    reports: ReportWriter,
) -> int:
    made: Iterable[EngineReport] = ()
    match kind, make:
        case "probe", None:
            made = (probe(file, reports),)
        case "video", FileOrder():
            convert(file, make, reports)
        case "asset", AssetOrder():
            make_asset(file, make, reports, limit_cpu=limit_cpu)
        case "span", SpanOrder():
            make_span(file, make, reports, limit_cpu=limit_cpu)
        case "previews", PreviewOrder():
            made = make_previews(file, make)
        case "poster", FileOrder():
            audio_only = make.ladder is None
            made = make_covers(file, reports) if audio_only else make_posters(file, make, reports)
        case "still", FileOrder():
            made = make_stills(file, make)
        case "subtitles", None:
            made = read_subtitles(file, reports)
        case _:
            return _WRONG_CALL
    for report in made:
        reports.send(report)
    return 0


def _live(reports: ReportWriter) -> int:
    live = LiveSession(reports)
    status = _obey(WireReader[EngineOrder](EngineOrder), live.handle)
    if status == 0:
        live.close()
    return status


def _watch_session() -> "WatchSession":
    # Its libraries start a thread for each core, which no comparison needs.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    from transcode.engine.watch.session import WatchSession  # noqa: PLC0415 # see above

    return WatchSession()


def _watch(watch: "WatchSession", reports: ReportWriter) -> int:
    def handle(order: WatchOrder) -> None:
        answer = watch.handle(order)
        if answer is not None:
            reports.send(answer)

    return _obey(WireReader[WatchOrder](WatchOrder), handle)


def _obey(reader: WireReader[M], handle: Callable[[M], None]) -> int:
    """Carry out the orders on standard input; return the exit status."""
    source = sys.stdin.fileno()
    try:
        while data := os.read(source, _READ_BYTES):
            for order in reader.feed(data):
                handle(order)
    except WireError as error:
        sys.stderr.write(f"invalid orders: {error}\n")
        return _WRONG_CALL
    return 0


def _end_after_failure(broken: threading.ExceptHookArgs) -> None:
    """End the engine: without one of its stages the others would wait forever."""
    if not isinstance(broken.exc_value, BrokenPipeError):
        threading.__excepthook__(broken)
        sys.stderr.flush()
    os._exit(_FAILED)
