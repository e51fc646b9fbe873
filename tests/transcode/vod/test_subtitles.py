"""Subtitles from a file into the folder of a video."""

import asyncio
from pathlib import Path

import pytest

from media.hls.webvtt import Cue
from storage.catalog.records.transcoding import MadeSubtitles
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
    stored = await store_subtitles(objects, HASH, "1-1", tracks, 25_000)
    assert [(each.rendition, each.title, each.language) for each in stored] == [
        ("words1", "Deutsch", "de"),
        ("words2", "English", "en"),
    ]
    data = await objects.get(f"videos/{HASH}/1-1/words1/0.vtt")
    parts = [await objects.get(f"videos/{HASH}/1-1/words1/{n}.vtt") for n in (1, 2, 3)]
    assert sum(map(len, (data, *parts))) == stored[0].size
    assert data.decode() == (
        "WEBVTT\nX-TIMESTAMP-MAP=MPEGTS:900000,LOCAL:00:00:00.000\n"
        "\n00:00:02.000 --> 00:00:04.000\nGuten Morgen\n"
        "\n00:00:20.000 --> 00:00:22.000\nEnde\n"
    )


async def stored_segments(
    folder: Path, cues: tuple[Cue, ...], length_ms: int
) -> tuple[MadeSubtitles, list[str]]:
    """Store one track; return what was stored, and its segments without their headers."""
    objects = DiskObjects(folder)
    words = SubtitleTrack(language="en", title="", forced=False, cues=cues)
    (made,) = await store_subtitles(objects, HASH, "1-1", [words], length_ms)
    path = objects.path(f"videos/{HASH}/1-1/words1")
    assert len(list(path.iterdir())) == made.segments + 1
    texts = [(path / f"{number}.vtt").read_text() for number in range(1, made.segments + 1)]
    header = "WEBVTT\nX-TIMESTAMP-MAP=MPEGTS:900000,LOCAL:00:00:00.000\n"
    assert all(text.startswith(header) for text in texts)
    return made, [text.removeprefix(header) for text in texts]


async def test_a_track_is_cut_into_segments_that_each_have_what_is_shown_in_them(
    tmp_path: Path,
) -> None:
    cues = (Cue(1_000, 10_000, "a"), Cue(9_000, 21_000, "b"), Cue(40_000, 41_000, "c"))
    made, segments = await stored_segments(tmp_path, cues, 35_000)
    first, second, last = (
        "\n00:00:01.000 --> 00:00:10.000\na\n",
        "\n00:00:09.000 --> 00:00:21.000\nb\n",
        "\n00:00:40.000 --> 00:00:41.000\nc\n",
    )
    assert segments == [first + second, second, second, last]
    assert (made.segments, made.segment_ms) == (4, 10_000)
    assert made.peak == 97  # bits a second: the first has 122 bytes


@pytest.mark.parametrize(
    ("length_ms", "segments", "segment_ms"),
    [
        pytest.param(0, 1, 10_000, id="of an unknown length"),
        pytest.param(2_400_000, 240, 10_000, id="40 minutes"),
        pytest.param(7_200_000, 240, 30_000, id="a film"),
        pytest.param(36_000_000, 240, 150_000, id="ten hours"),
        pytest.param(86_400_000, 240, 360_000, id="a day"),
    ],
)
async def test_a_track_has_few_segments_however_long_it_is(
    tmp_path: Path, length_ms: int, segments: int, segment_ms: int
) -> None:
    made, _ = await stored_segments(tmp_path, (Cue(1_000, 2_000, "a"),), length_ms)
    assert (made.segments, made.segment_ms) == (segments, segment_ms)


@pytest.mark.parametrize(
    "odd", [Cue(0, 360_000_000, "for ever"), Cue(350_000_000, 360_000_000, "late")]
)
async def test_a_cue_after_the_end_makes_no_segment_longer(tmp_path: Path, odd: Cue) -> None:
    made, segments = await stored_segments(tmp_path, (Cue(1_000, 2_000, "a"), odd), 25_000)
    assert (made.segments, made.segment_ms) == (3, 10_000)
    assert odd.text in segments[-1]


async def test_words_that_are_always_shown_are_not_multiplied(tmp_path: Path) -> None:
    hours_ms = 10 * 3_600_000
    title, crawl = Cue(0, hours_ms, "Live"), Cue(0, hours_ms, "x" * MIB)
    made, segments = await stored_segments(tmp_path / "title", (title,), hours_ms)
    assert len(segments) == 240
    assert all("Live" in text for text in segments)
    made, _ = await stored_segments(tmp_path / "crawl", (title, crawl), hours_ms)
    assert (made.segments, made.segment_ms, made.peak) == (0, 0, 0)


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
    stored = await store_subtitles(DiskObjects(tmp_path), HASH, "1-1", tracks, 0)
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
