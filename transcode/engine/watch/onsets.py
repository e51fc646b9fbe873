"""Onsets: how the loudness of a source's sound changes, in four bands, a hundred times a second.

Pure. Two encoders of one programme differ in loudness, noise, bandwidth and phase, but a sound that
begins or ends does so in both. A row of features is the change of each band's logarithmic energy
within 20 ms; so a gain cancels out, and what does not change counts nothing.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

RATE: Final = 8_000
"""Samples a second of the sound that is compared: all encoders keep what is below 4 kHz."""
ROW_SAMPLES: Final = RATE // 100
ROWS_PER_SECOND: Final = RATE // ROW_SAMPLES

_WINDOW: Final = 256  # 32 ms: short beside an onset, long enough for 100 Hz
# Speech has its onsets in the second and third, drums in the first and last.
_BANDS_HZ: Final = ((100, 300), (300, 800), (800, 1_700), (1_700, 3_600))
# Of full scale: the noise of an encoder's rounding, and of a quiet room, is no onset.
_FLOOR: Final = 1e-7
_APART: Final = 2  # rows between which a change is measured
# In nepers of energy. A beginning after silence is louder by more, and would be all that counts.
_MOST_CHANGE: Final = 2.0

Samples = NDArray[np.float32]
"""Mono, 1.0 is full scale."""
Onsets = NDArray[np.float32]
"""Rows of four bands."""

_SHAPE: Final = np.hanning(_WINDOW).astype(np.float32)


def _band_weights() -> NDArray[np.float32]:
    frequencies = np.fft.rfftfreq(_WINDOW, 1 / RATE)
    masks = [(frequencies >= low) & (frequencies < high) for low, high in _BANDS_HZ]
    return np.stack([mask / mask.sum() for mask in masks], axis=1).astype(np.float32)


_WEIGHTS: Final = _band_weights()


def onsets_of(samples: Samples) -> Onsets:
    """Return the onsets of a sound, a row for each 10 ms of it but for the last 52 ms."""
    count = (len(samples) - _WINDOW) // ROW_SAMPLES + 1
    if count <= _APART:
        return np.zeros((0, len(_BANDS_HZ)), np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(samples, _WINDOW)[::ROW_SAMPLES]
    power = np.abs(np.fft.rfft(windows * _SHAPE, axis=1)) ** 2 / (_WINDOW * _WINDOW / 16)
    loudness = np.log(power.astype(np.float32) @ _WEIGHTS + _FLOOR)
    change = loudness[_APART:] - loudness[:-_APART]
    return np.clip(change, -_MOST_CHANGE, _MOST_CHANGE).astype(np.float32)
