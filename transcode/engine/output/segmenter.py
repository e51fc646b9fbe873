"""Segmenters: the encoded samples of one rendition in, parts and segments out.

`LiveSegmenter` sends a part with its last sample (see `part_lengths`); it derives the duration of a
sample from the decode time of the next one. `FileSegmenter` gets samples with durations and sends a
segment in one part, unless that is too large for the pipe. Both announce a segment before its first
part, and report it when the start of the next one is known. The parts of a segment, joined, are the
segment, so no media are kept. Sample times are ticks of the rendition's own scale; reports use
90 000 ticks a second.
"""

from collections.abc import Callable, Sequence
from typing import Final

from media.codecs.avc import AvcConfig
from media.codecs.parameter_sets import ParameterSets
from media.hls.fmp4 import Sample, fragment
from media.hls.segment import GapStart, InitSection, Part, Segment, SegmentStart
from media.ticks import VIDEO_SCALE, rescale
from transcode.engine.output.part_lengths import PartLengths
from transcode.engine.output.segment_grid import Cut
from transcode.protocol.messages import EngineReport

# The size at which a part is sent, however short it is: 0.5 s of 160 Mbit/s. It bounds the memory
# that a source with constant timestamps can use, and the size of a frame on the pipe.
_MOST_BYTES: Final = 10 << 20


class _OpenSegment:
    """The segment that is being filled; `start` is in ticks of 90 000 a second."""

    def __init__(self, cut: Cut, start: int, init: int, *, gap: bool = False) -> None:
        self.cut = cut
        self.start = start
        self.init = init
        self.gap = gap
        self.parts = 0
        self.size = 0
        self.frames = 0


class Segmenter:
    """Sends the parts and segments of the rendition `name`; subclasses decide when.

    One thread at a time uses it. `init` is the number of the next init section. `frames` counts the
    samples sent, and `made` is how far they reach, in ticks of 90 000 a second. `cpu_ns` is the CPU
    time that encoding took; the encoder adds to it.
    """

    def __init__(
        self, name: str, scale: int, send: Callable[[EngineReport], None], *, init: int = 0
    ) -> None:
        self.name = name
        self.scale = scale
        self.frames = 0
        self.made = 0
        self.cpu_ns = 0
        self._send = send
        self._next_init = init
        self._init = b""
        self._sets: ParameterSets | None = None  # of H.264
        self._epoch = 0
        self._fragment = 0
        self._segment: _OpenSegment | None = None
        self._samples: list[Sample] = []
        self._bytes = 0

    def describe(self, codecs: str, data: bytes, config: AvcConfig | None = None) -> None:
        """Send an init section, unless it equals the rendition's current one.

        `config` is what it contains if the rendition is H.264. From here on keyframes get the
        parameter sets in band, too.
        """
        self._sets = ParameterSets(config) if config is not None else None
        if data == self._init:
            return
        self._init = data
        number = self._next_init
        self._next_init += 1
        self._send(InitSection(rendition=self.name, number=number, codecs=codecs, data=data))

    def add(self, sample: Sample, cut: Cut | None = None) -> None:
        """Add the next sample in decode order.

        If there is a `cut`, the sample opens its segment; it must be the first of that segment in
        decode order and in presentation order.
        """
        if self._sets is not None and sample.key:
            data = self._sets.complete(sample.data)
            sample = Sample(sample.dts, sample.pts, sample.duration, sample.key, data)
        self._add(sample, cut)

    def _add(self, sample: Sample, cut: Cut | None) -> None:
        """Take the next sample as it is to be written."""
        raise NotImplementedError

    @property
    def is_gap(self) -> bool:
        """True if the open segment is a gap: the rendition has no media in it."""
        return self._segment is not None and self._segment.gap

    def gap(self, cut: Cut, start: int) -> None:
        """Open a segment without media at `start`, in ticks of 90 000 a second."""
        self._flush()
        self._close(start, follows=False)
        self._open(cut, start, gap=True)

    def discard(self) -> None:
        """Turn the open segment into a gap, whatever parts of it were sent."""
        self._samples, self._bytes = [], 0
        segment = self._segment
        if segment is not None and not segment.gap:
            self.frames -= segment.frames
            self._open(segment.cut, segment.start, gap=True)

    def end(self, at: int = 0) -> int | None:
        """Close the last segment; return where it ends, or None if there is none.

        If it is a gap it ends at `at`, in ticks of 90 000 a second, with the other renditions.
        """
        raise NotImplementedError

    def _open(self, cut: Cut, start: int, *, gap: bool = False) -> None:
        # A gap needs no init section, but the format needs a number: the newest is most likely
        # right.
        self._segment = _OpenSegment(cut, start, max(0, self._next_init - 1), gap=gap)

    def _close(self, end: int, *, follows: bool) -> None:
        """Report the open segment; `follows`: another one continues it without a break."""
        segment = self._segment
        if segment is None:
            return
        self._send(
            Segment(
                rendition=self.name,
                sequence=segment.cut.sequence,
                epoch=self._epoch,
                start=segment.start,
                duration=max(0, end - segment.start),
                size=segment.size,
                frames=segment.frames,
                parts=segment.parts,
                init=segment.init,
                discontinuity=segment.cut.discontinuity,
                gap=segment.gap,
                followed=follows,
            )
        )
        self.made = max(self.made, end)

    def _flush(self) -> None:
        """Send the waiting samples."""
        raise NotImplementedError

    def _send_start(self, segment: _OpenSegment) -> None:
        self._send(
            SegmentStart(
                rendition=self.name,
                sequence=segment.cut.sequence,
                epoch=self._epoch,
                start=segment.start,
                init=segment.init,
                discontinuity=segment.cut.discontinuity,
            )
        )

    def _send_part(self, segment: _OpenSegment, samples: list[Sample], length: int) -> None:
        """Send samples as a part of `length` ticks of 90 000 a second."""
        if not segment.parts:
            self._send_start(segment)
        self._fragment += 1
        data = fragment(samples, number=self._fragment)
        self._send(
            Part(
                rendition=self.name,
                sequence=segment.cut.sequence,
                index=segment.parts,
                duration=length,
                independent=samples[0].key,
                data=data,
            )
        )
        segment.parts += 1
        segment.size += len(data)
        segment.frames += len(samples)
        self.frames += len(samples)


