"""The doctor and a CDN: real bucket policies, the docs' own among them."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from api.operations.report import Finding
from headend.config.settings import ServiceSettings
from headend.install.doctor import examine
from headend.install.installation import create_data_folder, install
from headend.install.media_store import bucket_of
from storage.catalog import Catalog, open_catalog
from storage.objects.s3_bucket import S3Location
from tests.support.free_ports import free_port
from tests.support.headend.installed import settings_of
from tests.support.storage.cdn_policy import policy_of_the_docs
from tests.support.storage.s3_server import S3Server

pytestmark = pytest.mark.anyio

NOW_US = 1_700_000_000_000_000
HOUR_US = 3_600_000_000


class Installation:
    """An installation whose media are in a bucket with a CDN in front of it."""

    def __init__(self, server: S3Server, bucket: S3Location, folder: Path, cdn: str) -> None:
        self.server = server
        self.bucket = bucket
        self.folder = folder
        self.settings: ServiceSettings = settings_of(
            folder,
            storage__url=str(bucket),
            storage__endpoint=bucket.endpoint,
            storage__region=bucket.region,
            storage__delivery="cdn",
            storage__cdn_url=cdn or f"{bucket.endpoint}/{bucket.bucket}/{bucket.prefix}",
            storage__min_free_bytes="0",
        )

    async def finding(self, now_us: int = NOW_US) -> Finding:
        (found,) = [each for each in await examine(self.settings, now_us) if each.topic == "cdn"]
        return found

    def allow(self, resource: str) -> None:
        statement = {
            "Effect": "Allow", "Principal": "*", "Action": "s3:GetObject",
            "Resource": f"arn:aws:s3:::{self.bucket.bucket}/{resource}",
        }  # fmt: skip
        policy = {"Version": "2012-10-17", "Statement": [statement]}
        self.server.set_policy(self.bucket.bucket, json.dumps(policy))


@pytest.fixture(params=["the bucket"])
async def installation(
    request: pytest.FixtureRequest,
    s3_server: S3Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncGenerator[tuple[Installation, Catalog]]:
    for name, value in s3_server.credentials.items():
        monkeypatch.setenv(name, value)
    bucket = s3_server.new_bucket("media")
    cdn = "" if request.param == "the bucket" else request.param
    installed = Installation(s3_server, bucket, tmp_path / "data", cdn)
    create_data_folder(installed.folder)
    await install(installed.folder, bucket=bucket_of(installed.settings))
    async with open_catalog(installed.folder / "catalog.sqlite", migrate=False) as catalog:
        yield installed, catalog


async def test_a_cdn_that_reads_copies_alone_is_well(
    installation: tuple[Installation, Catalog],
) -> None:
    installed, _ = installation
    for _ in range(2):
        found = await installed.finding()
        assert (found.verdict, found.text) == ("well", "it can read copies of public media alone")
        policy = policy_of_the_docs(installed.bucket)
        installed.server.set_policy(installed.bucket.bucket, policy)


@pytest.mark.parametrize("resource", ["*", "media/*"])
async def test_a_cdn_that_reads_more_than_copies_must_be_changed(
    installation: tuple[Installation, Catalog], resource: str
) -> None:
    installed, _ = installation
    installed.allow(resource)
    found = await installed.finding()
    assert found.verdict == "act"
    assert "the CDN gives anyone what is outside `cdn/`" in found.text


@pytest.mark.parametrize(
    "installation", [f"http://127.0.0.1:{free_port()}/x"], ids=["no server"], indirect=True
)
async def test_a_cdn_that_does_not_answer_matters_where_something_is_restricted(
    installation: tuple[Installation, Catalog],
) -> None:
    installed, catalog = installation
    (stream,) = await catalog.streams.find_all()
    await catalog.streams.publish(stream.id, now_us=NOW_US, by=None)
    assert (await installed.finding()).verdict == "well"
    await catalog.streams.unpublish(stream.id, now_us=NOW_US, by=None)
    found = await installed.finding()
    assert found.verdict == "act"
    assert "1 streams and videos are restricted" in found.text


async def test_withdrawn_copies_that_stay_are_noticed(
    installation: tuple[Installation, Catalog],
) -> None:
    installed, catalog = installation
    await catalog.cdn_folders.open("AAAAAAAAAAAA")
    await catalog.cdn_folders.withdraw(NOW_US)
    assert (await installed.finding(NOW_US + HOUR_US // 4)).verdict == "well"
    found = await installed.finding(NOW_US + HOUR_US)
    assert found.verdict == "act"
    assert "not deleted" in found.text
