"""The decoders, with packets of real encoders."""

from fractions import Fraction

import pytest
from av.error import FFmpegError

from tests.support.engine.sources import Source
from tests.support.engine.undeclared_order import undeclared_order
from transcode.engine.codec.decode import TrackVideoDecoder


def decoded(source: Source) -> list[int | None]:
    assert source.video is not None
    decoder = TrackVideoDecoder(source.video, order_known=True)
    times: list[int | None] = []
    for packet in source.pictures:
        times += [frame.pts for frame in decoder.decode(packet.data, packet.dts, packet.pts)]
    return times + [frame.pts for frame in decoder.drain()]


def test_frames_come_in_showing_order_with_the_packets_times(small: Source) -> None:
    assert decoded(small) == sorted(packet.pts for packet in small.pictures)


def test_the_shape_of_a_pixel_is_learnt(small: Source) -> None:
    assert small.video is not None
    decoder = TrackVideoDecoder(small.video, order_known=True)
    for packet in small.pictures[:8]:
        decoder.decode(packet.data, packet.dts, packet.pts)
    assert decoder.aspect in (None, Fraction(1))


def test_a_damaged_packet_is_an_error_and_the_next_keyframe_is_not(small: Source) -> None:
    assert small.video is not None
    decoder = TrackVideoDecoder(small.video, order_known=True)
    with pytest.raises(FFmpegError):
        decoder.decode(b"\x00\x00\xff\xff broken", 0, 0)
    again = [packet for packet in small.pictures if packet.key][1]
    assert decoder.decode(again.data, again.dts, again.pts) + decoder.drain()


@pytest.mark.parametrize(("order_known", "most"), [(True, 0), (False, 5)])
def test_a_decoder_waits_for_reordering_only_if_there_may_be_any(
    *, order_known: bool, most: int
) -> None:
    """A level of 720p allows five frames in front of another; the source sends them in order."""
    track, packets = undeclared_order(20)
    decoder = TrackVideoDecoder(track, order_known=order_known)
    frame_count = 0
    for number, data in enumerate(packets):
        frame_count += len(decoder.decode(data, number * 3_000, number * 3_000))
        assert number + 1 - frame_count <= most
    assert frame_count == len(packets) - most
    assert len(decoder.drain()) == most
