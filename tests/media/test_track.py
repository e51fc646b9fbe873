import msgspec
import pytest

from media.ticks import MILLISECONDS
from media.track import AudioCodec, AudioTrack, Track, VideoCodec, VideoTrack

VIDEO = VideoTrack(codec=VideoCodec.HEVC, config=b"hvcC", width=1280, height=720)
AUDIO = AudioTrack(codec=AudioCodec.EAC3, config=b"", rate=48_000, channels=6)


@pytest.mark.parametrize("track", [VIDEO, AUDIO], ids=["video", "audio"])
def test_tracks_are_distinguished_by_their_tag_in_messages(track: VideoTrack | AudioTrack) -> None:
    decoded = msgspec.msgpack.decode(msgspec.msgpack.encode(track), type=Track)
    assert decoded == track
    assert decoded.scale == MILLISECONDS


def test_codecs_are_named_by_their_sample_entries() -> None:
    assert {codec.name: codec.value for codec in VideoCodec} == {
        "AVC": "avc1", "HEVC": "hvc1", "AV1": "av01", "VP9": "vp09",
    }  # fmt: skip
    assert {codec.name: codec.value for codec in AudioCodec} == {
        "AAC": "mp4a", "OPUS": "Opus", "MP3": ".mp3", "FLAC": "fLaC", "AC3": "ac-3",
        "EAC3": "ec-3",
    }  # fmt: skip
