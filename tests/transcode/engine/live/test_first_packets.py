"""The frame rate of a source, measured from its first packets."""

from fractions import Fraction

import pytest

from media.ladder import ladder_for
from media.track import AudioCodec, AudioTrack, VideoCodec, VideoTrack
from transcode.engine.live.first_packets import FirstPackets
from transcode.engine.output.part_lengths import FrameInterval
from transcode.protocol.messages import Begin, Packet

VIDEO = VideoTrack(codec=VideoCodec.AVC, config=b"", width=640, height=360)
AUDIO = AudioTrack(codec=AudioCodec.AAC, config=b"", rate=48_000, channels=2)


def first(*, video: VideoTrack | None = VIDEO) -> FirstPackets:
    ladder = ladder_for(640, 360, frozenset())
    return FirstPackets(
        Begin(
            epoch=0, video=video, audio=AUDIO, ladder=ladder, start=0, sequence=0, inits={},
            discontinuity=False,
        )
    )  # fmt: skip


def picture(dts: int, *, late: int = 0) -> Packet:
    return Packet(video=True, dts=dts, pts=dts + late, key=False, data=b"")


def sound(dts: int) -> Packet:
    return Packet(video=False, dts=dts, pts=dts, key=True, data=b"")


def fed(rate: Fraction | float, *, since: int = 5_000) -> FirstPackets:
    """As many pictures in whole milliseconds as are needed."""
    first_packets, number = first(), 0
    while not first_packets.suffice:
        first_packets.add(picture(since + int(number * 1000 / rate)))
        number += 1
    return first_packets


@pytest.mark.parametrize("rate", [1, 2, 3, 5, 7, 12, 24, 25, 29.97, 30, 48, 50, 59.94, 60])
def test_the_rate_of_a_source_that_declares_none_is_measured(rate: float) -> None:
    interval = fed(rate).frame_interval(None)
    assert interval is not None
    assert abs(interval.ticks - 90_000 / rate) <= interval.error
    assert interval.error <= 90


@pytest.mark.parametrize(("rate", "count"), [(60, 19), (30, 10), (25, 9), (3, 2), (1, 2)])
def test_no_more_packets_are_held_than_the_measurement_needs(rate: int, count: int) -> None:
    assert len(fed(rate).packets) == count


def test_a_declared_rate_is_more_exact_than_the_measured_one() -> None:
    assert fed(30).frame_interval(Fraction(30_000, 1001)) == FrameInterval(Fraction(3_003))


@pytest.mark.parametrize("declared", [15, 60, 50, 25])
def test_a_declared_rate_that_is_wrong_does_not_count(declared: int) -> None:
    interval = fed(30).frame_interval(Fraction(declared))
    assert interval is not None
    assert abs(interval.ticks - 3_000) <= interval.error


def test_a_dropped_picture_does_not_count() -> None:
    first_packets = first()
    for number in (0, 1, 2, 3, 7, 8, 9):
        first_packets.add(picture(number * 40))
    assert first_packets.frame_interval(None) == FrameInterval(Fraction(3_600), Fraction(18))


def test_a_single_picture_shows_nothing() -> None:
    first_packets = first()
    first_packets.add(picture(0))
    assert first_packets.frame_interval(None) is None
    assert first_packets.frame_interval(Fraction(25)) == FrameInterval(Fraction(3_600))


def test_a_picture_that_stays_alone_is_not_waited_for_longer_than_a_second_and_a_half() -> None:
    first_packets = first()
    first_packets.add(picture(0))
    for at in range(0, 1_500, 20):
        assert not first_packets.suffice
        first_packets.add(sound(at))
    first_packets.add(sound(1_500))
    assert first_packets.suffice


def test_packets_whose_times_do_not_rise_are_bounded() -> None:
    first_packets = first()
    while not first_packets.suffice:
        first_packets.add(picture(7))
    assert len(first_packets.packets) <= 220
    assert first_packets.frame_interval(None) is None


def test_sound_alone_is_not_held() -> None:
    assert first(video=None).suffice


def test_pictures_that_are_shown_as_they_are_decoded_are_not_reordered() -> None:
    first_packets = first()
    for number in range(4):
        first_packets.add(picture(number * 33))
    assert not first_packets.is_reordered
    first_packets.add(picture(4 * 33, late=67))
    assert first_packets.is_reordered
