"""The newest sound of one source: kept as it came, decoded where it is compared."""

# The library leaves the type parameter of its frames open, so pyright knows them in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
import numpy as np
from av.audio.frame import AudioFrame
from av.audio.resampler import AudioResampler
from av.error import FFmpegError

from media.ticks import VIDEO_SCALE, rescale
from media.track import AudioTrack
from transcode.engine.codec.decode import TrackAudioDecoder
from transcode.engine.watch.onsets import RATE, Samples

KEPT: Final = 26 * VIDEO_SCALE
"""A window of 5 s, 10 s to either side of it, and a second for the network."""
# 320 kbit/s of AAC are 1.1 MB; 26 s of FLAC in 48 kHz are 4.
_MOST_BYTES: Final = 6 << 20
# Before what is wanted: what its first frame refers to, four frames of HE-AAC.
_PRIMING: Final = VIDEO_SCALE // 5
# Times are in whole milliseconds, so frames seem to overlap by one; more is a hole.
_MOST_JITTER: Final = VIDEO_SCALE // 50


class _Kept(msgspec.Struct, frozen=True):
    pts: int
    data: bytes


class SoundRing:
    """The sound of one track from its clock's last restart on; times have 90 000 ticks a second."""

    def __init__(self, track: AudioTrack) -> None:
        self._track = track
        self._frames: deque[_Kept] = deque()
        self._bytes = 0

    @property
    def end(self) -> int | None:
        """The newest packet's time; None if there is none."""
        return self._frames[-1].pts if self._frames else None

    def ticks_before(self, end: int) -> int:
        """Return how much there is before a time."""
        return max(0, end - self._frames[0].pts) if self._frames else 0

    def add(self, packets: Iterable[tuple[int, bytes]]) -> None:
        """Add packets, with times in the track's ticks; one that is older than others is lost."""
        for time, data in packets:
            kept = _Kept(rescale(time, self._track.scale, VIDEO_SCALE), data)
            if self._frames and kept.pts <= self._frames[-1].pts:
                continue
            self._frames.append(kept)
            self._bytes += len(data)
            while self.ticks_before(kept.pts) > KEPT or self._bytes > _MOST_BYTES:
                self._bytes -= len(self._frames.popleft().data)

    def samples(self, since: int, until: int) -> Samples:
        """Return the sound between two times; what is missing or damaged of it is silent."""
        sound = np.zeros(max(0, (until - since) * RATE // VIDEO_SCALE), np.float32)
        for start, piece in self._pieces(since - _PRIMING, until):
            place = (start - since) * RATE // VIDEO_SCALE
            first, last = max(0, place), min(len(sound), place + len(piece))
            if first < last:
                sound[first:last] = piece[first - place : last - place]
        return sound

    def _pieces(self, since: int, until: int) -> Iterator[tuple[int, Samples]]:
        """Yield what is between two holes, with the time of its first sample."""
        resampler = AudioResampler(format="flt", layout="mono", rate=RATE)
        start = end = 0
        pieces: list[Samples] = []
        for frame in self._decoded(since, until):
            if frame.pts is None or not frame.sample_rate:
                continue
            if pieces and abs(frame.pts - end) > _MOST_JITTER:
                yield start, np.concatenate([*pieces, *_samples(resampler, None)])
                resampler = AudioResampler(format="flt", layout="mono", rate=RATE)
                pieces = []
            if not pieces:
                start = end = frame.pts
            end += frame.samples * VIDEO_SCALE // frame.sample_rate
            frame.pts = None  # the resampler counts samples, and not what times are rounded to
            pieces += _samples(resampler, frame)
        if pieces:
            yield start, np.concatenate([*pieces, *_samples(resampler, None)])

    def _decoded(self, since: int, until: int) -> Iterator[AudioFrame]:
        try:
            decoder = TrackAudioDecoder(self._track)
        except FFmpegError:
            return
        for kept in self._frames:
            if since <= kept.pts <= until:
                try:
                    yield from decoder.decode(kept.data, kept.pts)
                except FFmpegError:
                    continue


def _samples(resampler: AudioResampler, frame: AudioFrame | None) -> list[Samples]:
    return [each.to_ndarray()[0] for each in resampler.resample(frame)]
