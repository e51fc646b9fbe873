"""`headend migrate --media-to`: copies between a data folder and a bucket, and refusals."""

import asyncio
import os
import pty
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner, Result

from headend.cli import main
from headend.config.settings import load
from headend.install.installation import (
    DATABASE,
    MOVED,
    create_data_folder,
    install,
    take_over_media,
)
from headend.install.locks import schema_in_use, writer_lock
from headend.install.media_copy import (
    MediaCopyRefused,
    MediaTarget,
    copy_media,
    media_target,
)
from headend.install.media_store import OBJECTS
from storage.catalog import open_catalog
from storage.catalog.maintenance.copying import copy_catalog
from storage.catalog.records.common import Change
from storage.catalog.videos.jobs import TRANSCODE
from storage.installation_key import UnfinishedCopy, check_store
from storage.objects.base import StoreFailed
from storage.objects.read_only import ReadOnlyObjects
from storage.objects.s3_bucket import S3Bucket, S3Location
from storage.wall_clock import wall_clock_us
from tests.support.headend.installed import installed
from tests.support.postgres import PostgresServer
from tests.support.sql import run_sql
from tests.support.storage.new_videos import new_video
from tests.support.storage.s3_server import S3Server
from tests.support.waiting import poll

VIDEO = "AAAAAAAAAAAA"
SEGMENT = f"videos/{VIDEO}/1/720p/0.m4s"


class MediaInstallation(NamedTuple):
    """An installation with media in its folder, and an empty prefix of a bucket."""

    data: Path
    bucket: S3Location
    server: S3Server

    @property
    def objects(self) -> Path:
        return self.data / OBJECTS

    @property
    def key(self) -> str:
        return (self.objects / "installation").read_text()

    def keys(self) -> list[str]:
        """Return the keys in the bucket."""
        begin = len(self.bucket.prefix) + 1
        return [
            each[begin:] for each in self.server.keys(self.bucket.bucket, self.bucket.prefix + "/")
        ]

    def media(self) -> list[str]:
        """Return the objects in the folder."""
        files = [each for each in self.objects.rglob("*") if each.is_file()]
        names = [each.relative_to(self.objects).as_posix() for each in files]
        return sorted(each for each in names if not each.startswith("."))

    def lose_disk(self) -> None:
        """Leave an empty mount point, once."""
        if not (self.data / "away").exists():
            self.objects.rename(self.data / "away")
            self.objects.mkdir()

    def migrate(self, *arguments: str, **changed: str) -> Result:
        environment = {**self.environment, **changed}
        return CliRunner(env=environment).invoke(main, ["migrate", *arguments])

    @property
    def environment(self) -> dict[str, str]:
        return {
            "HEADEND_CONFIG": "",
            "HEADEND_DATA": str(self.data),
            "HEADEND_STORAGE__ENDPOINT": self.bucket.endpoint,
            "HEADEND_STORAGE__REGION": self.bucket.region,
            "HEADEND_STORAGE__MIN_FREE_BYTES": "0",
            **self.server.credentials,
        }

    async def bind(self, folder: Path | None = None) -> None:
        """Check that the bucket, or a folder, belongs to the catalog, as each start does."""
        async with open_catalog(self.data / DATABASE, migrate=False) as catalog:
            files = S3Bucket(self.bucket) if folder is None else ReadOnlyObjects(folder)
            assert await check_store(catalog, files)


