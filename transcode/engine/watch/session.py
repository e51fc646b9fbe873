"""Carries out a watch engine's orders; see `transcode.protocol.watch_messages`."""

from typing import Final

import numpy as np

from media.ticks import MICROSECONDS, VIDEO_SCALE, rescale
from transcode.engine.watch.correlation import Agreement, find, fine_lag
from transcode.engine.watch.onsets import RATE, ROW_SAMPLES, ROWS_PER_SECOND, Samples, onsets_of
from transcode.engine.watch.picture_aligner import PictureAligner
from transcode.engine.watch.quality import QualityWatch
from transcode.engine.watch.sound_ring import KEPT, SoundRing
from transcode.protocol.watch_messages import (
    Compare,
    Compared,
    Judge,
    Judged,
    NoOffset,
    Unwatch,
    Watch,
    WatchedPictures,
    WatchedSound,
    WatchOrder,
)

# Encoders farther apart are of no use to each other, and a wide search finds repetitions.
_REACH: Final = 10 * ROWS_PER_SECOND
_NEAR_REACH: Final = 3 * ROWS_PER_SECOND // 10
# What onsets lose at the end of a sound.
_TAIL_TICKS: Final = 6 * VIDEO_SCALE // ROWS_PER_SECOND
# Sounds that have nothing to do with each other reach 1.55 and 0.23; those of one programme, of
# which one was halved, coded twice and had noise added, at least 3.8 and 0.60.
_LEAST_RATIO: Final = 2.0
_LEAST_CORRELATION: Final = 0.35
# -60 dB of full scale.
_SILENCE: Final = 1e-3
# The mean square of onsets: of music and speech it is 0.2 to 0.6, of a tone with noise 0.007.
_LEAST_ONSETS: Final = 0.02


class WatchSession:
    """The sources of one stream, as far as they are compared."""

    def __init__(self) -> None:
        self._sounds: dict[int, SoundRing | None] = {}
        self._quality = QualityWatch()
        self._pictures = PictureAligner(self._quality)

    def handle(self, order: WatchOrder) -> Compared | Judged | None:
        """Carry out an order; return the answer of a `Compare` or `Judge`."""
        match order:
            case Watch():
                self._sounds[order.source] = None if order.audio is None else SoundRing(order.audio)
                self._quality.remove(order.source)
                self._pictures.forget(order.source)
                if order.is_judged:
                    self._quality.begin(order.source, order.audio, order.video)
            case WatchedSound():
                ring = self._sounds.get(order.source)
                if ring is not None:
                    ring.add(order.packets)
                self._quality.add_sound(order.source, order.packets)
            case WatchedPictures():
                self._quality.add_pictures(order.source, order.packets)
            case Unwatch():
                self._sounds.pop(order.source, None)
                self._quality.remove(order.source)
                self._pictures.forget(order.source)
            case Compare():
                return self._pictures.compare(order, self._compare(order))
            case Judge():
                return self._quality.judge(order)
        return None

    def _compare(self, order: Compare) -> Compared:
        reference, other = self._sounds.get(order.reference), self._sounds.get(order.other)
        if reference is None or other is None or reference.end is None or other.end is None:
            return _nothing(order, "no sound")
        if order.near_us is None:
            return _searched(order, reference, other, reference.end, other.end)
        near = rescale(order.near_us, MICROSECONDS, VIDEO_SCALE)
        end = min(reference.end, other.end - near)
        return _searched(order, reference, other, end, end + near)


def _searched(
    order: Compare, reference: SoundRing, other: SoundRing, end: int, other_end: int
) -> Compared:
    """Compare what ends at two times of two sources."""
    window = round(order.seconds * VIDEO_SCALE) + _TAIL_TICKS
    if min(reference.ticks_before(end), other.ticks_before(other_end)) < window:
        return _nothing(order, "too short")  # it is asked for often, and nothing is decoded
    reach = _REACH if order.near_us is None else _NEAR_REACH
    reached = window + reach * VIDEO_SCALE // ROWS_PER_SECOND
    # A wide search also looks for repetitions, in all that there is.
    length = reached if order.near_us is not None else KEPT
    ours = _last(reference, length, end)
    theirs = _last(other, length, other_end)
    newest = round(order.seconds * RATE)
    if min(len(ours), len(theirs)) < newest:
        return _nothing(order, "too short")
    if min(_loudness(ours[-newest:]), _loudness(theirs[-newest:])) < _SILENCE:
        return _nothing(order, "silent")
    rows = round(order.seconds * ROWS_PER_SECOND)
    features = onsets_of(ours), onsets_of(theirs)
    if min(float(np.mean(each[-rows:] ** 2)) for each in features) < _LEAST_ONSETS:
        return _nothing(order, "steady")
    found = find(*features, rows=rows, reach=reach)
    if found is None:
        return _nothing(order, "too short")
    if found.correlation < _LEAST_CORRELATION:
        return _nothing(order, "different", found)
    if found.ratio < _LEAST_RATIO:
        return _nothing(order, "ambiguous", found)
    return _placed(order, found, ours, theirs, other_end - end)


def _last(sound: SoundRing, length: int, end: int) -> Samples:
    return sound.samples(end - min(length, sound.ticks_before(end)), end)


def _loudness(samples: Samples) -> float:
    return float(np.sqrt(np.mean(samples**2)))


def _placed(
    order: Compare, found: Agreement, ours: Samples, theirs: Samples, ends_apart: int
) -> Compared:
    """Return where the waves agree, near the place that was found."""
    behind = found.rows * ROW_SAMPLES
    ours = ours[: len(ours) - behind] if behind > 0 else ours
    theirs = theirs[: len(theirs) + behind] if behind < 0 else theirs
    common = min(len(ours), len(theirs), round(order.seconds * RATE))
    fine = fine_lag(ours[-common:], theirs[-common:]) if common else None
    offset = ends_apart / VIDEO_SCALE + behind / RATE + (fine or 0.0)
    return Compared(
        reference=order.reference,
        other=order.other,
        offset_us=round(offset * MICROSECONDS),
        exact=fine is not None,
        correlation=found.correlation,
        ratio=found.ratio,
    )


def _nothing(order: Compare, reason: NoOffset, found: Agreement | None = None) -> Compared:
    return Compared(
        reference=order.reference,
        other=order.other,
        offset_us=None,
        reason=reason,
        correlation=0.0 if found is None else found.correlation,
        ratio=0.0 if found is None else found.ratio,
    )
