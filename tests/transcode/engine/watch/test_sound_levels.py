"""How loud a source is."""

import numpy as np
import pytest

from media.ticks import VIDEO_SCALE
from media.track import AudioCodec, AudioTrack
from tests.support.engine.programmes import RATE, CodedSound
from transcode.engine.watch.faults import WINDOW
from transcode.engine.watch.sound_levels import SoundLevels

TONE = 0.5 * np.sin(2 * np.pi * 500 * np.arange(3 * RATE) / RATE)


@pytest.mark.parametrize("layout", ["mono", "stereo"])
def test_a_tone_has_its_level_and_silence_none(layout: str) -> None:
    wave = TONE.astype("f4")
    wave[RATE : 2 * RATE] = 0
    sound = CodedSound(wave, layout=layout, start_ms=70_000)
    levels = SoundLevels(sound.track)
    levels.add(sound.packets)
    found = levels.levels()
    assert np.diff(found.times).tolist() == [WINDOW] * (len(found.times) - 1)
    seconds = found.times / VIDEO_SCALE - 70
    loud = found.decibels[(seconds > 0.2) & (seconds < 0.8)]
    assert np.allclose(loud, -9 if layout == "mono" else loud[0], atol=0.5)
    assert (loud > -13).all()
    assert (found.decibels[(seconds > 1.2) & (seconds < 1.8)] < -70).all()
    assert (found.decibels[(seconds > 2.2) & (seconds < 2.7)] > -13).all()


def test_damaged_packets_have_no_level() -> None:
    sound = CodedSound(TONE.astype("f4"))
    levels = SoundLevels(sound.track)
    levels.add((at, b"\x21\xff" * 40) for at, _ in sound.packets)
    assert (levels.levels().decibels < 3).all()
    silent = SoundLevels(
        AudioTrack(codec=AudioCodec.AAC, config=b"\xff" * 9, rate=48_000, channels=2)
    )
    silent.add(sound.packets)
    assert len(silent.levels().times) == 0


def test_half_a_minute_is_kept() -> None:
    sound = CodedSound(TONE.astype("f4"))
    levels = SoundLevels(sound.track)
    for turn in range(20):
        levels.add((at + 3_000 * turn, data) for at, data in sound.packets)
        assert len(levels.levels().times) <= 302
    levels.add((at + 10_000_000, data) for at, data in sound.packets)
    assert len(levels.levels().times) <= 35
