"""The source's own packets on their way into the top rung's segmenter.

An encoder may have used the segmenter before, up to a keyframe of the source. It is behind, and it
has a thread of its own, so the packets from that keyframe on wait until it is done.
"""

import threading
from collections import deque
from itertools import takewhile
from typing import Final

from media.hls.fmp4 import Sample
from transcode.engine.live.source import LiveSource
from transcode.engine.output.segment_grid import HOLE, Cut
from transcode.engine.output.segmenter import LiveSegmenter

# More than a part has.
_REMEMBERED: Final = 512


class OwnPackets:
    """Writes packets into `segmenter`, at once or after `free` is set by the encoder that uses it.

    All packets have the parameter sets of the first one's source, if not the same record around
    them.
    """

    def __init__(self, segmenter: LiveSegmenter, free: threading.Event | None = None) -> None:
        self._segmenter = segmenter
        self._free = free
        self._waiting: deque[tuple[LiveSource, Sample, Cut | None]] = deque()
        self._described = False
        self._newest: deque[int] = deque(maxlen=_REMEMBERED)  # when samples are shown

    def add(self, source: LiveSource, sample: Sample, cut: Cut | None) -> None:
        """Add the next packet of a source (see `LiveSegmenter.add`)."""
        if self._free is not None and not self._free.is_set():
            self._waiting.append((source, sample, cut))
            return
        self._write_waiting()
        self._write(source, sample, cut)

    def pause(self, at: int) -> int:
        """Send all samples, the last of which lasts as long as those before it.

        Those that are shown from `at` on are dropped if none of them was sent, and all others need
        none of them: they are ahead of some that have not come. Return by how much earlier the
        samples end without them.
        """
        self._write_waiting()
        shown = max(self._newest, default=at)
        count = sum(1 for _ in takewhile(lambda each: each >= at, reversed(self._newest)))
        kept = list(self._newest)[: len(self._newest) - count]
        if max(kept, default=0) < at and self._segmenter.take_back(count):
            self._newest = deque(kept, maxlen=_REMEMBERED)
        self._segmenter.pause()
        return shown - max(self._newest, default=shown)

    def stop(self, at: int, dts: int | None) -> None:
        """Send all samples, since the encoder makes what is shown from `at` on.

        The last sample lasts until `dts`, where the next picture is decoded, unless there is none
        soon. It waits until no encoder uses the segmenter.
        """
        self._write_waiting()
        if dts is not None and dts - at <= HOLE:
            self._segmenter.pause(dts)
        else:
            self._segmenter.pause(at, at)

    def end(self) -> int | None:
        """Close the last segment (see `LiveSegmenter.end`)."""
        self._write_waiting()
        return self._segmenter.end()

    def _write_waiting(self) -> None:
        if self._free is not None:
            self._free.wait()
            self._free = None
        while self._waiting:
            self._write(*self._waiting.popleft())

    def _write(self, source: LiveSource, sample: Sample, cut: Cut | None) -> None:
        if cut is not None and not self._described and (init := source.init_section) is not None:
            self._described = True
            self._segmenter.describe(*init, source.config)
        self._segmenter.add(sample, cut)
        self._newest.append(sample.pts)
