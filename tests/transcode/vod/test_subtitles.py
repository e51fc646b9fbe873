"""Subtitles from a file into the folder of a video."""

import asyncio
from pathlib import Path

import pytest

from media.hls.webvtt import Cue
from storage.objects.disk import DiskObjects
from tests.support.engine.subtitled_files import ENGLISH, GERMAN, subtitled
from tests.support.transcode.flooding_engine import MIB, flood_engines, measured_growth
from tests.support.transcode.scripted_engine import script_engines
from transcode.protocol.file_messages import MOST_SUBTITLES, SubtitleTrack
from transcode.protocol.messages import Trouble
from transcode.vod.subtitles import read_subtitles, store_subtitles

HASH = "abcdefABCDEF"


def track(title: str = "", language: str = "", *, forced: bool = False) -> SubtitleTrack:
    cues = (Cue(1000, 2000, "Hello"),)
    return SubtitleTrack(language=language, title=title, forced=forced, cues=cues)


async def test_the_words_of_a_file_are_read_and_stored(tmp_path: Path) -> None:
    path = subtitled(tmp_path / "a.mkv", (GERMAN, ENGLISH), seconds=1)
    warnings: dict[str, int] = {}
    tracks = await read_subtitles("film", path, warnings)
    assert warnings == {}
    objects = DiskObjects(tmp_path / "objects")
    stored = await store_subtitles(objects, HASH, "1-1", tracks)
    assert [(each.rendition, each.title, each.language) for each in stored] == [
        ("words1", "Deutsch", "de"),
        ("words2", "English", "en"),
    ]
    data = await objects.get(f"videos/{HASH}/1-1/words1/0.vtt")
    assert len(data) == stored[0].size
    assert data.decode() == (
        "WEBVTT\nX-TIMESTAMP-MAP=MPEGTS:900000,LOCAL:00:00:00.000\n"
        "\n00:00:02.000 --> 00:00:04.000\nGuten Morgen\n"
        "\n00:00:20.000 --> 00:00:22.000\nEnde\n"
    )


async def test_a_file_that_cannot_be_read_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "a.mkv").write_text("no film")
    warnings: dict[str, int] = {}
    assert await read_subtitles("film", tmp_path / "a.mkv", warnings) == ()
    assert warnings == {"subtitles not read": 1}


async def test_time_that_is_up_is_a_warning(tmp_path: Path) -> None:
    path = subtitled(tmp_path / "a.mkv", (ENGLISH,), seconds=1)
    warnings: dict[str, int] = {}
    assert await read_subtitles("film", path, warnings, seconds=0.001) == ()
    assert warnings == {"subtitles not read": 1}


@pytest.mark.usefixtures("children_start")
async def test_an_engine_that_reads_too_many_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    troubles = [Trouble(what=what, detail="") for what in ("subtitles cut", "anything")]
    tracks = [track(str(number)) for number in range(MOST_SUBTITLES + 1)]
    script_engines(monkeypatch, tmp_path, [*troubles, *tracks], lasts=True)
    path = subtitled(tmp_path / "a.mkv", (ENGLISH,), seconds=1)
    warnings: dict[str, int] = {}
    async with asyncio.timeout(20):
        assert await read_subtitles("film", path, warnings) == tuple(tracks[:MOST_SUBTITLES])
    assert warnings == {"subtitles cut": 1, "subtitles not read": 1}


async def test_no_two_are_called_alike_and_all_can_be_named(tmp_path: Path) -> None:
    tracks = [
        track("English"),
        track("English", "en"),
        track(language="en"),
        track(language="gsw"),
        track(),
        track('a"b\n\x07c', forced=True),
        track("\x00"),
    ]
    stored = await store_subtitles(DiskObjects(tmp_path), HASH, "1-1", tracks)
    assert [each.title for each in stored] == [
        "English", "English (2)", "English (3)", "gsw", "Subtitles", "a b c", "Subtitles (2)",
    ]  # fmt: skip
    assert [each.forced for each in stored] == [False] * 5 + [True, False]


@pytest.mark.usefixtures("children_start")
async def test_words_without_an_end_are_a_warning_and_little_memory(
    tmp_path: Path, short_film: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cues = (Cue(0, 1, "x" * 4 * MIB),)
    flood_engines(
        monkeypatch, tmp_path, [SubtitleTrack(language="", title="", forced=False, cues=cues)]
    )
    warnings: dict[str, int] = {}
    with measured_growth() as growth:
        tracks = await read_subtitles("film", short_film, warnings)
    assert warnings == {"subtitles not read": 1}
    assert len(tracks) == 5
    assert growth.peak < 64 * MIB