class _MovedOpening:
    """The beginning of a segment whose first sample is decoded at `moved` instead of `own`.

    The samples that should be decoded before the one after it share the time up to that one, so
    that no picture lasts for a tick only.
    """

    def __init__(self, own: int, moved: int) -> None:
        self._own = own
        self._moved = moved
        self._step: int | None = None  # between the first two samples

    def place(self, dts: int) -> int:
        """Return when a sample is decoded whose own decode time is `dts`."""
        since, lead = dts - self._own, self._moved - self._own
        if self._step is None:
            self._step = max(since, 1)
        if since >= lead + self._step:
            return dts
        return self._moved + since * self._step // (lead + self._step)


class LiveSegmenter(Segmenter):
    """Segments a live rendition; it lives as long as the run, through all of its epochs.

    Decode times never repeat or fall, whatever the source sends and across epochs: they are moved
    up where necessary, and presentation times stay. After a beginning, the pictures that were moved
    up share the time up to the first one that is decoded at its own time.

    A part is sent with its last sample, whose duration is then the least that is expected. If the
    next sample comes later than that, its decode time is moved back to that end: browsers discard
    all pictures up to the next keyframe where two decode times are further apart than twice the
    first one's duration (Media Source Extensions, coded frame processing, step 6). `frames` and
    `made` count within the epoch.
    """

    def __init__(
        self, name: str, scale: int, send: Callable[[EngineReport], None], *, init: int = 0
    ) -> None:
        super().__init__(name, scale, send, init=init)
        self._last_dts = -1
        self._reset(0)

    def _reset(self, part: int) -> None:
        self._lengths = PartLengths(self.scale, part)
        self._samples = []
        self._bytes = 0
        self._end = 0
        self._opened: _MovedOpening | None = None
        self._first = 0  # the first waiting sample's decode time, before it was moved back
        self._sent_end = 0  # where the last sample of the newest part ends
        self._sent_dts = self._last_dts  # when it is decoded, before it was moved back
        self._sent_shown = 0  # where its pictures end

    def begin(self, *, epoch: int, part: int) -> None:
        """Start an epoch; `part` is its part target in ticks of 90 000 a second."""
        self._epoch = epoch
        self.frames, self.made = 0, 0
        self._reset(part)

    def _add(self, sample: Sample, cut: Cut | None) -> None:
        """Take the next sample in decode order; its own duration is ignored."""
        dts = self._place(sample, cut)
        end: int | None = None
        follows = self._segment is not None and not self._segment.gap
        if cut is not None and (cut.discontinuity or self._segment is None):
            follows = False
            # Players place the first segment, and one after a discontinuity, by its first decode
            # time. If that were earlier than the picture, to leave time for reordering, everything
            # including the sound would be played that much too late, and hls.js would stall in the
            # hole. The samples that follow are moved up until their own decode times are later.
            dts = max(sample.dts, self._last_dts + 1, sample.pts)
            self._opened = _MovedOpening(sample.dts, dts)
            end = sample.pts
        self._settle(dts, end)
        if cut is not None:
            start = rescale(sample.pts, self.scale, VIDEO_SCALE)
            self._flush()
            self._close(start, follows=not cut.discontinuity)
            self._open(cut, start)
            self._lengths.begin_segment(dts, self._expected_end(sample, cut))
        elif self._bytes + len(sample.data) > _MOST_BYTES:
            self._flush()
        elif self._samples and self._lengths.is_full(dts):
            part_end = self._lengths.end_before(dts)
            self._settle(part_end)
            self._send_samples(part_end, last=False)
        self._last_dts = decoded = dts
        if not self._samples:
            self._first = dts
            self._lengths.begin_part(dts)
            if follows:
                decoded = min(dts, self._sent_end)
        self._lengths.measure(sample.dts, opens=cut is not None)
        self._bytes += len(sample.data)
        self._samples.append(Sample(decoded, sample.pts, 0, sample.key, sample.data))
        next_dts = max(sample.dts + self._lengths.expected, dts + 1)  # unless `dts` was moved up
        if self._lengths.is_full(next_dts):
            part_end = self._lengths.end_before(next_dts)
            self._settle(min(part_end, max(sample.dts + self._lengths.shortest, dts + 1)))
            self._send_samples(part_end, last=False)

    def _place(self, sample: Sample, cut: Cut | None) -> int:
        """Return when a sample is decoded: at its own time if possible, no later than it is shown.

        What has another init section than the segment before it may be meant to be decoded earlier.
        """
        own = sample.dts
        if self._opened is not None:
            own = min(self._opened.place(own), max(own, sample.pts))
        dts = max(own, self._last_dts + 1)
        segment = self._segment
        if cut is None or segment is None or segment.gap or segment.init == self._next_init - 1:
            return dts
        dts = max(dts, min(self._last_dts + self._lengths.expected, sample.pts))
        self._opened = _MovedOpening(sample.dts, dts)
        return dts

    def _expected_end(self, first: Sample, cut: Cut) -> int:
        """Return the decode time at which the segment of a cut is expected to end; 0: unknown."""
        if not cut.expected:
            return 0
        end = rescale(cut.at + cut.expected, VIDEO_SCALE, self.scale)
        return end - (first.pts - first.dts)

    def take_back(self, count: int) -> bool:
        """Drop the newest samples, if none of them was sent; return whether that was so.

        A segment keeps its first one.
        """
        segment, kept = self._segment, self._samples
        least = 0 if segment is not None and segment.parts else 1
        is_possible = len(kept) - count >= least
        if is_possible and count:
            self._bytes -= sum(len(each.data) for each in kept[-count:])
            del kept[-count:]
            decoded = [self._first, *(each.dts for each in kept[1:])] if kept else [self._sent_dts]
            self._last_dts = decoded[-1]
            self._end = max([self._sent_shown, *(each.pts + each.duration for each in kept[:-1])])
        return is_possible

    def pause(self, dts: int | None = None, end: int | None = None) -> None:
        """Send all samples, the last of which lasts until `dts`, or as expected.

        The segment stays open.

        The last sample is not shown beyond `end`.
        """
        self._settle(dts, end)
        self._flush()

    def gap(self, cut: Cut, start: int) -> None:
        """Open a segment without media at `start`, in ticks of 90 000 a second."""
        self._settle()
        self._lengths.interrupt()
        super().gap(cut, start)
        self._send(GapStart(rendition=self.name, sequence=cut.sequence))

    def discard(self) -> None:
        """Turn the open segment into a gap, whatever parts of it were sent."""
        segment = self._segment
        super().discard()
        if segment is not None and not segment.gap:
            self._send(GapStart(rendition=self.name, sequence=segment.cut.sequence))

    def end(self, at: int = 0) -> int | None:
        """Close the epoch's last segment; return where it ends, or None if there is none.

        If it is a gap it ends at `at`, in ticks of 90 000 a second, with the other renditions.
        """
        self._settle()
        self._flush()
        segment = self._segment
        if segment is None:
            return None
        end = max(at, segment.start)
        if not segment.gap:
            end = rescale(self._end, self.scale, VIDEO_SCALE)
        self._close(end, follows=False)
        self._segment = None
        return end

    def _settle(self, dts: int | None = None, end: int | None = None) -> None:
        """Set the last sample's duration: up to `dts`, or as expected.

        It is not shown beyond `end`, where a player would join it to what follows a discontinuity.
        """
        if not self._samples:
            return
        last = self._samples[-1]
        most = None if end is None else end - last.pts
        length = self._lengths.expected if dts is None else dts - self._last_dts
        moved = self._last_dts - last.dts
        step = _at_most(length + moved, most)
        self._samples[-1] = Sample(last.dts, last.pts, step, last.key, last.data)
        self._end = max(self._end, last.pts + _at_most(length, most))

    def _flush(self) -> None:
        """Send the waiting samples as the last part of their segment."""
        if self._samples:
            self._send_samples(self._samples[-1].dts + self._samples[-1].duration, last=True)

    def _send_samples(self, end: int, *, last: bool) -> None:
        """Send the waiting samples as a part, which lasts until the decode time `end`."""
        samples, self._samples, self._bytes = self._samples, [], 0
        self._sent_end = samples[-1].dts + samples[-1].duration
        self._sent_dts, self._sent_shown = self._last_dts, self._end
        if self._segment is not None:
            length = self._lengths.end_part(self._first, end, last=last)
            self._send_part(self._segment, samples, length)
            self.made = rescale(self._end, self.scale, VIDEO_SCALE)


