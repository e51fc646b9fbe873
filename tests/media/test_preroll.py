import pytest

from media.preroll import leads_up_soon
from media.track import VideoCodec, VideoTrack


@pytest.mark.parametrize(
    ("size", "rate", "seconds", "soon"),
    [
        ((1920, 1080), 30, 8.3, True),
        ((1920, 1080), 60, 4.0, True),
        ((1920, 1080), 60, 8.3, False),
        ((1280, 720), 60, 8.3, True),
        ((3840, 2160), 30, 2.0, True),
        ((3840, 2160), 30, 4.0, False),
    ],
)
def test_a_group_of_pictures_leads_up_soon_unless_it_is_long_and_large(
    size: tuple[int, int], rate: int, seconds: float, soon: bool
) -> None:
    width, height = size
    track = VideoTrack(codec=VideoCodec.AVC, config=b"", width=width, height=height)
    assert leads_up_soon(track, round(rate * seconds)) is soon
