"""A whole file: looked at, what it brings along made first, then its pictures or their plan.

A file whose times cannot be relied on goes through the live engine's ladder, which expects such
(`transcode.engine.vod.live_fallback`).
"""

import os
import resource
import threading
import time
from typing import Final

import msgspec

from media.ticks import MILLISECONDS, ORIGIN_SECONDS, VIDEO_SCALE, rescale
from transcode.engine.core.memory import resident
from transcode.engine.core.reports import Outlet
from transcode.engine.input.container import BadUpload, opened
from transcode.engine.vod.live_fallback import convert
from transcode.engine.vod.remux import original
from transcode.engine.vod.span import Making
from transcode.engine.vod.survey import LEAP, survey
from transcode.protocol.file_messages import Film, Ready, Stretch, Surveyed
from transcode.protocol.messages import Finished, Make, Progress

__all__ = ["AHEAD", "make_film", "make_stretch"]

# By so much less does a film give way until it plays: its stretches, which other workers make
# meanwhile, can wait for that. Then it gives way as they do.
AHEAD: Final = 3
_PROGRESS_SECONDS: Final = 1.0
_BLANK: Final = "No picture of the file can be decoded: it is damaged or protected."


def make_film(descriptor: int, film: Film, outlet: Outlet) -> None:
    """Make of the file behind a descriptor what is made of it in one piece.

    Raises:
        BadUpload: nothing can be made of it.
    """
    with opened(descriptor) as upload:
        found = survey(upload, film)
    if found is None or found.wild:
        told = Surveyed(reason=found.wild) if found is not None else Surveyed()
        outlet.send(told)
        os.nice(AHEAD)
        if told.reason == LEAP:
            outlet.trouble("times leap")
        convert(descriptor, Make(ladder=film.ladder, reuse=film.reuse), outlet)
        return
    outlet.send(found.told())
    with opened(descriptor) as upload:
        outlet.send(Ready(names=original(upload, found, outlet)))
    os.nice(AHEAD)
    if len(found.stretches) == 1:
        alone = msgspec.structs.replace(found.stretches[0], threads=film.threads)
        make_stretch(descriptor, alone, outlet, alone=True)
    else:
        _finish(outlet, found.end, len(found.shown))


def make_stretch(descriptor: int, stretch: Stretch, outlet: Outlet, *, alone: bool = False) -> None:
    """Make a stretch of the file behind a descriptor; `alone` says that it is all of the film.

    Raises:
        BadUpload: nothing of the film can be decoded.
    """
    with opened(descriptor) as upload:
        making = Making(upload, stretch, outlet)
        telling = _Telling(making, stretch, outlet)
        telling.start()
        making.run()
        telling.tell()
    if making.is_blank and alone:
        raise BadUpload(_BLANK)
    _finish(outlet, stretch.end, making.made)


def _finish(outlet: Outlet, end: int, frames: int) -> None:
    outlet.flush_troubles()
    outlet.send(Finished(epoch=0, end=end, frames_in=frames, frames_out={}))


class _Telling(threading.Thread):
    """Says once a second how far the making is; falls silent where it gets nowhere."""

    def __init__(self, making: Making, stretch: Stretch, outlet: Outlet) -> None:
        super().__init__(name="progress", daemon=True)
        self._making = making
        self._stretch = stretch
        self._outlet = outlet

    def run(self) -> None:
        told = -1
        while True:
            time.sleep(_PROGRESS_SECONDS)
            self._outlet.flush_troubles()
            if self._making.made != told:
                told = self._making.made
                self.tell()

    def tell(self) -> None:
        """Say how far it is."""
        stretch, made = self._stretch, self._making.made
        whole = rescale(stretch.end - stretch.cuts[0], VIDEO_SCALE, MILLISECONDS)
        begun = rescale(stretch.cuts[0] - ORIGIN_SECONDS * VIDEO_SCALE, VIDEO_SCALE, MILLISECONDS)
        usage = resource.getrusage(resource.RUSAGE_SELF)
        self._outlet.send(
            Progress(
                epoch=0,
                taken=begun,
                made=whole * made // max(1, stretch.pictures),
                frames=made,
                cpu_ms=round((usage.ru_utime + usage.ru_stime) * 1000),
                memory_bytes=resident(),
                rung_cpu_ms=self._making.rung_cpu_ms,
            )
        )
