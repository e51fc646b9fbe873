import shlex
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest

from storage.objects.disk import DiskObjects
from tests.support.engine.upload_files import film
from tests.support.shared_engines import ON_SHARED, bucket_objects
from tests.support.storage.s3_server import S3Server
from tests.support.transcode.transcode_fixture import VodFixture, vod_fixture

_ONE_KEYFRAME = shlex.split("-c:v libx264 -preset ultrafast -g 250 -sc_threshold 0 -c:a aac")


@pytest.fixture
def vod_engines(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Generator[tuple[str, DiskObjects] | None]:
    """The database and the bucket of `vod` on shared engines, else None."""
    if not ON_SHARED:
        yield None
        return
    server: S3Server = request.getfixturevalue("s3_server")
    with bucket_objects(server, tmp_path / "scratch") as store:
        yield request.getfixturevalue("postgres_database"), store


@pytest.fixture
async def vod(
    vod_engines: tuple[str, DiskObjects] | None, tmp_path: Path
) -> AsyncGenerator[VodFixture]:
    location, store = vod_engines or (None, None)
    async with vod_fixture(tmp_path / "data", location=location, store=store) as opened:
        yield opened


@pytest.fixture(scope="session")
def short_film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """5 s of 854x480 with 44.1 kHz audio."""
    folder = tmp_path_factory.mktemp("films")
    return film(folder / "short.mp4", *_ONE_KEYFRAME, seconds=5, size=(854, 480))


@pytest.fixture(scope="session")
def long_film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """12 s with the ladder of 720p."""
    folder = tmp_path_factory.mktemp("films")
    return film(folder / "long.mp4", *_ONE_KEYFRAME, seconds=12, size=(960, 96))
