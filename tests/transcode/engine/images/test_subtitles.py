"""Subtitles within files: of all kinds of text, of strangers, of hostile ones."""

import struct
from pathlib import Path

import pytest

from media.hls.webvtt import Cue
from tests.support.engine.sources import ffmpeg
from tests.support.engine.subtitled_files import ENGLISH, GERMAN, subtitled
from tests.support.engine.upload_files import EngineOutput, film, probed, read, refusal
from transcode.engine.images.subtitles import MOST_CUES, MOST_TEXT, MOST_TEXT_IN_ALL
from transcode.protocol.file_messages import SubtitleTrack
from transcode.protocol.messages import Trouble

X264 = ("-c:v", "libx264", "-preset", "ultrafast")


def extract_subtitles(path: Path) -> EngineOutput:
    output = read("subtitles", path)
    assert (output.status, output.complaints) == (0, "")
    return output


@pytest.mark.parametrize(
    ("name", "codec"),
    [("a.mp4", "mov_text"), ("a.mkv", "srt"), ("a.mkv", "ass"), ("a.mkv", "webvtt")],
)
def test_all_kinds_of_text_are_read(tmp_path: Path, name: str, codec: str) -> None:
    path = subtitled(tmp_path / name, (GERMAN, ENGLISH), seconds=3, shift=2, codec=codec)
    german, english = extract_subtitles(path).of(SubtitleTrack)
    assert (german.language, german.title, german.forced) == ("de", "Deutsch", False)
    assert german.cues == (
        Cue(2000, 4000, "Guten Morgen"),
        Cue(20_000, 22_000, "Ende"),
    )
    assert (english.language, english.cues[0].text) == ("en", "Good <i>morning</i>")
    assert probed(path).subtitles == 2


@pytest.mark.parametrize("name", ["a.mkv", "a.mp4"])
def test_words_before_the_first_ones_of_another_track_are_read(tmp_path: Path, name: str) -> None:
    early = ("eng", "Early", "1\n00:00:01,000 --> 00:00:02,000\nFirst\n")
    path = subtitled(tmp_path / name, (GERMAN, early), seconds=4)
    german, english = extract_subtitles(path).of(SubtitleTrack)
    assert [cue.start for cue in german.cues] == [2000, 20_000]
    assert english.cues == (Cue(1000, 2000, "First"),)


def test_a_film_without_subtitles_has_none(tmp_path: Path) -> None:
    path = film(tmp_path / "a.mp4", *X264, seconds=1, sound=None)
    assert extract_subtitles(path).of(SubtitleTrack) == []
    assert probed(path).subtitles == 0


def test_a_text_is_no_film(tmp_path: Path) -> None:
    (tmp_path / "a.srt").write_text(GERMAN[2])
    assert refusal(tmp_path / "a.srt", "subtitles")


def test_bitmap_subtitles_are_left_out_and_reported(tmp_path: Path) -> None:
    plain = film(tmp_path / "a.mkv", *X264, seconds=2, sound=None)
    (tmp_path / "b.sup").write_bytes(pictured())
    path = tmp_path / "b.mkv"
    ffmpeg("-i", plain, "-f", "sup", "-i", tmp_path / "b.sup", "-map", "0", "-map", "1", "-c",
           "copy", "-y", path)  # fmt: skip
    output = extract_subtitles(path)
    assert output.of(SubtitleTrack) == []
    (trouble,) = output.of(Trouble)
    assert (trouble.what, trouble.detail) == ("subtitles are pictures", "pgssub")


def pictured() -> bytes:
    """A Blu-ray's subtitles: a composition of nothing, and its end."""
    composition = struct.pack(">HHBHBBBB", 320, 180, 0x10, 1, 0x80, 0, 0, 0)
    parts = ((0x16, composition), (0x80, b""))
    return b"".join(
        b"PG" + struct.pack(">IIBH", 90_000, 0, kind, len(body)) + body for kind, body in parts
    )


