"""The settings decide between the data folder and a bucket."""

from pathlib import Path

import msgspec
import pytest

from headend.config.settings import load
from headend.install.installation import create_data_folder, install
from headend.install.media_store import (
    OBJECTS,
    SCRATCH,
    bucket_of,
    open_store,
    read_store,
    signing_bucket,
)
from storage.installation_key import EmptyStore, StoreMismatch
from storage.objects.disk import DiskObjects
from storage.objects.read_only import ReadOnlyObjects
from storage.objects.s3 import S3Objects
from storage.objects.s3_bucket import S3Bucket, S3Location
from tests.support.storage.s3_server import S3Server

pytestmark = pytest.mark.anyio


@pytest.fixture
def bucket(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Location:
    for name, value in s3_server.credentials.items():
        monkeypatch.setenv(name, value)
    return s3_server.new_bucket("media")


def test_without_a_url_the_media_are_in_the_data_folder(tmp_path: Path) -> None:
    settings, _ = load(file=None, environment={}, options={})
    assert bucket_of(settings) is None
    assert isinstance(read_store(tmp_path, None), ReadOnlyObjects)
    with open_store(tmp_path, None) as store:
        assert isinstance(store, DiskObjects)
        assert store.location == str(tmp_path / OBJECTS)
    assert sorted(each.name for each in tmp_path.iterdir()) == [OBJECTS]


def test_a_url_names_a_bucket(tmp_path: Path) -> None:
    environment = {
        "HEADEND_STORAGE__URL": "s3://media/one",
        "HEADEND_STORAGE__ENDPOINT": "http://127.0.0.1:1",
        "HEADEND_STORAGE__REGION": "eu-central-1",
    }
    bucket_place = bucket_of(load(file=None, environment=environment, options={})[0])
    expected = S3Location(
        bucket="media", prefix="one", endpoint="http://127.0.0.1:1", region="eu-central-1"
    )
    assert bucket_place == expected
    assert isinstance(read_store(tmp_path, bucket_place), S3Bucket)
    assert list(tmp_path.iterdir()) == []
    with open_store(tmp_path, bucket_place) as store:
        assert isinstance(store, S3Objects)
        assert store.location == "s3://media/one"
    assert sorted(each.name for each in tmp_path.iterdir()) == [SCRATCH]


async def test_an_installation_and_a_bucket_belong_together(
    bucket: S3Location, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        create_data_folder(tmp_path / name)
    assert await install(tmp_path / "one", bucket=bucket)
    assert not await install(tmp_path / "one", bucket=bucket)
    with open_store(tmp_path / "one", bucket) as store:
        key = (await store.get("installation")).decode().strip()
        assert len(key) == 32
        await store.put("videos/AAAAAAAAAAAA/1/index.m3u8", b"#EXTM3U\n")
    with pytest.raises(StoreMismatch, match=r"s3://test-[0-9]+/media do not belong to"):
        await install(tmp_path / "two", bucket=bucket)
    assert not (tmp_path / "two" / "catalog.sqlite").exists()


async def test_a_mistyped_prefix_is_refused_and_stays_empty(
    bucket: S3Location, tmp_path: Path, s3_server: S3Server
) -> None:
    await install(tmp_path, bucket=bucket)
    mistyped = msgspec.structs.replace(bucket, prefix="mediq")
    with pytest.raises(EmptyStore, match=r"^s3://test-[0-9]+/mediq has no media and no key"):
        await install(tmp_path, bucket=mistyped)
    assert s3_server.keys(bucket.bucket, "mediq/") == []
    await install(tmp_path, bucket=mistyped, new_store=True)
    assert s3_server.keys(bucket.bucket, "mediq/") == ["mediq/installation"]
    assert not await install(tmp_path, bucket=mistyped)
    assert not await install(tmp_path, bucket=bucket)


async def test_a_bucket_that_is_away_is_left_to_the_roles(tmp_path: Path) -> None:
    await install(tmp_path)
    gone = S3Location(bucket="media", endpoint="http://127.0.0.1:1")
    assert not await install(tmp_path, bucket=gone)


@pytest.mark.parametrize(
    ("public", "origin"),
    [("", "http://10.0.0.5:7480"), ("https://s3.example.org", "https://s3.example.org")],
)
def test_viewers_reach_the_bucket_at_its_public_address(public: str, origin: str) -> None:
    environment = {
        "HEADEND_STORAGE__URL": "s3://media/one",
        "HEADEND_STORAGE__ENDPOINT": "http://10.0.0.5:7480",
        "HEADEND_STORAGE__PUBLIC_ENDPOINT": public,
    }
    bucket = signing_bucket(load(file=None, environment=environment, options={})[0])
    assert (bucket.origin, bucket.location) == (origin, "s3://media/one")
    with pytest.raises(ValueError, match=r"storage\.url"):
        signing_bucket(load(file=None, environment={}, options={})[0])
