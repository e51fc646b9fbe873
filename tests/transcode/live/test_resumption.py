"""Where a source begins that continues a run of another process, in pictures of 40 ms."""

import pytest

from media.packet import MediaPacket
from media.source_mark import ProgrammePlace, SourceMark
from media.ticks import VIDEO_SCALE
from media.track import AudioCodec, AudioTrack, VideoCodec, VideoTrack
from transcode.live.resumption import resume
from transcode.protocol.messages import Packet

VIDEO = VideoTrack(codec=VideoCodec.AVC, config=b"a", width=1280, height=720)
AUDIO = AudioTrack(codec=AudioCodec.AAC, config=b"d", rate=48_000, channels=2)
TIMES = range(7_000, 7_800, 40)
KEYFRAMES = range(7_000, 7_800, 200)
# The time 0 of the source that was on air is there on the output clock.
OFFSET = 3 * VIDEO_SCALE
# The sound of a time comes before its picture.
PACKETS = [
    Packet(video=video, dts=at, pts=at, key=at in KEYFRAMES, data=b"%d" % at)
    for at in TIMES
    for video in (False, True)
]


def mark_of(at: int, data: bytes = b"", *, apart: float = 0.0) -> SourceMark:
    """Return the mark of an encoder that has sent this keyframe."""
    keyframe = MediaPacket(track=VIDEO, dts=at, pts=at, key=True, data=data or b"%d" % at)
    return SourceMark.of(keyframe, apart)


def begins(end_ms: int, *marks: SourceMark) -> tuple[int, int | None] | None:
    """Return the time of the first picture that is left, and from which on pictures are shown.

    The media end at `end_ms` by the clock of the source that was on air.
    """
    place = ProgrammePlace(offset=OFFSET, marks=marks)
    resumed = resume(PACKETS, VIDEO, AUDIO, place, OFFSET + end_ms * 90)
    if resumed is None:
        return None
    left = [each for each in PACKETS if each not in resumed.dropped]
    assert left == PACKETS[-len(left) :]
    assert min(each.pts for each in left) == min(each.pts for each in left if each.video)
    return next(each.pts for each in left if each.video), resumed.show_from


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (7_320, (7_200, 7_320)),
        (7_321, (7_200, 7_320)),  # times of an encoder are whole milliseconds
        (7_319, (7_200, 7_320)),
        (7_400, (7_400, None)),
        (7_000, (7_000, None)),
        (8_500, (7_600, 8_492)),  # it has not come: whatever is less than half a picture before
        (99_000, (7_600, 7_760 + 3_000 - 8)),
        (6_900, None),  # it has gone
    ],
)
def test_the_same_source_goes_on_with_the_next_picture(
    end: int, expected: tuple[int, int | None] | None
) -> None:
    assert begins(end, mark_of(7_600)) == expected


def test_another_source_goes_on_at_the_same_moment_of_the_programme() -> None:
    marks = mark_of(7_200, b"of the one that is gone"), mark_of(7_600, apart=0.5)
    assert begins(6_820, *marks) == (7_200, 7_320)


@pytest.mark.parametrize("mark", [mark_of(7_600, b"other"), mark_of(7_640), mark_of(6_800)])
def test_a_source_whose_clock_is_not_known_begins_as_it_would_have(mark: SourceMark) -> None:
    assert begins(7_320, mark) is None
    assert begins(7_320) is None