@pytest.fixture
def site(s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MediaInstallation:
    for name, value in s3_server.credentials.items():
        monkeypatch.setenv(name, value)
    asyncio.run(installed(tmp_path / "data"))
    installation = MediaInstallation(
        tmp_path / "data", s3_server.new_bucket("some/prefix"), s3_server
    )
    put(installation.objects, SEGMENT, f"sources/{VIDEO}/1", f"live/{VIDEO}/poster/720p.jpg")
    return installation


def put(objects: Path, *addresses: str) -> None:
    for address in addresses:
        (objects / address).parent.mkdir(parents=True, exist_ok=True)
        (objects / address).write_bytes(address.encode())


def test_media_move_to_a_bucket_and_back(site: MediaInstallation, tmp_path: Path) -> None:
    put(site.objects, "uploads/one")
    media = [each for each in site.media() if each != "uploads/one"]
    size = sum((site.objects / each).stat().st_size for each in media if each != "installation")
    copy = site.migrate("--media-to", str(site.bucket))
    assert (copy.exit_code, copy.output.splitlines()) == (0, [
        f"copied 3 objects, {size} B: {site.bucket} has all 3 objects of {site.objects}, {size} B",
        f"start with storage.url set to {site.bucket}, storage.endpoint set to"
        f" {site.bucket.endpoint}, storage.region set to {site.bucket.region}; nothing was removed"
        f" from {site.objects}",
    ]), copy.output  # fmt: skip
    assert site.keys() == media
    asyncio.run(site.bind())
    in_bucket = {"HEADEND_STORAGE__URL": str(site.bucket)}
    back = site.migrate("--media-to", str(tmp_path / "back"), **in_bucket)
    assert back.exit_code == 0, back.output
    assert f"{tmp_path / 'back' / OBJECTS} has all 3 objects of {site.bucket}" in back.output
    assert f"start with storage.url empty and data set to {tmp_path / 'back'};" in back.output
    repeated = site.migrate("--media-to", str(tmp_path / "back"), **in_bucket)
    assert repeated.output.startswith("copied 0 objects, 0 B:")
    restored = MediaInstallation(tmp_path / "back", site.bucket, site.server)
    assert restored.media() == media
    assert restored.key == site.key


@pytest.mark.parametrize("way", ["to the bucket", "to a folder"])
def test_a_killed_copy_is_marked_as_unfinished_and_can_be_continued(
    site: MediaInstallation, tmp_path: Path, way: str
) -> None:
    put(site.objects, *(f"videos/{VIDEO}/1/720p/{number}.m4s" for number in range(160)))
    place, named, keys, bind = str(site.bucket), {}, site.keys, site.bind
    if way == "to a folder":
        assert site.migrate("--media-to", place).exit_code == 0
        back = MediaInstallation(tmp_path / "back", site.bucket, site.server)
        place, named = str(back.data), {"HEADEND_STORAGE__URL": place}
        keys, bind = back.media, partial(site.bind, back.objects)
    # Its progress is not read, so it waits for the terminal after some 50 objects.
    terminal, child_terminal = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-c", "from headend.command import main; main()", "migrate",
         "--media-to", place],
        env={**os.environ, **site.environment, **named}, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=child_terminal,
    )  # fmt: skip
    try:
        poll(lambda: len(keys()) > 10, within=60, what="the first objects")
        progress = os.read(terminal, 80)
    finally:
        child.kill()
        child.wait()
        os.close(terminal)
        os.close(child_terminal)
    assert b"of 3 folders, " in progress
    first = set(keys())
    assert len(first) < 160
    assert "installation.copying" in first
    assert "installation" not in first
    with pytest.raises(UnfinishedCopy):
        asyncio.run(bind())
    second_copy = site.migrate("--media-to", place, **named)
    assert second_copy.exit_code == 0, second_copy.output
    copied = int(second_copy.output.partition(" objects")[0].removeprefix("copied "))
    assert copied == len(set(site.media()) - first - {"installation"})
    assert keys() == site.media()
    asyncio.run(bind())


