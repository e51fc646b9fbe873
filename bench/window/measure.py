"""Measures one window in this process: `python -m bench.window.measure SECONDS STEPS`.

The costs are those of the event loop's thread, which serves all other requests, too; the work of
the disk's threads is not included. It prints one line of JSON.
"""

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import uvloop

from bench.window.stored import (
    HASH,
    NAMES,
    NOON_US,
    RENDITIONS,
    RUN,
    STEP_TICKS,
    PutCountingDisk,
    store,
)
from delivery.edge.base import CachedPlaylist
from delivery.edge.memory import MemoryEdge
from delivery.run.publication import Publication
from delivery.run.run_state import LiveWindow
from media.hls.segment import InitSection, Part
from storage.objects.addresses import live_playlist
from tests.support.storage.engine_reports import ReportMaker

_PARTS = 4  # of each segment: 0.5 s
_CODECS = dict.fromkeys(NAMES, "avc1.64001F") | {NAMES[-1]: "mp4a.40.2"}


class WindowFigures(msgspec.Struct):
    """What was measured; times are milliseconds of CPU on the loop, those of `resume` seconds."""

    window: int  # steps
    resume: float = 0
    resume_cpu: float = 0
    memory_mb: float = 0
    steps: int = 0
    step: float = 0  # the run alone
    viewers: float = 0  # per step: a delta update for each rendition and part, gzipped
    written: float = 0  # bytes per step that are no media
    puts: float = 0  # objects written per step
    delta_bytes: int = 0
    full: float = 0
    full_bytes: int = 0
    full_gzipped: int = 0


class _Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def _rss_mb() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def _answer(playlist: CachedPlaylist | None) -> CachedPlaylist:
    """Do what the first answer to a request for a new playlist costs."""
    assert playlist is not None
    _ = playlist.tag, playlist.compressed
    return playlist


async def _measured(folder: Path, seconds: int, steps: int) -> WindowFigures:
    objects, edge, clock = PutCountingDisk(folder), MemoryEdge(), _Clock()
    figures = WindowFigures(window=seconds // 2, steps=steps)
    await store(objects, figures.window)
    window = LiveWindow().reaching_back(seconds)
    before, began, busy = _rss_mb(), time.perf_counter(), time.process_time()
    run = await Publication.resume(
        objects, edge, hash=HASH, now_us=NOON_US, window=window, within_seconds=60, clock=clock
    )
    assert run is not None
    figures.resume = time.perf_counter() - began
    figures.resume_cpu = time.process_time() - busy
    figures.memory_mb = _rss_mb() - before
    await run.prepare(1, RENDITIONS, NOON_US)
    for name in NAMES:
        await run.append(InitSection(rendition=name, number=1, codecs=_CODECS[name], data=b"init"))
    await run.store_pending()
    maker = ReportMaker.continuing(run, salt="")
    maker.epoch = 1

    def listed(name: str, *, skip: bool) -> CachedPlaylist | None:
        return edge.local_playlist(live_playlist(HASH, RUN, name), low_latency=True, skip=skip)

    # In the first half steps begin to leave the disk, a kept window after they left the playlists.
    for number in range(2 * steps):
        clock.now += 2 * window.kept_seconds / steps
        if number == steps:
            objects.puts, objects.written = 0, 0
            figures.step, figures.viewers = 0.0, 0.0
        for report in maker.step(part=STEP_TICKS // _PARTS):
            began = time.thread_time()
            await run.append(report)
            figures.step += time.thread_time() - began
            if isinstance(report, Part):
                began = time.thread_time()
                _answer(listed(report.rendition, skip=True))
                figures.viewers += time.thread_time() - began
        began = time.thread_time()
        await run.store_pending()
        figures.step += time.thread_time() - began
    figures.step *= 1000 / steps
    figures.viewers *= 1000 / steps
    figures.written = objects.written / steps
    figures.puts = objects.puts / steps
    figures.delta_bytes = len(_answer(listed(NAMES[0], skip=True)).compressed)
    began = time.thread_time()
    full = _answer(listed(NAMES[0], skip=False))
    figures.full = 1000 * (time.thread_time() - began)
    figures.full_bytes, figures.full_gzipped = len(full.body), len(full.compressed)
    objects.close()
    return figures


def main() -> None:
    """Measure the window that the command line names."""
    seconds, steps = map(int, sys.argv[1:])
    with (
        tempfile.TemporaryDirectory() as folder,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        figures = runner.run(_measured(Path(folder), seconds, steps))
    print(json.dumps(msgspec.to_builtins(figures)))


if __name__ == "__main__":
    main()