class FileSegmenter(Segmenter):
    """Segments a rendition of a file.

    The last segment ends at `end` (90 000 ticks a second), or if that is None, with the sample that
    is shown last.
    """

    def __init__(
        self,
        name: str,
        *,
        end: int | None,
        send: Callable[[EngineReport], None],
        scale: int = VIDEO_SCALE,
    ) -> None:
        super().__init__(name, scale, send)
        self._last_end = end
        self._last_shown = (0, 0)  # a sample's presentation time and duration

    def _add(self, sample: Sample, cut: Cut | None) -> None:
        """Take the next sample in decode order, which has its duration."""
        self._last_shown = max(self._last_shown, (sample.pts, sample.duration))
        if cut is not None:
            start = rescale(sample.pts, self.scale, VIDEO_SCALE)
            if self._segment is not None:
                self._flush()
                self._close(start, follows=not cut.discontinuity)
            self._open(cut, start)
        elif self._bytes + len(sample.data) > _MOST_BYTES:
            self._flush()
        self._samples.append(sample)
        self._bytes += len(sample.data)

    def end(self, at: int = 0) -> int | None:
        """Close the last segment; return where it ends, or None if there is none."""
        del at  # known from the beginning
        if self._segment is None:
            return None
        self._flush()
        shown_until = rescale(sum(self._last_shown), self.scale, VIDEO_SCALE)
        end = shown_until if self._last_end is None else self._last_end
        self._close(end, follows=False)
        self._segment = None
        return end

    def _flush(self) -> None:
        samples, self._samples, self._bytes = self._samples, [], 0
        if self._segment is not None:
            for run in _contiguous(samples):
                length = sum(each.duration for each in run)
                self._send_part(self._segment, run, rescale(length, self.scale, VIDEO_SCALE))


def _at_most(length: int, most: int | None) -> int:
    """Return a duration of 1 or more, and of `most` at most."""
    return max(1, length if most is None else min(length, most))


def _contiguous(samples: Sequence[Sample]) -> list[list[Sample]]:
    """Split samples where one does not follow its predecessor: a fragment has no gaps."""
    runs: list[list[Sample]] = []
    for sample in samples:
        if runs and runs[-1][-1].dts + runs[-1][-1].duration == sample.dts:
            runs[-1].append(sample)
        else:
            runs.append([sample])
    return runs
