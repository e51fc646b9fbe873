"""Posters of a video: one JPEG for each rung."""

from pathlib import Path

import pytest

from media.ladder import STANDARD_LABELS, ladder_for
from tests.support.engine.upload_files import picture_size
from tests.support.transcode.transcode_fixture import VodFixture
from transcode.inspect.probe import NotMedia
from transcode.vod.posters import PosterError, make_posters


async def test_posters_are_jpegs_of_each_rung(vod: VodFixture, short_film: Path) -> None:
    whole = await vod.transcode(short_film)
    video = whole.video
    assert (video.posters, video.labels) == ("poster-1-1", "480p,360p")
    assert video.image_us == video.completed_us
    sizes = {
        label: picture_size(
            await vod.objects.get(f"videos/{video.hash}/{video.posters}/{label}.jpg")
        )
        for label in video.labels.split(",")
    }
    assert sizes == {"480p": (854, 480), "360p": (640, 360)}


async def test_an_engine_that_takes_too_long_makes_no_posters(short_film: Path) -> None:
    with pytest.raises(PosterError, match="no answer within"):
        await make_posters(short_film, ladder_for(854, 480, STANDARD_LABELS), seconds=0.01)


async def test_a_file_without_media_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_text("no film")
    with pytest.raises(NotMedia):
        await make_posters(tmp_path / "a.mp4", None)
