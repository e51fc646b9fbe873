"""A source's newest sound: what is kept of it, and where it lies when it is decoded."""

import numpy as np
import pytest

from media.ticks import VIDEO_SCALE
from media.track import AudioCodec, AudioTrack
from tests.support.engine.programmes import CodedSound, Wave
from transcode.engine.watch.onsets import RATE
from transcode.engine.watch.sound_ring import SoundRing


def beeps() -> Wave:
    """A beep of 50 ms at every second."""
    times = np.arange(6 * 48_000) / 48_000
    return (0.5 * np.sin(2 * np.pi * 440 * times) * ((times % 1) < 0.05)).astype("f4")


@pytest.mark.parametrize(("rate", "layout"), [(48_000, "stereo"), (44_100, "mono")])
def test_sound_lies_where_its_packets_say(rate: int, layout: str) -> None:
    sound = CodedSound(beeps(), rate=rate, layout=layout, start_ms=70_000)
    ring = SoundRing(sound.track)
    ring.add(sound.packets)
    samples = ring.samples(72 * VIDEO_SCALE, 75 * VIDEO_SCALE)
    assert len(samples) == 3 * RATE
    loud = np.flatnonzero(np.abs(samples) > 0.1)
    for second in range(3):
        here = loud[(loud >= second * RATE - 80) & (loud < (second + 1) * RATE - 80)]
        assert abs(here[0] - second * RATE) <= 0.005 * RATE
        assert here[-1] - here[0] <= 0.06 * RATE


def test_half_a_minute_is_kept_and_a_megabyte_of_nothing_is_not() -> None:
    track = AudioTrack(codec=AudioCodec.AAC, config=b"\x11\x90", rate=48_000, channels=2)
    ring = SoundRing(track)
    assert ring.end is None
    assert ring.ticks_before(5) == 0
    ring.add((20 * number, b"x") for number in range(3000))
    assert ring.end == 59_980 * 90
    assert 25 <= ring.ticks_before(ring.end) / VIDEO_SCALE <= 26
    ring.add([(60_000, bytes(5 << 20)), (59_999, b"older"), (60_020, bytes(2 << 20))])
    assert ring.end == 60_020 * 90
    assert ring.ticks_before(ring.end) == 0, "the largest were too large"
    assert not ring.samples(50 * VIDEO_SCALE, 51 * VIDEO_SCALE).any()


def test_a_track_that_no_decoder_takes_is_silent() -> None:
    track = AudioTrack(codec=AudioCodec.FLAC, config=b"no", rate=48_000, channels=2)
    ring = SoundRing(track)
    ring.add((20 * number, b"x" * 90) for number in range(100))
    assert not ring.samples(0, VIDEO_SCALE).any()
