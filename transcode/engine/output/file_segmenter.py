"""A rendition of a file on its way into segments, where it is known before where they begin.

As `cut.Track` does for a run, but without its haste: a segment goes out in one part where that is
not too large for the pipe, and every sample comes with its duration.
"""

from collections.abc import Callable, Sequence
from typing import Final

from media.hls.fmp4 import Sample, fragment
from media.hls.segment import InitSection, Part, Segment
from media.ticks import VIDEO_SCALE, rescale
from transcode.protocol.messages import Report

__all__ = ["Pieces"]

_MOST_BYTES: Final = 10 << 20  # of a part: bounds what waits here, and a frame on the pipe


class Pieces:
    """Puts samples into the segments from number `sequence` on; the last one ends at `end`.

    `end` is in ticks of 90 000 a second; samples are in ticks of `scale`.
    """

    def __init__(
        self,
        name: str,
        *,
        sequence: int,
        end: int,
        send: Callable[[Report], None],
        scale: int = VIDEO_SCALE,
    ) -> None:
        self.name = name
        self._next = sequence
        self._ends = end
        self._send = send
        self._scale = scale
        self._start: int | None = None
        self._samples: list[Sample] = []
        self._bytes = 0
        self._chunks = 0
        self._parts = self._size = self._frames = 0

    def describe(self, codecs: str, data: bytes) -> None:
        """Send the init section."""
        self._send(InitSection(rendition=self.name, number=0, codecs=codecs, data=data))

    def add(self, sample: Sample, *, opens: bool) -> None:
        """Take the next sample in decode order; `opens` says that a segment begins with it."""
        if opens:
            start = rescale(sample.pts, self._scale, VIDEO_SCALE)
            self._finish(start)
            self._start = start
        elif self._bytes + len(sample.data) > _MOST_BYTES:
            self._flush()
        self._samples.append(sample)
        self._bytes += len(sample.data)

    def close(self) -> None:
        """Send what is left: no sample follows."""
        self._finish(self._ends)

    def _finish(self, end: int) -> None:
        if self._start is None:
            return
        self._flush()
        self._send(
            Segment(
                rendition=self.name,
                sequence=self._next,
                epoch=0,
                start=self._start,
                duration=max(0, end - self._start),
                size=self._size,
                frames=self._frames,
                parts=self._parts,
                init=0,
                discontinuity=False,
            )
        )
        self._next += 1
        self._parts = self._size = self._frames = 0

    def _flush(self) -> None:
        samples, self._samples, self._bytes = self._samples, [], 0
        for run in _runs(samples):
            self._chunks += 1
            data = fragment(run, number=self._chunks)
            self._send(
                Part(
                    rendition=self.name,
                    sequence=self._next,
                    index=self._parts,
                    duration=rescale(sum(each.duration for each in run), self._scale, VIDEO_SCALE),
                    independent=run[0].key,
                    data=data,
                )
            )
            self._parts += 1
            self._size += len(data)
            self._frames += len(run)


def _runs(samples: Sequence[Sample]) -> list[list[Sample]]:
    """Part samples where one does not follow its predecessor: a chunk has no gaps."""
    found: list[list[Sample]] = []
    for sample in samples:
        if found and found[-1][-1].dts + found[-1][-1].duration == sample.dts:
            found[-1].append(sample)
        else:
            found.append([sample])
    return found