def test_cues_before_the_film_or_without_an_end_are_corrected(tmp_path: Path) -> None:
    # Matroska stores any cue: one without a length, and one that ends before the first picture.
    words = (
        "1\n00:00:00,100 --> 00:00:00,900\nlost\n\n2\n00:00:00,500 --> 00:00:02,000\nlate\n\n"
        "3\n00:00:03,000 --> 00:00:03,000\nendless\n\n4\n00:00:05,000 --> 00:00:06,000\nlast\n"
    )
    (tmp_path / "a.srt").write_text(words)
    path = tmp_path / "a.mkv"
    ffmpeg("-itsoffset", "1", "-f", "lavfi", "-i", "testsrc2=s=320x180:r=25:d=2", "-i",
           tmp_path / "a.srt", *X264, "-c:s", "srt", "-copyts", "-y", path)  # fmt: skip
    (track,) = extract_subtitles(path).of(SubtitleTrack)
    assert [(cue.start, cue.text) for cue in track.cues if cue.text != "endless"] == [
        (0, "late"),
        (4000, "last"),
    ]
    assert all(cue.start < cue.end for cue in track.cues)


def test_markup_of_strangers_is_text(tmp_path: Path) -> None:
    words = "1\n00:00:00,000 --> 00:00:01,000\n<img src=x onerror=alert(1)>&<b>so</b> --> {\\an8}\n"
    path = subtitled(
        tmp_path / "a.mkv", (("eng", "<b>\x07Title</b>" + "y" * 500, words),), seconds=1
    )
    (track,) = extract_subtitles(path).of(SubtitleTrack)
    (cue,) = track.cues
    assert "<img" not in cue.text
    assert "-->" not in cue.text
    assert cue.text.replace("<b>so</b>", "").count("<") == 0
    assert len(track.title) <= 80


@pytest.mark.prove
def test_excessive_cues_are_cut_off(tmp_path: Path) -> None:
    count = MOST_CUES + 1000
    words = "".join(
        f"{index}\n{clock(index * 50)} --> {clock(index * 50 + 40)}\nx{index}\n\n"
        for index in range(count)
    )
    path = subtitled(tmp_path / "a.mkv", (("eng", "", words), ENGLISH), seconds=1)
    output = extract_subtitles(path)
    long, short = output.of(SubtitleTrack)
    assert (len(long.cues), len(short.cues)) == (MOST_CUES, 2)
    assert [each.what for each in output.of(Trouble)] == ["subtitles cut"]


@pytest.mark.prove
def test_excessive_texts_are_cut_off(tmp_path: Path) -> None:
    words = "".join(
        f"{index}\n{clock(index * 1000)} --> {clock(index * 1000 + 900)}\n{'y' * 2_500}\n\n"
        for index in range(MOST_TEXT // 2_000 + 10)
    )
    path = subtitled(tmp_path / "a.mkv", (("eng", "", words),), seconds=1)
    output = extract_subtitles(path)
    (track,) = output.of(SubtitleTrack)
    assert MOST_TEXT - 2_000 < sum(len(cue.text) for cue in track.cues) <= MOST_TEXT
    assert all(len(cue.text) == 2_000 for cue in track.cues)
    assert [each.what for each in output.of(Trouble)] == ["subtitles cut"]


@pytest.mark.prove
def test_many_long_tracks_share_what_their_reader_holds(tmp_path: Path) -> None:
    words = "".join(
        f"{index}\n{clock(index * 1000)} --> {clock(index * 1000 + 900)}\n{'y' * 2_000}\n\n"
        for index in range(1_000)
    )
    path = subtitled(tmp_path / "a.mkv", [("eng", str(n), words) for n in range(4)], seconds=1)
    output = extract_subtitles(path)
    letters = sum(len(cue.text) for track in output.of(SubtitleTrack) for cue in track.cues)
    assert MOST_TEXT_IN_ALL - 2_000 < letters <= MOST_TEXT_IN_ALL
    assert [each.what for each in output.of(Trouble)] == ["subtitles cut"]


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.prove) for seed in (2, 3))]
)
def test_damaged_words_leave_the_others(tmp_path: Path, seed: int) -> None:
    path = subtitled(tmp_path / "a.mkv", (ENGLISH,), seconds=1)
    data = bytearray(path.read_bytes())
    at = data.index(b"morning")
    data[at : at + 7] = bytes([0xFF, 0, seed, 0xC3, 0x28, 0x0D, 0x0A])
    path.write_bytes(data)
    (track,) = extract_subtitles(path).of(SubtitleTrack)
    assert track.cues[-1] == Cue(20_000, 22_000, "The end")


def clock(milliseconds: int) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02},{rest:03}"