def test_media_of_another_installation_are_refused_and_not_changed(
    site: MediaInstallation, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    create_data_folder(other)
    asyncio.run(install(other, bucket=site.bucket))
    asyncio.run(take_over_media(other, other / DATABASE, site.bucket))  # as if it were running
    before = site.keys()
    refused = site.migrate("--media-to", str(site.bucket))
    assert refused.exit_code == 1
    assert f"{site.bucket} has media of another installation" in refused.output
    assert site.keys() == before == ["installation", "installation.lease"]


def test_a_disk_that_goes_away_while_it_is_copied_ends_no_copy(site: MediaInstallation) -> None:
    settings, _ = load(file=None, environment=site.environment, options={})
    target = media_target(settings, str(site.bucket), endpoint=None, region=None)
    with pytest.raises(StoreFailed, match="is its disk mounted"):
        copy_media(settings, target, lambda _: site.lose_disk())
    keys = site.keys()
    assert "installation" not in keys
    assert "installation.copying" in keys


def test_nothing_is_copied_while_a_process_writes(site: MediaInstallation) -> None:
    with writer_lock(site.data, "serve"):
        refused = site.migrate("--media-to", str(site.bucket))
    assert (refused.exit_code, site.keys()) == (1, [])
    assert "another Headend is running on" in refused.output
    with schema_in_use(site.data):  # as an API process has it
        assert site.migrate("--media-to", str(site.bucket)).exit_code == 0


def test_nothing_is_copied_while_a_host_is_alive(
    site: MediaInstallation, postgres_server: PostgresServer
) -> None:
    async def begin(url: str) -> int:
        async with open_catalog(url, migrate=False) as catalog:
            return await catalog.hosts.register("ingest-1", "ingest", None, "1.0")

    with postgres_server.empty_database() as url:
        assert site.migrate("--to", url).exit_code == 0
        host = asyncio.run(begin(url))
        served = {"HEADEND_DATABASE__URL": url, "HEADEND_HOSTS__DEAD_SECONDS": "60"}
        refused = site.migrate("--media-to", str(site.bucket), **served)
        assert (refused.exit_code, site.keys()) == (1, [])
        assert "ingest-1 may receive streams (`headend hosts`): stop all" in refused.output
        run_sql(url, f"UPDATE hosts SET seen_us = seen_us - 3600000000 WHERE id = {host}")
        done = site.migrate("--media-to", str(site.bucket), **served)
        assert done.exit_code == 0, done.output


def test_nothing_is_copied_while_a_video_is_transcoded(site: MediaInstallation) -> None:
    async def lease() -> None:
        async with open_catalog(site.data / DATABASE, migrate=False) as catalog:
            await catalog.videos.add(1, new_video(VIDEO), Change(wall_clock_us()))
            assert await catalog.jobs.lease("me", wall_clock_us(), TRANSCODE) is not None

    asyncio.run(lease())
    refused = site.migrate("--media-to", str(site.bucket))
    assert (refused.exit_code, site.keys()) == (1, [])
    assert "a video is being transcoded or imported: stop all processes" in refused.output


def test_media_and_database_move_together(
    site: MediaInstallation, postgres_server: PostgresServer
) -> None:
    with postgres_server.empty_database() as url:
        done = site.migrate("--media-to", str(site.bucket), "--to", url)
        assert done.exit_code == 0, done.output
        assert [line.split()[0] for line in done.output.splitlines()] == [
            "copied",
            "start",
            "moved",
        ]

        async def bind() -> None:
            async with open_catalog(url, migrate=False) as catalog:
                assert await check_store(catalog, S3Bucket(site.bucket))

        asyncio.run(bind())


def test_a_move_that_was_killed_after_all_was_copied_is_finished(
    site: MediaInstallation, postgres_server: PostgresServer
) -> None:
    with postgres_server.empty_database() as url:
        rows = asyncio.run(copy_catalog(site.data / DATABASE, url)).rows
        site.migrate("--media-to", str(site.bucket))
        resumed = site.migrate("--media-to", str(site.bucket), "--to", url)
        assert resumed.exit_code == 0, resumed.output
        copied, _, moved = resumed.output.splitlines()
        assert copied.startswith(f"copied 0 objects, 0 B: {site.bucket} has all 3 objects")
        assert f"has all {rows} rows, which were moved before: start with database.url" in moved
        assert not (site.data / DATABASE).exists()
        assert (site.data / MOVED).exists()
        again = site.migrate("--media-to", str(site.bucket), "--to", url)
        assert again.exit_code == 1
        assert f"the database of {site.data} was moved before" in again.output


def test_a_failing_bucket_is_reported_in_one_sentence(site: MediaInstallation) -> None:
    missing = site.migrate("--media-to", "s3://no-such-bucket/there")
    assert missing.exit_code == 1
    assert missing.output == (
        "Error: copying to s3://no-such-bucket/there failed: sources: the bucket answered 404 Not"
        " Found; not all media are copied: the same command goes on from here\n"
    )


URL = "s3://media/one"


@pytest.mark.parametrize(
    ("place", "to", "words"),
    [
        ("", "/var/lib/other", "the media are in a folder already"),
        (URL, "s3://media/two", "the media are in a bucket already, s3://media/one"),
        ("", "s3://No_Bucket", "--media-to: Expected s3://BUCKET"),
        ("", "https://s3.example.org/media", "--media-to: Expected s3://BUCKET"),
        (URL, "", "--media-to takes s3://BUCKET/PREFIX or a data folder"),
    ],
)
def test_an_invalid_target_is_refused(place: str, to: str, words: str) -> None:
    settings, _ = load(file=None, environment={}, options={"storage.url": place})
    with pytest.raises(MediaCopyRefused, match=words):
        media_target(settings, to, endpoint=None, region=None)


def test_the_bucket_server_is_the_given_one_or_that_of_the_settings() -> None:
    named = {"HEADEND_STORAGE__ENDPOINT": "https://a", "HEADEND_STORAGE__REGION": "here"}
    settings, _ = load(file=None, environment=named, options={})
    target = media_target(settings, URL, endpoint=None, region=None)
    assert target == MediaTarget(S3Location.parse(URL, endpoint="https://a", region="here"))
    target = media_target(settings, URL, endpoint="https://b", region="there")
    assert target == MediaTarget(S3Location.parse(URL, endpoint="https://b", region="there"))
    with pytest.raises(MediaCopyRefused, match="--media-endpoint: Expected https://HOST"):
        media_target(settings, URL, endpoint="b", region=None)
