from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.support.engine.sources import LOW_720P
from tests.support.engine.upload_files import film
from tests.support.transcode.transcode_fixture import VodFixture, vod_fixture


@pytest.fixture
async def vod(tmp_path: Path) -> AsyncGenerator[VodFixture]:
    async with vod_fixture(tmp_path / "data") as opened:
        yield opened


@pytest.fixture(scope="session")
def short_film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """5 s of 854x480 with sound of 44.1 kHz."""
    folder = tmp_path_factory.mktemp("films")
    coding = (
        "-c:v",
        "libx264",
        "-preset",
        "ultrafast",
        "-g",
        "250",
        "-sc_threshold",
        "0",
        "-c:a",
        "aac",
    )
    return film(folder / "short.mp4", *coding, seconds=5, size=(854, 480))


@pytest.fixture(scope="session")
def long_film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """12 s that have the ladder of 720p."""
    folder = tmp_path_factory.mktemp("films")
    coding = (
        "-c:v",
        "libx264",
        "-preset",
        "ultrafast",
        "-g",
        "250",
        "-sc_threshold",
        "0",
        "-c:a",
        "aac",
    )
    return film(folder / "long.mp4", *coding, seconds=12, size=LOW_720P)
