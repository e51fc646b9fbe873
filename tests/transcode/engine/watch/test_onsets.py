"""Features of sound that two encoders have in common."""

import numpy as np

from transcode.engine.watch.onsets import RATE, onsets_of


def test_a_gain_changes_no_onset() -> None:
    wave = np.random.default_rng(3).standard_normal(RATE).astype("f4") * np.float32(0.1)
    assert np.allclose(onsets_of(wave), onsets_of(wave * 4), atol=0.01)
    assert len(onsets_of(wave)) == 95
    assert len(onsets_of(wave[:400])) == 0


def test_a_tone_has_onsets_where_it_begins_and_ends_alone() -> None:
    times = np.arange(RATE) / RATE
    tone = np.sin(2 * np.pi * 1000 * times) * ((times > 0.3) & (times < 0.7))
    strength = np.abs(onsets_of(tone.astype("f4"))).sum(axis=1)
    rows = set((np.flatnonzero(strength > 1) / 100).tolist())
    assert {0.29, 0.69} <= rows
    assert all(abs(row - 0.28) < 0.04 or abs(row - 0.68) < 0.04 for row in rows)
