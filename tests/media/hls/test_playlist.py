"""Windows over a growing list of segments."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from media.hls.playlist import TARGET_SECONDS, MediaPlaylist, PlaylistSegment
from media.ticks import VIDEO_SCALE


def listed(number: int, *, discontinuity: bool = False) -> PlaylistSegment:
    return PlaylistSegment(
        uri=f"{number}.m4s", duration=2 * VIDEO_SCALE, discontinuity=discontinuity
    )


def test_a_playlist_grows_and_its_predecessor_stays_as_it_was() -> None:
    empty = MediaPlaylist()
    one = empty.append(listed(0))
    assert (empty.segments, one.segments) == ((), (listed(0),))
    assert one.duration == 2 * VIDEO_SCALE


def test_what_leaves_is_counted_segments_and_discontinuities_alike() -> None:
    playlist = MediaPlaylist()
    for number in range(5):
        playlist = playlist.append(listed(number, discontinuity=number in {1, 3}))
    playlist = playlist.append(listed(5), drop=2)
    assert [segment.uri for segment in playlist.segments] == [f"{n}.m4s" for n in range(2, 6)]
    assert (playlist.sequence, playlist.discontinuities) == (2, 1)
    # A discontinuity at the first segment is still told by its own tag, so it is not counted yet.
    playlist = playlist.append(listed(6), drop=1)
    assert playlist.segments[0].discontinuity
    assert (playlist.sequence, playlist.discontinuities) == (3, 1)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3)), max_size=60))
def test_a_segments_number_and_discontinuity_number_never_change(
    steps: list[tuple[bool, int]],
) -> None:
    playlist = MediaPlaylist()
    numbers: dict[str, tuple[int, int]] = {}
    for number, (discontinuity, drop) in enumerate(steps):
        playlist = playlist.append(
            listed(number, discontinuity=discontinuity), drop=min(drop, len(playlist.segments))
        )
        discontinuities = playlist.discontinuities
        for place, segment in enumerate(playlist.segments):
            discontinuities += segment.discontinuity
            told = (playlist.sequence + place, discontinuities)
            assert numbers.setdefault(segment.uri, told) == told


def test_an_ended_playlist_takes_no_segment() -> None:
    with pytest.raises(ValueError, match="ended"):
        MediaPlaylist().append(listed(0)).end().append(listed(1))


@pytest.mark.parametrize("drop", [-1, 2])
def test_more_than_there_is_cannot_be_dropped(drop: int) -> None:
    with pytest.raises(ValueError, match="to drop"):
        MediaPlaylist().append(listed(0)).append(listed(1), drop=drop + 1 if drop > 0 else drop)


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
