"""How far sources are apart between comparisons, whose clocks drift."""

import numpy as np

from media.ticks import VIDEO_SCALE
from transcode.engine.watch.offset_track import OffsetTrack

SECOND = VIDEO_SCALE
PICTURE = SECOND / 30
PPM = 360


def drifted(time: float) -> float:
    return 0.7 + time * PPM / 1e6


def track_of(times: list[float], seed: int) -> OffsetTrack:
    """A track of comparisons that are wrong by up to 5 ms."""
    random, track = np.random.default_rng(seed), OffsetTrack()
    for time in times:
        wrong = random.uniform(-0.005, 0.005)
        track.add(round(time * SECOND), round((drifted(time) + wrong) * SECOND))
    return track


def test_an_offset_is_right_to_a_picture_for_as_long_as_it_is_known() -> None:
    for seed in range(50):
        for times in ([0, 3], [0, 3, 30], [0, 3, 30, 90], list(range(0, 600, 60))):
            track = track_of([float(each) for each in times], seed)
            until = track.known_until
            for time in np.linspace(times[-1] * SECOND, until, 20):
                found = track.at(int(time))
                assert found is not None
                assert abs(found / SECOND - drifted(time / SECOND)) * SECOND <= PICTURE
            assert track.at(until + 1) is None


def test_the_longer_clocks_are_followed_the_longer_an_offset_holds() -> None:
    known = [track_of(list(np.arange(0, length, 10.0)), 0).known_until / SECOND - length + 10
             for length in (20, 60, 180, 600)]  # fmt: skip
    assert known == sorted(known)
    assert known[0] >= 39
    assert known[-1] >= 600


def test_what_was_found_once_is_not_known() -> None:
    track = OffsetTrack()
    assert (track.at(0), track.known_until) == (None, 0)
    track.add(SECOND, 5 * SECOND)
    assert track.at(SECOND) is None


def test_clocks_that_are_others_begin_anew() -> None:
    track = track_of([0.0, 10.0, 20.0], 0)
    track.add(30 * SECOND, 2 * SECOND)
    assert track.at(30 * SECOND) is None
    track.add(33 * SECOND, 2 * SECOND)
    assert track.at(36 * SECOND) == 2 * SECOND
