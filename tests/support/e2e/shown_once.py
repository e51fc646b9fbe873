"""What viewers got of a programme: the pictures that were lost or shown twice, and its sound."""

# numpy leaves the type parameters of its arrays open here and there.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

import itertools
from pathlib import Path

import av
import msgspec
import numpy as np

from tests.support.e2e.clock_video import PlaylistArchive, ReceivedPicture
from tests.support.e2e.programme_films import number_of
from tests.support.engine.programmes import RATE, Wave

# Sound below this level is none: the programme has noise of 0.02 everywhere.
_SILENT = 0.004
_STEP = RATE // 500  # 2 ms
# The first frame after a discontinuity has no predecessor, and is quiet.
_EDGE = 0.05
# What is compared with the programme, and how far from the picture's place it is looked for.
_WINDOW = RATE
_REACH = RATE // 2
# From the middle of a window; the sound of two encoders meets within a second of the pictures.
_NEAR = 1.5  # seconds


class Joint(msgspec.Struct, frozen=True, kw_only=True):
    """Two pictures that do not follow one another in the programme, at a time of the media.

    A picture is `step` numbers long at most.
    """

    before: int
    after: int
    time: float
    segment: int
    step: int = 1

    @property
    def lost(self) -> int:
        """The pictures that are missing."""
        return max(0, self.after - self.before - self.step)

    @property
    def twice(self) -> int:
        """The pictures that are shown twice."""
        return max(0, self.before + 1 - self.after)


def joints(pictures: list[ReceivedPicture], fps: int, step: int = 1) -> list[Joint]:
    """Return where the numbers of pictures do not go on, which count `fps` to a second.

    Pictures of several frame rates have numbers that all of them divide; see `Joint`.
    """
    found: list[Joint] = []
    for one, other in itertools.pairwise(pictures):
        assert one.stamp is not None, one
        assert other.stamp is not None, other
        before, after = number_of(one.stamp, fps), number_of(other.stamp, fps)
        joint = Joint(before=before, after=after, time=other.time, segment=other.segment, step=step)
        if joint.lost or joint.twice:
            found.append(joint)
    return found


class HeardSound:
    """The sound that viewers got: `stretches` of it, each with the time at which it begins."""

    def __init__(self, archive: PlaylistArchive, folder: Path) -> None:
        self.stretches: list[tuple[float, Wave]] = []
        for path in archive.held["audio"].stretches(folder / "heard.mp4"):
            pieces: list[Wave] = []
            begins: float | None = None
            with av.open(str(path)) as container:
                for frame in container.decode(audio=0):
                    begins = float(frame.time or 0) if begins is None else begins
                    assert frame.sample_rate == RATE
                    pieces.append(frame.to_ndarray().mean(axis=0))
            if begins is not None:
                self.stretches.append((begins, np.concatenate(pieces)))

    def holes(self) -> list[tuple[float, float]]:
        """Return time and length of each stretch of silence, in seconds."""
        found: list[tuple[float, float]] = []
        for begins, wave in self.stretches:
            whole = wave[: len(wave) // _STEP * _STEP].reshape(-1, _STEP)
            quiet = np.sqrt((whole**2).mean(axis=1)) < _SILENT
            edges = np.flatnonzero(np.diff(np.concatenate(([0], quiet, [0]))))
            for first, end in edges.reshape(-1, 2):
                at, length = begins + first * _STEP / RATE, (end - first) * _STEP / RATE
                if length > 2 * _STEP / RATE and at > begins + _EDGE:
                    found.append((float(at), float(length)))
        return found

    def lip_sync(
        self, pictures: list[ReceivedPicture], whole: Wave, fps: int, step: int = 1
    ) -> list[tuple[float, float]]:
        """Return by how much the sound is behind its picture, every half second of the media.

        Only where a second of pictures, and of the programme's sound, is without a joint, and none
        that shows pictures again is near: the sound is repeated earlier or later than they are.
        """
        times = np.array([picture.time for picture in pictures])
        places = np.array([number_of(p.stamp, fps) / fps for p in pictures if p.stamp is not None])
        assert len(times) == len(places)
        jumps = times[1:][np.abs(np.diff(places - times)) > 0.6 * step / fps]
        found: list[tuple[float, float]] = []
        for begins, wave in self.stretches:
            for first in range(0, len(wave) - _WINDOW, _WINDOW // 2):
                at = begins + first / RATE
                inside = (times >= at) & (times < at + _WINDOW / RATE)
                apart = places[inside] - times[inside]
                middle = at + _WINDOW / RATE / 2
                if len(apart) < fps / step * 0.8 or np.any(np.abs(jumps - middle) < _NEAR):
                    continue
                since = round((at + float(np.median(apart))) * RATE) - _REACH
                sought = whole[max(since, 0) : since + _WINDOW + 2 * _REACH]
                place = _find(wave[first : first + _WINDOW], sought)
                if place is not None:
                    found.append((at, (max(since, 0) - since - _REACH + place) / -RATE))
        return found


def _find(piece: Wave, whole: Wave) -> int | None:
    """Return where a piece is in a whole; None if it is nowhere."""
    if len(whole) < len(piece):
        return None
    size = 1 << (len(whole) + len(piece)).bit_length()
    product = np.fft.rfft(whole, size) * np.conj(np.fft.rfft(piece, size))
    places = np.fft.irfft(product, size)[: len(whole) - len(piece) + 1]
    energy = np.concatenate(([0.0], np.cumsum(whole.astype(np.float64) ** 2)))
    energies = energy[len(piece) :][: len(places)] - energy[: len(places)]
    likeness = places / np.sqrt(energies * float((piece.astype(np.float64) ** 2).sum()) + 1e-9)
    best = int(np.argmax(likeness))
    return best if likeness[best] > 0.5 else None
