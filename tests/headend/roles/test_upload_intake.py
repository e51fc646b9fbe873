"""Uploads probed by real engines: their facts, or a reason for the sender."""

from pathlib import Path

import pytest

from api.intake.limits import UploadLimits
from headend.roles.upload_intake import (
    create_intake,
    probe_upload,
    uploaded_posters,
    uploaded_slate,
)
from storage.file_intake import FileFacts, FileRefused
from storage.objects.disk import DiskObjects
from storage.objects.s3 import S3Objects
from storage.objects.s3_bucket import MOST_BYTES, S3Location
from tests.support.api.upload_clips import clip, picture
from tests.support.engine.upload_files import picture_size


def stored(folder: Path, data: bytes) -> Path:
    path = folder / "upload"
    path.write_bytes(data)
    return path


async def test_a_video_is_accepted_with_its_size_and_length(tmp_path: Path) -> None:
    probe = await probe_upload(stored(tmp_path, clip()))
    assert probe is not None
    assert (probe.width, probe.height) == (640, 360)
    assert abs(probe.length_us - 1_000_000) < 100_000


async def test_a_picture_becomes_posters_and_a_slate(tmp_path: Path) -> None:
    path = stored(tmp_path, picture(size="2400x1350"))
    posters = await uploaded_posters(path, 640, 360)
    assert {label: picture_size(data) for label, data in posters.items()} == {"360p": (640, 360)}
    assert picture_size(await uploaded_slate(path)) == (1920, 1080)


async def test_a_file_that_is_no_video_or_picture_is_refused_with_a_reason(tmp_path: Path) -> None:
    path = stored(tmp_path, b"Dear diary")
    for looked in (probe_upload(path), uploaded_posters(path, 640, 360), uploaded_slate(path)):
        with pytest.raises(FileRefused) as refused:
            await looked
        assert refused.value.reason.endswith(".")


async def test_an_intake_has_the_configured_limits(tmp_path: Path) -> None:
    with DiskObjects(tmp_path) as objects:
        limits = UploadLimits(most_bytes=7)
        intake = create_intake(objects, 5, limits)
        assert (intake.least_free, intake.most_upload) == (5, 7)
        assert intake.keep_us == limits.keep_us
        assert intake.pieces is None
        assert create_intake(objects, 5, limits, shared=True).pieces is not None
        assert await intake.probe(stored(tmp_path, clip())) == FileFacts(
            length_us=1_000_000, width=640, height=360
        )


def test_an_intake_takes_no_upload_that_its_bucket_could_not_keep(tmp_path: Path) -> None:
    location = S3Location(bucket="media", endpoint="http://127.0.0.1:9", region="r")  # not asked
    with DiskObjects(tmp_path) as scratch:
        bucket = S3Objects(location, scratch, cache_bytes=0)
        for configured, accepted in ((1 << 50, MOST_BYTES), (7, 7)):
            intake = create_intake(bucket, 0, UploadLimits(most_bytes=configured))
            assert intake.most_upload == accepted
        assert create_intake(scratch, 0, UploadLimits(most_bytes=1 << 50)).most_upload == 1 << 50
