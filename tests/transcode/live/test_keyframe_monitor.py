import pytest

from media.packet import MediaPacket
from media.track import AudioCodec, AudioTrack, VideoTrack
from tests.support.counted_calls import counted_calls
from tests.support.engine.sources import Source, scenes, source_of
from transcode.live.keyframe_monitor import KeyframeMonitor

AUDIO = AudioTrack(codec=AudioCodec.AAC, config=b"d", rate=48_000, channels=2)
IDR = (1).to_bytes(4, "big") + b"\x65"
PLAIN = (1).to_bytes(4, "big") + b"\x41"


@pytest.fixture(scope="module")
def track(tmp_path_factory: pytest.TempPathFactory) -> VideoTrack:
    path = tmp_path_factory.mktemp("source") / "small.flv"
    source: Source = source_of(scenes(path, seconds=1, gop=1, size=(256, 144)))
    assert source.video is not None
    return source.video


def time_of_return(
    keyframes: KeyframeMonitor, track: VideoTrack, every: int, upto: int, data: bytes = IDR
) -> int | None:
    """Send keyframes every so many ms; return when the rung goes back to the source."""
    for at in range(0, upto, 500):
        key = at % every == 0
        packet = MediaPacket(track=track, dts=at, pts=at, key=key, data=data if key else PLAIN)
        if keyframes.find_regular([packet]) == 0:
            return at
    return None


def test_nothing_is_watched_before_the_encoder_took_over(track: VideoTrack) -> None:
    assert time_of_return(KeyframeMonitor(), track, 2000, 60_000) is None


def test_regular_keyframes_get_the_rung_back_and_wait_twice_as_long_the_next_time(
    track: VideoTrack,
) -> None:
    keyframes = KeyframeMonitor()
    keyframes.watch(track)
    assert time_of_return(keyframes, track, 2000, 60_000) == 8_000
    keyframes.watch(track)
    assert time_of_return(keyframes, track, 2000, 60_000) == 16_000


def test_keyframes_that_are_too_far_apart_never_do(track: VideoTrack) -> None:
    keyframes = KeyframeMonitor()
    keyframes.watch(track)
    assert time_of_return(keyframes, track, 8000, 600_000) is None


def test_keyframes_that_are_no_idr_never_do(track: VideoTrack) -> None:
    keyframes = KeyframeMonitor()
    keyframes.watch(track)
    assert time_of_return(keyframes, track, 2000, 600_000, PLAIN) is None
    keyframes.watch(track)
    assert time_of_return(keyframes, track, 2000, 600_000, b"\0\0\0\xff") is None


def test_a_new_beginning_forgets(track: VideoTrack) -> None:
    keyframes = KeyframeMonitor()
    keyframes.watch(track)
    keyframes.stop()
    assert time_of_return(keyframes, track, 2000, 60_000) is None


def test_sound_is_ignored(track: VideoTrack) -> None:
    keyframes = KeyframeMonitor()
    keyframes.watch(track)
    for at in range(0, 60_000, 100):
        packet = MediaPacket(track=AUDIO, dts=at, pts=at, key=True, data=IDR)
        assert keyframes.find_regular([packet]) is None


def test_a_packet_of_millions_of_units_is_judged_by_the_first_ones(track: VideoTrack) -> None:
    # They are read on the event loop, which serves all streams.
    keyframes = KeyframeMonitor()
    keyframes.watch(track)
    data = (b"\0\0\0\1\x06" * 200_000) + IDR
    packet = MediaPacket(track=track, dts=0, pts=0, key=True, data=data)
    with counted_calls() as count:
        assert keyframes.find_regular([packet]) is None
    assert count.calls < 1_000
