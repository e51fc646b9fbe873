"""How loud a source is: each packet of its sound is decoded once, as it comes."""

# The library leaves the type parameter of its frames open, so pyright knows them in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from collections.abc import Iterable
from typing import Final

import numpy as np
from av.audio.frame import AudioFrame
from av.error import FFmpegError

from media.ticks import VIDEO_SCALE, rescale
from media.track import AudioTrack
from transcode.engine.codec.decode import TrackAudioDecoder
from transcode.engine.watch.faults import WINDOW, Levels

_KEPT: Final = 30 * VIDEO_SCALE
# -200 dB: what is digitally silent has a logarithm all the same.
_NOTHING: Final = 1e-20
# Of samples that are whole numbers: what full scale is.
_FULL_SCALE: Final = {"s16": 1 << 15, "s16p": 1 << 15, "s32": 1 << 31, "s32p": 1 << 31}


class SoundLevels:
    """The newest half a minute of a track's loudness; its times have 90 000 ticks a second."""

    def __init__(self, track: AudioTrack) -> None:
        self._track = track
        self._squares: dict[int, tuple[float, int]] = {}  # by window: their sum, how many samples
        self._end = 0
        self._decoder: TrackAudioDecoder | None
        try:
            self._decoder = TrackAudioDecoder(track)
        except FFmpegError:
            self._decoder = None

    def add(self, packets: Iterable[tuple[int, bytes]]) -> None:
        """Add packets, with times in the track's ticks; a damaged one has no level."""
        if self._decoder is None:
            return
        for time, data in packets:
            try:
                frames = self._decoder.decode(data, rescale(time, self._track.scale, VIDEO_SCALE))
            except FFmpegError:
                continue
            for frame in frames:
                self._measure(frame)

    def levels(self) -> Levels:
        """Return what is known; a window that is not complete yet is not."""
        last = self._end // WINDOW
        windows = sorted(each for each in self._squares if each < last)
        power = [self._squares[each][0] / max(1, self._squares[each][1]) for each in windows]
        return Levels(
            np.array(windows, np.int64) * WINDOW,
            (10 * np.log10(np.maximum(power, _NOTHING))).astype(np.float32),
        )

    def _measure(self, frame: AudioFrame) -> None:
        if frame.pts is None or not frame.sample_rate:
            return
        window = frame.pts // WINDOW
        samples = np.asarray(frame.to_ndarray(), np.float32)
        if not frame.format.is_planar:
            samples = samples.reshape(-1, len(frame.layout.channels)).T
        samples = samples / np.float32(_FULL_SCALE.get(frame.format.name, 1))
        # The loudest channel: where one alone has sound, that is the sound.
        loudest = float(np.einsum("cs,cs->c", samples, samples).max(initial=0.0))
        if not np.isfinite(loudest):
            return
        total, count = self._squares.get(window, (0.0, 0))
        self._squares[window] = total + loudest, count + frame.samples
        self._end = max(self._end, frame.pts + frame.samples * VIDEO_SCALE // frame.sample_rate)
        oldest = (self._end - _KEPT) // WINDOW
        while len(self._squares) > _KEPT // WINDOW + 1:
            del self._squares[min(self._squares)]
        if min(self._squares) < oldest:
            self._squares = {key: each for key, each in self._squares.items() if key >= oldest}
