"""Properties that a playlist derives from its segments."""

import pytest

from media.hls.playlist import TARGET_SECONDS, MediaPlaylist, PlaylistSegment
from media.ticks import VIDEO_SCALE


def test_a_playlist_is_as_long_as_its_segments() -> None:
    segments = tuple(PlaylistSegment(uri=f"{n}.m4s", duration=n * VIDEO_SCALE) for n in range(4))
    assert MediaPlaylist(segments=segments).duration == 6 * VIDEO_SCALE


@pytest.mark.parametrize(
    ("duration", "fits"),
    [
        (TARGET_SECONDS * VIDEO_SCALE, True),
        (TARGET_SECONDS * VIDEO_SCALE + VIDEO_SCALE // 2 - 1, True),
        (TARGET_SECONDS * VIDEO_SCALE + VIDEO_SCALE // 2, False),
    ],
)
def test_a_segment_fits_when_its_rounded_length_is_within_the_target(
    duration: int, fits: bool
) -> None:
    assert MediaPlaylist().fits(duration) is fits
