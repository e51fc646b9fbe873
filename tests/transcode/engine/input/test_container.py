"""Which tracks of a file are used, and how many it may have."""

from pathlib import Path

import pytest

from tests.support.engine.made_assets import film_for
from tests.support.engine.sources import ffmpeg
from tests.support.engine.upload_files import film, read, refusal
from tests.support.transcode.corpus_bytes import elements, inserted
from transcode.engine.input.container import MOST_TRACKS, audio_stream, open_upload, video_stream

_MORE = ("-f", "lavfi", "-i", "anullsrc=r=8000:cl=mono:d=0.1")


def tracks(path: Path, count: int) -> Path:
    """Make a file of one picture and `count` tracks of sound."""
    picture = ("-f", "lavfi", "-i", "color=s=64x64:d=0.1")
    sound = [word for _ in range(count) for word in ("-map", "1")]
    coding = ("-c:v", "libx264", "-preset", "ultrafast", "-c:a", "pcm_u8", "-live", "1")
    ffmpeg(*picture, *_MORE, "-map", "0", *sound, *coding, "-y", path)
    return path


def test_tracks_up_to_the_limit_are_read(tmp_path: Path) -> None:
    path = tracks(tmp_path / "a.mkv", 120)
    with path.open("rb") as file, open_upload(file.fileno()) as upload:
        assert len(upload.streams) == 121
        picture, sound = video_stream(upload), audio_stream(upload)
        assert picture is not None
        assert sound is not None
        assert (picture.index, sound.index) == (0, 1)


def test_a_file_at_the_limit_is_refused_for_that(tmp_path: Path) -> None:
    data = tracks(tmp_path / "whole.mkv", 1).read_bytes()
    *_, sound = [each for each in elements(data) if each.id == 0xAE]  # a TrackEntry
    path = tmp_path / "a.mkv"
    path.write_bytes(inserted(data, 0x1654AE6B, data[sound.at : sound.end] * MOST_TRACKS))
    assert refusal(path) == "The file has 1,000 tracks or more."


def test_more_channels_than_can_be_mixed_are_refused(tmp_path: Path) -> None:
    silence = ("-f", "lavfi", "-i", f"aevalsrc={'|'.join(20 * ['0'])}:s=8000:d=0.1")
    ffmpeg(*silence, "-c:a", "pcm_s16le", "-y", tmp_path / "a.mov")
    assert refusal(tmp_path / "a.mov") == "The sound has 20 channels; at most 18 can be mixed."


# Two pictures, the second one the larger, each with a sound: the second one has two channels.
_FOUR = (
    *("-f", "lavfi", "-i", "color=s=64x64:d=0.4", "-f", "lavfi", "-i", "anullsrc=cl=mono:d=0.4"),
    *("-f", "lavfi", "-i", "color=s=128x128:d=0.4", "-f", "lavfi", "-i", "anullsrc=d=0.4"),
)


@pytest.mark.parametrize(
    "programmes",
    [
        pytest.param(("st=0:st=1", "st=2:st=3"), id="the smaller picture first"),
        pytest.param(("st=2:st=3", "st=0:st=1"), id="the larger picture first"),
        pytest.param(("st=1", "st=0:st=2:st=3"), id="sound alone first"),
    ],
)
def test_the_sound_is_of_the_programme_of_the_picture(
    tmp_path: Path, programmes: tuple[str, str]
) -> None:
    maps = [word for track in range(4) for word in ("-map", str(track))]
    coding = ("-c:v", "mpeg2video", "-c:a", "mp2")
    named = [word for each in programmes for word in ("-program", each)]
    ffmpeg(*_FOUR, *maps, *coding, *named, "-y", tmp_path / "a.ts")
    with (tmp_path / "a.ts").open("rb") as file, open_upload(file.fileno()) as upload:
        picture, sound = video_stream(upload), audio_stream(upload)
        assert picture is not None
        assert sound is not None
        assert (picture.width, sound.codec_context.channels) == (128, 2)


def test_a_file_is_opened_whose_sound_begins_after_what_is_probed(tmp_path: Path) -> None:
    silent, heard, path = (tmp_path / name for name in ("a.ts", "b.ts", "joined.ts"))
    picture = ("-f", "lavfi", "-i", "color=s=64x64:r=25:d=8")
    ffmpeg(*picture, "-c:v", "mpeg2video", "-y", silent)
    ffmpeg(*picture, "-f", "lavfi", "-i", "sine=d=2", "-c:v", "mpeg2video", "-c:a", "aac", heard)
    path.write_bytes(silent.read_bytes() + heard.read_bytes())
    with path.open("rb") as file, open_upload(file.fileno()) as upload:
        assert video_stream(upload) is not None


def padded(flv: bytes, size: int) -> bytes:
    """Return a FLV with a script tag at its end that makes it `size` bytes long."""
    body = size - len(flv) - 15
    tag = b"\x12" + body.to_bytes(3, "big") + bytes(7) + b"FLV\x01".ljust(body, b"\0")
    return flv + tag + len(tag).to_bytes(4, "big")


@pytest.mark.parametrize(
    ("size", "count", "is_joined"),
    [
        pytest.param(1 << 17, 1, False, id="one, with a mark in a packet"),
        pytest.param(1 << 17, 2, True, id="two"),
        pytest.param((1 << 18) - 4, 2, True, id="a header that is read in two pieces"),
    ],
)
def test_several_files_in_a_flv_are_noticed(
    tmp_path: Path, size: int, count: int, is_joined: bool
) -> None:
    made = film(tmp_path / "a.flv", "-c:v", "flv", seconds=1, size=(64, 64), sound=None)
    one = padded(made.read_bytes(), size)
    (tmp_path / "b.flv").write_bytes(count * one)
    output = read("asset", tmp_path / "b.flv", film_for(tmp_path / "b.flv"))
    assert (output.status, output.complaints) == (0, "")
    assert ("files joined" in output.troubles) is is_joined
