"""Where two sounds agree, and whether that is the only place where they do.

Pure. `Agreement.rows` comes from the onsets, by which a wrong place is told from a right one; the
waves then place it to a fraction of a millisecond (`fine_lag`).
"""

from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from transcode.engine.watch.onsets import RATE, Onsets, Samples

# An onset is this wide in rows: what is as near to the best place is no other place.
_PEAK_ROWS: Final = 8
# Of the waves: twice the error of the onsets.
_FINE_SECONDS: Final = 0.02
# Below, encoders add hum and remove it; above, they add what they left out.
_WAVES_HZ: Final = (80, 3_600)
# The height of the waves' peak over what is around it; of unrelated waves it is 5 at most.
_LEAST_SHARPNESS: Final = 12.0

_Row = NDArray[np.float64]


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """Where one sound fits another best.

    `rows` is by how many rows the other one is behind, when both end at the same moment.
    `correlation` is how well it fits there (1: the same), and `ratio` how many times better than at
    the next best place; 0 for what has no onsets.
    """

    rows: int
    correlation: float
    ratio: float


def find(reference: Onsets, other: Onsets, *, rows: int, reach: int) -> Agreement | None:
    """Return where the newest `rows` of one fit into the other, at most `reach` away from its end.

    If the other is behind, its newest rows are searched for in the reference, else the reverse: so
    the newest of both counts. Where one sounds like itself at another time, all that it has counts
    as a next best place, since the right one may not have come yet. None if there are too few rows.
    """
    if min(len(reference), len(other)) < rows:
        return None
    length = rows + reach
    behind = _correlations(other[-rows:], reference[-length:])[::-1]
    ahead = _correlations(reference[-rows:], other[-length:])
    places = np.concatenate([ahead[:-1], behind])
    first = 1 - len(ahead)
    best = int(np.argmax(places))
    others = np.delete(places, np.s_[max(0, best - _PEAK_ROWS) : best + _PEAK_ROWS + 1])
    next_best = max(
        float(np.max(others, initial=1e-3)), _repeated(reference, rows), _repeated(other, rows)
    )
    correlation = float(places[best])
    return Agreement(
        rows=first + best, correlation=correlation, ratio=max(0.0, correlation / next_best)
    )


def _repeated(onsets: Onsets, rows: int) -> float:
    """Return how well the newest rows fit into what came before them."""
    if len(onsets) < rows + _PEAK_ROWS:
        return 0.0
    return float(np.max(_correlations(onsets[-rows:], onsets[:-_PEAK_ROWS]), initial=0.0))


def _correlations(wanted: Onsets, where: Onsets) -> _Row:
    """Return how well `wanted` fits at every place of `where`, from -1 to 1."""
    size = 1 << (len(wanted) + len(where) - 1).bit_length()
    product = np.conj(np.fft.rfft(wanted, size, axis=0)) * np.fft.rfft(where, size, axis=0)
    places = len(where) - len(wanted) + 1
    agreement = np.fft.irfft(product, size, axis=0)[:places].sum(axis=1)
    energy = np.concatenate([[0.0], np.cumsum((where.astype(np.float64) ** 2).sum(axis=1))])
    own = float((wanted.astype(np.float64) ** 2).sum())
    strength = own * (energy[len(wanted) :] - energy[: -len(wanted)])
    # What has next to no onsets would correlate by its rounding errors.
    return np.where(strength > 1e-3, agreement / np.sqrt(np.maximum(strength, 1e-3)), 0.0)


def fine_lag(reference: Samples, other: Samples) -> float | None:
    """Return by how many seconds the other is later than a sound of the same length.

    None if their waves have no common place within 20 ms.
    """
    size = 1 << (2 * len(reference) - 1).bit_length()
    product = np.fft.rfft(other, size) * np.conj(np.fft.rfft(reference, size))
    frequencies = np.fft.rfftfreq(size, 1 / RATE)
    kept = (frequencies > _WAVES_HZ[0]) & (frequencies < _WAVES_HZ[1])
    # All frequencies weigh the same: the peak of what is whitened is sharp.
    white = np.where(kept, product / (np.abs(product) + 1e-9), 0)
    places = np.fft.irfft(white, size)
    reach = round(_FINE_SECONDS * RATE)
    near = np.abs(np.concatenate([places[-reach:], places[: reach + 1]]))
    best = int(np.argmax(near))
    usual = float(np.sort(near)[len(near) // 2])  # numpy's median would import another package
    if near[best] < _LEAST_SHARPNESS * max(usual, 1e-12):
        return None
    return (best - reach) / RATE
