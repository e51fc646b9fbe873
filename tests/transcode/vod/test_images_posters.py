"""Posters of a video: one JPEG for each rung."""

import asyncio
from pathlib import Path

import pytest

from media.ladder import STANDARD_LABELS, Ladder, ladder_for
from tests.support.engine.upload_files import picture_size
from tests.support.transcode.flooding_engine import MIB, flood_engines, measured_growth
from tests.support.transcode.scripted_engine import script_engines
from tests.support.transcode.transcode_fixture import VodFixture
from transcode.inspect.probe import NotMedia
from transcode.protocol.messages import EngineReport, Poster, Previews, Trouble
from transcode.vod.images import PosterError, make_images


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
        await make_images("Ab3", short_film, ladder_for(854, 480, STANDARD_LABELS), seconds=0.01)


async def test_a_file_without_media_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_text("no film")
    with pytest.raises(NotMedia):
        await make_images("Ab3", tmp_path / "a.mp4", None)


async def test_without_a_ladder_there_are_covers_of_two_sizes(short_film: Path) -> None:
    images = await make_images("Ab3", short_film, None)
    assert [each.label for each in images.posters] == ["720p", "360p"]


@pytest.mark.usefixtures("children_start")
@pytest.mark.parametrize(
    ("ladder", "most"), [(ladder_for(1280, 720, STANDARD_LABELS), 3), (None, 2)]
)
async def test_an_engine_that_makes_too_many_posters_is_ended(
    tmp_path: Path,
    short_film: Path,
    monkeypatch: pytest.MonkeyPatch,
    ladder: Ladder | None,
    most: int,
) -> None:
    poster = Poster(label="480p", width=2, height=2, data=b"x")
    script_engines(monkeypatch, tmp_path, [poster] * (most + 1), lasts=True)
    async with asyncio.timeout(20):
        images = await make_images("Ab3", short_film, ladder)
    assert len(images.posters) == most


@pytest.mark.usefixtures("children_start")
@pytest.mark.parametrize(
    "flood",
    [
        Previews(width=2, height=2, columns=1, per_sheet=1, times=(0,), sheets=(bytes(11 * MIB),)),
        Trouble(what="x", detail="y" * 8_000),
    ],
)
async def test_an_engine_that_floods_makes_no_posters(
    flood: EngineReport, tmp_path: Path, short_film: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flood_engines(monkeypatch, tmp_path, [flood])
    with measured_growth() as growth, pytest.raises(PosterError):
        await make_images("Ab3", short_film, None)
    assert growth.peak < 64 * MIB
