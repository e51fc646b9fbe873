"""What a video has besides what plays: previews and subtitles, named and counted."""

from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec
import pytest

from storage.catalog.records.transcoding import MadeSubtitles
from tests.support.engine.subtitled_files import ENGLISH, GERMAN, subtitled
from tests.support.transcode.transcode_fixture import VodFixture, vod_fixture


@pytest.fixture
async def vod(tmp_path: Path) -> AsyncGenerator[VodFixture]:
    async with vod_fixture(tmp_path) as opened:
        yield opened


async def test_a_film_has_its_previews_and_subtitles_named_and_counted(
    vod: VodFixture, tmp_path: Path
) -> None:
    path = subtitled(tmp_path / "a.mkv", (GERMAN, ENGLISH), seconds=6)
    whole = await vod.transcode(path)
    hash_ = whole.video.hash
    (row,) = await vod.catalog.references.find_references([hash_])
    assert (row.media, row.previews) == ("1-1", "previews-1-1")
    words = msgspec.json.decode(row.subtitles, type=tuple[MadeSubtitles, ...])
    assert [(each.folder, each.title) for each in words] == [("1-1", "Deutsch"), ("1-1", "English")]
    multivariant = await vod.variants(whole)
    for each in multivariant.subtitles:
        playlist = await vod.playlist(whole, each.uri)
        assert len(playlist.segments) == 1
    names = {name.removeprefix(f"videos/{hash_}/") for name in await vod.stored_objects(hash_)}
    assert {"previews-1-1/previews.vtt", "previews-1-1/sheet-0.jpg", "1-1/words1/0.vtt"} <= names
    size = sum([len(await vod.objects.get(name)) for name in await vod.stored_objects(hash_)])
    assert whole.video.storage_size == size
    visibility = await vod.catalog.visibility.find(hash_)
    assert visibility is not None
    assert visibility.previews == "previews-1-1"


async def test_a_subtitle_that_is_shown_for_ever_leaves_segments_short(
    vod: VodFixture, tmp_path: Path
) -> None:
    """The file claims to last as long, which is 20 hours."""
    always = ("eng", "Name", "1\n00:00:01,000 --> 20:00:00,000\nThe name\n")
    whole = await vod.transcode(subtitled(tmp_path / "a.mkv", (GERMAN, always), seconds=12))
    subtitles = (await vod.variants(whole)).subtitles
    assert [each.name for each in subtitles] == ["Deutsch", "Name"]
    for each in subtitles:
        segments = (await vod.playlist(whole, each.uri)).segments
        assert [round(segment.duration / 90_000) for segment in segments] == [10, 2]
