"""The picture encoder: the headers of its streams, and where its keyframes are."""

from fractions import Fraction
from itertools import pairwise

import pytest
from av.video.frame import PictureType, VideoFrame

from media.codecs.avc import AvcConfig
from media.codecs.sps import parse_sps
from media.hls.fmp4 import Sample
from media.ladder import BURST_SECONDS, Rendition
from media.track import VideoCodec, VideoTrack
from transcode.engine.codec.decode import TIME_BASE, TrackVideoDecoder
from transcode.engine.codec.encode import Quality, VideoEncoder

RUNG = Rendition(name="360p", width=640, height=360, rate=800_000)


def picture(number: int) -> VideoFrame:
    """A frame of a moving ramp, in BT.709, 30 a second."""
    frame = VideoFrame(640, 360, "yuv420p")
    luma = frame.planes[0]
    ramp = bytes((x + 5 * number) % 200 + 20 for x in range(luma.line_size))
    luma.update(ramp * 360)
    for plane in frame.planes[1:]:
        plane.update(bytes([128]) * plane.buffer_size)
    frame.colorspace = frame.color_primaries = frame.color_trc = 1
    frame.color_range = 1
    frame.pts, frame.time_base = number * 3_000, TIME_BASE
    return frame


def encoded(count: int, cuts: tuple[int, ...]) -> tuple[VideoEncoder, list[Sample]]:
    encoder = VideoEncoder(RUNG, picture(0), Fraction(30))
    samples: list[Sample] = []
    for number in range(count):
        frame = picture(number)
        frame.pict_type = PictureType.I if number in cuts else PictureType.NONE
        samples += encoder.encode(frame)
    return encoder, samples + encoder.encode(None)


def test_every_picture_comes_out_once_and_keyframes_are_where_the_cuts_are() -> None:
    _, samples = encoded(90, (0, 37, 60))
    assert sorted(sample.pts for sample in samples) == [number * 3_000 for number in range(90)]
    assert [sample.pts // 3_000 for sample in samples if sample.key] == [0, 37, 60]
    assert all(one.dts < two.dts for one, two in pairwise(samples))


def test_the_stream_plays_everywhere_and_declares_its_size_and_colours() -> None:
    encoder, samples = encoded(4, (0,))
    config = AvcConfig.parse(encoder.config)
    assert config.plays_everywhere
    assert (config.width, config.height, config.length_size) == (640, 360, 4)
    track = VideoTrack(codec=VideoCodec.AVC, config=encoder.config, width=640, height=360)
    decoder = TrackVideoDecoder(track, order_known=True)
    for sample in samples:
        decoder.decode(sample.data, sample.dts, sample.pts)
    for frame in decoder.drain():
        assert (frame.colorspace, frame.color_primaries, frame.color_trc) == (1, 1, 1)


@pytest.mark.parametrize(
    ("quality", "named"),
    [(Quality.LIVE, False), (Quality.FILE, False), (Quality.LOW_DELAY, True)],
)
def test_the_stream_names_the_frame_rate_or_none(quality: Quality, named: bool) -> None:
    encoder = VideoEncoder(RUNG, picture(0), Fraction(30), quality)
    (sps,) = AvcConfig.parse(encoder.config).sps
    vui = parse_sps(sps).vui
    assert (vui.timing is not None, vui.frame_rate) == (named, 30 if named else None)


def test_the_rate_stays_under_its_ceiling() -> None:
    _, samples = encoded(150, (0, 60, 120))
    bits = 8 * sum(len(sample.data) for sample in samples)
    # What may be sent at once comes on top of five seconds' rate.
    assert bits <= RUNG.rate * (5 + BURST_SECONDS)


def held_back(rate: int, quality: Quality) -> int:
    """Return how many pictures come after one, at most, before its sample does."""
    encoder = VideoEncoder(RUNG, picture(0), Fraction(rate), quality)
    most = 0
    for number in range(40):
        frame = picture(number)
        frame.pts = number * 90_000 // rate
        for sample in encoder.encode(frame):
            most = max(most, number - round(sample.pts * rate / 90_000))
    return most


@pytest.mark.parametrize(
    ("rate", "most"), [(60, 4), (50, 4), (30, 2), (25, 2), (24, 2), (15, 0), (10, 0), (1, 0)]
)
def test_with_low_delay_an_encoder_holds_few_pictures_back(rate: int, most: int) -> None:
    assert held_back(rate, Quality.LOW_DELAY) == most


def test_for_normal_latency_an_encoder_looks_ahead() -> None:
    assert held_back(30, Quality.LIVE) >= 10


def test_with_low_delay_keyframes_are_where_the_cuts_are() -> None:
    encoder = VideoEncoder(RUNG, picture(0), Fraction(60), Quality.LOW_DELAY)
    samples: list[Sample] = []
    for number in range(60):
        frame = picture(number)
        frame.pict_type = PictureType.I if number in (0, 31, 47) else PictureType.NONE
        samples += encoder.encode(frame)
    samples += encoder.encode(None)
    assert [sample.pts for sample in samples if sample.key] == [0, 31 * 3_000, 47 * 3_000]
