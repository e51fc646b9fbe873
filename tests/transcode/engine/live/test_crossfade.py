"""Crossfades of samples whose levels tell where they come from."""

from array import array

import pytest
from av.audio.frame import AudioFrame

from transcode.engine.codec.decode import stereo_frame
from transcode.engine.live.crossfade import Crossfade

HELD = 300
END = 10_000  # the position where the old source's sound ends


def level(value: float, count: int) -> AudioFrame:
    """Return samples that all have one level, on the right channel the opposite one."""
    planes = (array("f", [value] * count).tobytes(), array("f", [-value] * count).tobytes())
    return stereo_frame(count, planes, 48_000)


def left(frame: AudioFrame) -> list[float]:
    """Return the levels of the left channel, checking the right one."""
    one, other = (array("f", bytes(plane)[: 4 * frame.samples]).tolist() for plane in frame.planes)
    assert [-each for each in other] == one
    return one


def test_the_old_sound_becomes_the_new_one_evenly() -> None:
    fade = Crossfade(level(1.0, HELD), END)
    fade.mix(level(0.0, 2_000), END - 1_000)
    mixed = left(fade.frame())
    assert len(mixed) == HELD
    assert mixed == sorted(mixed, reverse=True)
    steps = [before - after for before, after in zip([1.0, *mixed], [*mixed, 0.0], strict=True)]
    assert max(steps) < 2 / HELD


@pytest.mark.parametrize("size", [1, 7, 120, 1_024])
def test_frames_of_any_size_mix_alike(size: int) -> None:
    whole, parts = (Crossfade(level(1.0, HELD), END) for _ in range(2))
    whole.mix(level(0.5, 2_048), END - 1_024)
    for at in range(END - 1_024, END + 1_024, size):
        parts.mix(level(0.5, size), at)
    assert left(parts.frame()) == left(whole.frame())


def test_sound_of_another_time_changes_nothing() -> None:
    fade = Crossfade(level(1.0, HELD), END)
    fade.mix(level(0.0, 100), END)
    fade.mix(level(0.0, 100), END - HELD - 100)
    assert left(fade.frame()) == [1.0] * HELD
