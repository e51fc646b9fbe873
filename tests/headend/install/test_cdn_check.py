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
from storage.catalog.records.common import Change
from storage.objects.s3_bucket import S3Bucket, S3Location
from tests.support.free_ports import free_port
from tests.support.headend.installed import settings_of
from tests.support.storage.cdn_policy import policy_of_the_docs
from tests.support.storage.s3_server import S3Server

pytestmark = pytest.mark.anyio

NOW_US = 1_700_000_000_000_000
HOUR_US = 3_600_000_000
COPY = f"cdn/AAAAAAAAAAAA/{'1' * 32}/1-1/720p/0.m4s"
PRIVATE = {
    top: f"{top}/{rest}"
    for top, rest in {
        "live": "BBBBBBBBBBBB/20260131T120000123/state.json",
        "pieces": "one/0-0123456789abcdef",
        "slates": "s-BBBBBBBBBBBB/one.jpg",
        "sources": "AAAAAAAAAAAA/1",
        "trash": "20260131T120000/sources/CCCCCCCCCCCC/1",
        "videos": "AAAAAAAAAAAA/1-1/720p/0.m4s",
        "of_a_later_version": "one",
    }.items()
}


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

    def allow(self, *resources: str, to_list: bool = False) -> None:
        name = f"arn:aws:s3:::{self.bucket.bucket}"
        anyone = {"Effect": "Allow", "Principal": "*"}
        named = [f"{name}/{resource}" for resource in resources]
        statements = [{**anyone, "Action": "s3:GetObject", "Resource": named}]
        if to_list:
            statements.append({**anyone, "Action": "s3:ListBucket", "Resource": [name]})
        policy = {"Version": "2012-10-17", "Statement": statements}
        self.server.set_policy(self.bucket.bucket, json.dumps(policy))

    async def store_media(self, *addresses: str) -> None:
        await S3Bucket(self.bucket).put_all({each: f"of {each}".encode() for each in addresses})


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
    for addresses in ((), PRIVATE.values(), (COPY,)):
        await installed.store_media(*addresses)
        found = await installed.finding()
        assert (found.verdict, found.text) == ("well", "it can read copies of public media alone")
        policy = policy_of_the_docs(installed.bucket)
        installed.server.set_policy(installed.bucket.bucket, policy)
        found = await installed.finding()
        assert (found.verdict, found.text) == ("well", "it can read copies of public media alone")


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
    "tops",
    [*[(top,) for top in PRIVATE], ("live", "videos"), ("live", "sources", "trash")],
    ids="-".join,
)
async def test_any_other_folder_that_is_open_is_named(
    installation: tuple[Installation, Catalog], tops: tuple[str, ...]
) -> None:
    installed, _ = installation
    await installed.store_media(COPY, *PRIVATE.values())
    installed.allow(*[f"media/{top}/*" for top in (*tops, "cdn")])
    found = await installed.finding()
    assert found.verdict == "act"
    for top in PRIVATE:
        assert (f"`{top}/`" in found.text) == (top in tops)
    assert "lists" not in found.text


async def test_a_bucket_that_is_open_beside_the_cdn_must_be_closed(
    installation: tuple[Installation, Catalog],
) -> None:
    installed, _ = installation
    elsewhere = f"{installed.bucket.endpoint}/no-such-bucket/media"
    beside = Installation(installed.server, installed.bucket, installed.folder, elsewhere)
    await beside.store_media(*PRIVATE.values())
    assert (await beside.finding()).verdict == "well"
    beside.allow("media/sources/*", to_list=True)
    found = await beside.finding()
    assert found.verdict == "act"
    assert "the bucket gives anyone what is outside `cdn/`, in `sources/`, and the" in found.text
    assert "the bucket lists the objects to anyone" in found.text


async def test_a_bucket_that_anyone_can_list_must_be_closed(
    installation: tuple[Installation, Catalog],
) -> None:
    installed, _ = installation
    for addresses in ((), (COPY, *PRIVATE.values())):
        await installed.store_media(*addresses)
        installed.allow("media/cdn/*", to_list=True)
        found = await installed.finding()
        assert found.verdict == "act"
        assert "the CDN lists the objects to anyone" in found.text
        assert "outside" not in found.text


async def test_copies_that_the_cdn_cannot_read_are_noticed(
    installation: tuple[Installation, Catalog],
) -> None:
    installed, _ = installation
    await installed.store_media(*PRIVATE.values())
    assert (await installed.finding()).verdict == "well"
    await installed.store_media(COPY)
    found = await installed.finding()
    assert found.verdict == "act"
    assert "the CDN cannot read copies" in found.text
    installed.allow("media/cdn/*")
    assert (await installed.finding()).verdict == "well"


@pytest.mark.parametrize(
    "installation", [f"http://127.0.0.1:{free_port()}/x"], ids=["no server"], indirect=True
)
async def test_a_cdn_that_does_not_answer_matters_where_something_is_restricted(
    installation: tuple[Installation, Catalog],
) -> None:
    installed, catalog = installation
    (stream,) = await catalog.streams.find_all()
    await catalog.streams.publish(stream.id, Change(NOW_US))
    assert (await installed.finding()).verdict == "well"
    await catalog.streams.unpublish(stream.id, Change(NOW_US))
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
