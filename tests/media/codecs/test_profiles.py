import random

import pytest

from media.codecs.profiles import AUDIO_NAMES, VIDEO_NAMES, VideoProfile, profile_of
from media.track import AudioCodec, VideoCodec, VideoTrack
from tests.support.media.avc_records import config_of


def track(codec: VideoCodec, config: bytes) -> VideoTrack:
    return VideoTrack(codec=codec, config=config, width=2, height=2)


def test_every_codec_has_a_name() -> None:
    assert set(VIDEO_NAMES) == set(VideoCodec)
    assert set(AUDIO_NAMES) == set(AudioCodec)


def test_h264_by_x264() -> None:
    # 1280x720, 30 frames a second, by libx264 (High, level 3.1).
    sps = bytes.fromhex("6764001facd9405005bb016a02020280000003008000001e478c18cb")
    profile = profile_of(track(VideoCodec.AVC, config_of(sps, bytes.fromhex("68ebecb22c"))))
    assert profile == VideoProfile(
        profile="High", level="3.1", frame_rate=30.0, plays_everywhere=True
    )


def test_hevc_and_av1_by_their_records() -> None:
    hvcc = bytes([1, 2, *bytes(10), 93, *bytes(10)])
    assert profile_of(track(VideoCodec.HEVC, hvcc)) == VideoProfile(profile="Main 10", level="3.1")
    av1c = bytes([0x81, 0 << 5 | 8, 0, 0])
    assert profile_of(track(VideoCodec.AV1, av1c)) == VideoProfile(profile="Main", level="4.0")
    unbounded = bytes([0x81, 1 << 5 | 31, 0, 0])
    assert profile_of(track(VideoCodec.AV1, unbounded)) == VideoProfile(profile="High", level=None)
    assert profile_of(track(VideoCodec.VP9, b"")) == VideoProfile()


@pytest.mark.parametrize("codec", list(VideoCodec))
def test_any_bytes_give_a_value(codec: VideoCodec) -> None:
    chance = random.Random(codec.value)
    for length in range(64):
        profile_of(track(codec, chance.randbytes(length)))
        profile_of(track(codec, b"\x01" + chance.randbytes(length)))
