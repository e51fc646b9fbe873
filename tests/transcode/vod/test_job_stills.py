"""What a video has besides what plays: previews and subtitles, named and counted."""

from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec
import pytest

from storage.catalog.records.transcoding import MadeSubtitles
from tests.support.engine.subtitled_files import ENGLISH, GERMAN, subtitled
from tests.support.transcode.transcode_fixture import Shop, shop

pytestmark = pytest.mark.anyio


@pytest.fixture
async def house(tmp_path: Path) -> AsyncGenerator[Shop]:
    async with shop(tmp_path) as house:
        yield house


async def test_a_film_has_its_previews_and_subtitles_named_and_counted(
    house: Shop, tmp_path: Path
) -> None:
    path = subtitled(tmp_path / "a.mkv", (GERMAN, ENGLISH), seconds=6)
    whole = await house.made(path)
    hash_ = whole.video.hash
    (row,) = await house.catalog.references.standing([hash_])
    assert (row.media, row.previews) == ("1-1", "previews-1-1")
    words = msgspec.json.decode(row.subtitles, type=tuple[MadeSubtitles, ...])
    assert [(each.folder, each.title) for each in words] == [("1-1", "Deutsch"), ("1-1", "English")]
    found = await house.variants(whole)
    for each in found.subtitles:
        playlist = await house.playlist(whole, each.uri)
        assert len(playlist.segments) == 1
    names = {name.removeprefix(f"videos/{hash_}/") for name in await house.made_for(hash_)}
    assert {"previews-1-1/previews.vtt", "previews-1-1/sheet-0.jpg", "1-1/words1/0.vtt"} <= names
    size = sum([len(await house.objects.get(name)) for name in await house.made_for(hash_)])
    assert whole.video.storage_size == size
    shown = await house.catalog.visibility.find(hash_)
    assert shown is not None
    assert shown.previews == "previews-1-1"
