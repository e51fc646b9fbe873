"""What coded pictures are, told from their first bytes."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from media.codecs.avc import AvcConfig
from media.codecs.bits import CodecError
from media.track import VideoCodec, VideoTrack
from tests.support.engine.sources import Source
from transcode.engine.input.random_access import (
    AccessPoint,
    AccessPointParser,
    fits_config,
    same_parameter_sets,
)

AVC = AvcConfig.parse(
    bytes.fromhex(
        "0164001effe100196764001eacd940a02ff9610000030001000003003c0f162d9601000468ef8fcbfdf8f800"
    )
)  # 640x360, as libx264 writes it
HVCC = bytes((1, *bytes(20), 0xFF, 0))  # lengths of 4 bytes


def track(codec: VideoCodec, config: bytes = b"") -> VideoTrack:
    return VideoTrack(codec=codec, config=config, width=640, height=360)


def unit(kind: int, body: bytes = b"\x80") -> bytes:
    data = bytes((kind << 1, 1)) + body
    return len(data).to_bytes(4, "big") + data


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        pytest.param(19, AccessPoint.ENTRY, id="IDR"),
        pytest.param(21, AccessPoint.ENTRY, id="CRA"),
        pytest.param(16, AccessPoint.ENTRY, id="BLA"),
        pytest.param(9, AccessPoint.OTHER, id="RASL"),
        pytest.param(6, AccessPoint.OTHER, id="RADL"),
        pytest.param(1, AccessPoint.OTHER, id="a trailing picture"),
    ],
)
def test_hevc_is_read_whatever_the_source_calls_it(kind: int, expected: AccessPoint) -> None:
    of = AccessPointParser(track(VideoCodec.HEVC, HVCC), None)
    for key in (True, False):
        assert of.classify(unit(33) + unit(kind), key=key) is expected


@given(st.binary(max_size=200))
def test_any_bytes_are_an_access_or_an_error(data: bytes) -> None:
    assert (
        AccessPointParser(track(VideoCodec.HEVC, HVCC), None).classify(data, key=False)
        in AccessPoint
    )
    try:
        assert (
            AccessPointParser(track(VideoCodec.AVC), AVC).classify(data, key=False) in AccessPoint
        )
    except CodecError:
        return


@given(st.binary(max_size=60))
def test_any_set_is_alike_or_not(data: bytes) -> None:
    assert fits_config(prefixed(b"\x67" + data), AVC) is (b"\x67" + data in AVC.sps)


@pytest.mark.parametrize("codec", [VideoCodec.AV1, VideoCodec.VP9])
def test_other_codecs_are_taken_at_the_sources_word(codec: VideoCodec) -> None:
    of = AccessPointParser(track(codec), None)
    assert of.classify(b"x", key=True) is AccessPoint.ENTRY
    assert of.classify(b"x", key=False) is AccessPoint.OTHER


def test_h264_distinguishes_idr_pictures_from_other_keyframes(small: Source) -> None:
    assert small.video
    of = AccessPointParser(small.video, AvcConfig.parse(small.video.config))
    for packet in small.pictures:
        other = AccessPoint.ENTRY if packet.key else AccessPoint.KEY
        assert of.classify(packet.data, key=True) is other
        assert (of.classify(packet.data, key=False) is AccessPoint.ENTRY) is packet.key


def prefixed(*units: bytes) -> bytes:
    return b"".join(len(unit).to_bytes(4, "big") + unit for unit in units)


def test_parameter_sets_of_the_same_content_are_equal(small: Source, two_seconds: Source) -> None:
    assert small.video
    assert two_seconds.video
    config, other = (AvcConfig.parse(source.config) for source in (small.video, two_seconds.video))
    picture = small.pictures[0].data
    assert fits_config(picture, config)
    assert fits_config(prefixed(*config.sps, *config.pps) + picture, config)
    assert not fits_config(prefixed(*other.sps, *other.pps) + picture, config), "another size"
    baseline = bytes((config.sps[0][0], 66)) + config.sps[0][2:]
    assert not fits_config(prefixed(baseline) + picture, config), "another profile"
    assert not fits_config(prefixed(b"\x67\x64") + picture, config), "a set that is none"
    level = bytearray(config.sps[0])
    level[3] += 1
    assert fits_config(prefixed(bytes(level)) + picture, config), "no decoder minds a level"


def test_packets_follow_each_other_under_the_same_parameter_sets_alone() -> None:
    assert same_parameter_sets(AVC, msgspec.structs.replace(AVC, frame_rate=None, reorder=None))
    assert not same_parameter_sets(AVC, msgspec.structs.replace(AVC, pps=(AVC.pps[0] + b"\x80",)))
    assert not same_parameter_sets(
        AVC, msgspec.structs.replace(AVC, sps=(*AVC.sps, AVC.sps[0] + b"\x80"))
    )
    assert not same_parameter_sets(AVC, msgspec.structs.replace(AVC, length_size=2)), (
        "lengths are in packets"
    )
    assert not same_parameter_sets(None, None)
