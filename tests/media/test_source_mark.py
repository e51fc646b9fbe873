"""By what an encoder's clock is known again."""

from media.packet import MediaPacket
from media.source_mark import SourceMark, no_marks
from media.track import VideoCodec, VideoTrack

VIDEO = VideoTrack(codec=VideoCodec.AVC, config=b"a", width=1280, height=720)


def test_a_keyframe_is_known_by_its_time_and_its_bytes() -> None:
    keyframe = MediaPacket(track=VIDEO, dts=960, pts=1_000, key=True, data=b"picture")
    mark = SourceMark.of(keyframe, -0.5)
    assert (mark.pts, mark.apart) == (90_000, -45_000)
    assert mark.is_of(1_000, 1_000, b"picture")
    assert mark.is_of(90_000, 90_000, b"picture")
    assert not mark.is_of(1_001, 1_000, b"picture")
    assert not mark.is_of(1_000, 1_000, b"another")
    assert no_marks() == ()
