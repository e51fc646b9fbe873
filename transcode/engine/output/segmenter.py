"""One rendition's samples on their way into parts and segments.

A part is sent as soon as it is known to be whole, a segment when the next one's beginning is known.
Parts of a segment, joined, are the segment: nothing is kept but counts. Times come in ticks of the
track's own scale; reports speak ticks of 90 000 a second.
"""

from collections.abc import Callable
from typing import Final

from media.hls.fmp4 import Sample, fragment
from media.hls.segment import InitSection, Part, Segment
from media.ticks import VIDEO_SCALE, rescale
from transcode.engine.output.segment_grid import Cut
from transcode.protocol.messages import Report

__all__ = ["Track"]


# A part is sent on when it holds this much, however short it is: 0.5 s of 160 Mbit/s. A source
# whose times stand still would else make one that grows without end.
_MOST_BYTES: Final = 10 << 20


class _Open:
    """The segment that is being filled."""

    def __init__(self, cut: Cut, start: int, init: int, *, gap: bool = False) -> None:
        self.cut = cut
        self.start = start
        self.init = init
        self.gap = gap
        self.parts = 0
        self.size = 0
        self.frames = 0


class Track:
    """Cuts the samples of the rendition `name`; lives as long as the run, through its epochs.

    One thread at a time uses it. `init` is the number that its next init section gets. Decode times
    never repeat nor fall, whatever the source says and across epochs: they are moved up by the
    ticks that it takes, presentation times stay. `made` is how far the epoch's samples have been
    sent, in ticks of 90 000 a second; `cpu_ns` is what encoding has cost, told by who did it.
    """

    def __init__(
        self, name: str, scale: int, send: Callable[[Report], None], *, init: int = 0
    ) -> None:
        self.name = name
        self.scale = scale
        self.frames = 0
        self.made = 0
        self.cpu_ns = 0
        self._send = send
        self._next_init = init
        self._init = b""
        self._fragment = 0
        self._last_dts = -1
        self._open: _Open | None = None
        self._epoch = 0
        self._target = 0
        self._reset()

    def _reset(self) -> None:
        self._pending: Sample | None = None
        self._samples: list[Sample] = []
        self._length = self._bytes = 0
        self._step = self.scale // 30
        self._end = 0

    def begin(self, *, epoch: int, part: int) -> None:
        """Start an epoch; `part` is the length of a part in ticks of 90 000 a second."""
        self._epoch = epoch
        self._target = rescale(part, VIDEO_SCALE, self.scale)
        self.frames, self.made = 0, 0
        self._reset()

    def describe(self, codecs: str, data: bytes) -> None:
        """Send an init section, unless it is the one that the rendition has."""
        if data == self._init:
            return
        self._init = data
        number = self._next_init
        self._next_init += 1
        self._send(InitSection(rendition=self.name, number=number, codecs=codecs, data=data))

    def add(self, sample: Sample, cut: Cut | None = None) -> None:
        """Take the next sample in decode order; its duration is given by the one after it.

        `cut` says that it opens a segment, of which it must be the first picture in both orders.
        """
        dts = max(sample.dts, self._last_dts + 1)
        end: int | None = None
        if cut is not None and (cut.discontinuity or self._open is None):
            # Players place what begins here, or follows a discontinuity, by its first decode time.
            # Were that the time for reordering earlier than the picture, all of it, sound included,
            # would be played that much too late: hls.js stalls in the hole. The next ones in decode
            # order are crowded behind it until their own times are later.
            dts = max(dts, sample.pts)
            end = sample.pts
        self.settle(dts, end)
        if cut is not None:
            self._turn(cut, rescale(sample.pts, self.scale, VIDEO_SCALE))
        self._last_dts = dts
        self._pending = Sample(dts, sample.pts, 0, sample.key, sample.data)

    def settle(self, dts: int | None = None, end: int | None = None) -> None:
        """Give the last sample its duration: up to `dts`, or like its predecessor's.

        It is not shown beyond `end`: where a player would join what follows a discontinuity to it.
        """
        pending, self._pending = self._pending, None
        if pending is None:
            return
        if dts is not None:
            length = dts - pending.dts
            self._step = max(1, length if end is None else min(length, end - pending.pts))
        step = self._step
        size = len(pending.data)
        long = self._length + step > self._target or self._bytes + size > _MOST_BYTES
        if self._samples and long:
            self._flush()
        self._bytes += size
        self._samples.append(Sample(pending.dts, pending.pts, step, pending.key, pending.data))
        self._length += step
        self._end = max(self._end, pending.pts + step)
        # The next one will be about as long: waiting for it would cost a frame's time.
        if self._length + step > self._target:
            self._flush()

    def pause(self, dts: int, end: int | None = None) -> None:
        """Send all that is there, up to `dts`; the segment stays open for the next cut.

        The last sample is not shown beyond `end`.
        """
        self.settle(dts, end)
        self._flush()

    @property
    def missing(self) -> bool:
        """Whether the rendition has nothing in the segment that is open: it is a gap."""
        return self._open is not None and self._open.gap

    def gap(self, cut: Cut, start: int) -> None:
        """Open a segment without media at `start`, which is in ticks of 90 000 a second."""
        self.settle()
        self._flush()
        self._close(start)
        # The number is of use to nobody, but there must be one: the newest is the likeliest.
        self._open = _Open(cut, start, max(0, self._next_init - 1), gap=True)

    def give_up(self) -> None:
        """Turn the segment that is open into a gap: what was sent of it counts for nothing."""
        self._pending, self._samples = None, []
        self._length = self._bytes = 0
        if self._open is not None and not self._open.gap:
            self.frames -= self._open.frames
            self._open = _Open(
                self._open.cut, self._open.start, max(0, self._next_init - 1), gap=True
            )

    def end(self, at: int = 0) -> int | None:
        """Close the epoch's last segment; return where it ends, None where there was none.

        Where that is a gap it ends `at` ticks of 90 000 a second, with the other renditions.
        """
        self.settle()
        self._flush()
        if self._open is None:
            return None
        end = max(at, self._open.start)
        if not self._open.gap:
            end = rescale(self._end, self.scale, VIDEO_SCALE)
        self._close(end)
        self._open = None
        return end

    def _turn(self, cut: Cut, start: int) -> None:
        self._flush()
        self._close(start)
        self._open = _Open(cut, start, self._next_init - 1)

    def _close(self, end: int) -> None:
        done = self._open
        if done is None:
            return
        self._send(
            Segment(
                rendition=self.name,
                sequence=done.cut.sequence,
                epoch=self._epoch,
                start=done.start,
                duration=max(0, end - done.start),
                size=done.size,
                frames=done.frames,
                parts=done.parts,
                init=done.init,
                discontinuity=done.cut.discontinuity,
                gap=done.gap,
            )
        )
        self.made = max(self.made, end)

    def _flush(self) -> None:
        samples, self._samples = self._samples, []
        length, self._length = self._length, 0
        self._bytes = 0
        if not samples or self._open is None:
            return
        data = fragment(samples, number=self._fragment + 1)
        self._fragment += 1
        into = self._open
        self._send(
            Part(
                rendition=self.name,
                sequence=into.cut.sequence,
                index=into.parts,
                duration=rescale(length, self.scale, VIDEO_SCALE),
                independent=samples[0].key,
                data=data,
            )
        )
        into.parts += 1
        into.size += len(data)
        into.frames += len(samples)
        self.frames += len(samples)
        self.made = rescale(self._end, self.scale, VIDEO_SCALE)
