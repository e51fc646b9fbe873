"""Uploaded images: scaled in a sandboxed engine, or refused with a reason."""

import asyncio
from pathlib import Path

import pytest

from tests.support.api.upload_clips import picture
from tests.support.engine.upload_files import picture_size
from tests.support.transcode.flooding_engine import MIB, flood_engines, measured_growth
from transcode.inspect.still import NotImage, make_image, make_posters
from transcode.protocol.messages import Poster, Refused


async def stored(folder: Path, data: bytes) -> Path:
    path = folder / "image"
    await asyncio.to_thread(path.write_bytes, data)
    return path


async def test_an_image_is_scaled_for_each_rung_of_its_video(tmp_path: Path) -> None:
    path = await stored(tmp_path, picture(size="1280x720"))
    posters = await make_posters(path, 854, 480)
    assert {label: picture_size(data) for label, data in posters.items()} == {
        "480p": (852, 480),  # in the shape of the image
        "360p": (640, 360),
    }


async def test_an_image_is_fitted_into_a_box_and_never_scaled_up(tmp_path: Path) -> None:
    path = await stored(tmp_path, picture(size="320x240"))
    assert picture_size(await make_image(path, 160, 160)) == (160, 120)
    assert picture_size(await make_image(path, 1920, 1080)) == (320, 240)


async def test_a_text_is_refused_with_a_sentence(tmp_path: Path) -> None:
    path = await stored(tmp_path, b"no image")
    with pytest.raises(NotImage) as caught:
        await make_posters(path, 640, 360)
    assert caught.value.reason.endswith(".")


@pytest.mark.usefixtures("children_start")
async def test_pictures_without_an_end_are_refused_in_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    posters = [Poster(label=str(n), width=2, height=2, data=bytes(MIB)) for n in range(99)]
    flood_engines(monkeypatch, tmp_path, posters)
    path = await stored(tmp_path, b"a picture")
    with measured_growth() as growth:
        for make in (make_posters, make_image):
            with pytest.raises(NotImage, match="makes the reader fail"):
                await make(path, 640, 360)
    assert growth.peak < 32 * MIB


@pytest.mark.usefixtures("children_start")
async def test_a_reason_without_an_end_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flood_engines(monkeypatch, tmp_path, [Refused(reason="x" * 9_000)])
    with pytest.raises(NotImage, match="makes the reader fail"):
        await make_posters(await stored(tmp_path, b"a picture"), 640, 360)
