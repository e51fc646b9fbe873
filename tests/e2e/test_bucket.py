"""The whole service with its media in a bucket of a real S3 server."""

import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.objects.s3_bucket import S3Location
from tests.support.browser import Chromium
from tests.support.e2e.hls_reader import (
    CollectedRendition,
    addresses,
    collect,
    decoder_errors,
    frames,
    media,
    multivariant,
)
from tests.support.e2e.publishers import ffmpeg, publishing
from tests.support.e2e.service import SCALE, ServiceProcess, fetch, run_headend, service
from tests.support.e2e.uploaded_videos import completed, get_json, upload
from tests.support.engine.upload_files import film
from tests.support.postgres import PostgresServer
from tests.support.storage.s3_server import S3Server
from tests.support.waiting import poll

pytestmark = pytest.mark.e2e

HEADEND = str(Path(sys.executable).with_name("headend"))
PORTS = ("--rtmp", "[::]:1935", "--rtmps", "[::]:1936")  # of an ingest that does not run
X264 = ("-c:v", "libx264", "-preset", "ultrafast", "-g", "60", "-c:a", "aac")


class OwnBucket:
    """A test's own bucket, read with a third-party client."""

    def __init__(self, server: S3Server) -> None:
        self.server = server
        self.location: S3Location = server.new_bucket("media")

    def settings(self, **more: str) -> dict[str, str]:
        """Return the environment of a service that stores its media in the bucket."""
        return {
            **self.server.settings(self.location),
            "HEADEND_STORAGE__MIN_FREE_BYTES": "0",
            "HEADEND_LIVE__GOODBYE_SECONDS": "1",
            "HEADEND_LIVE__RECONNECT_SECONDS": "20",
            **more,
        }

    def names(self, folder: str) -> list[str]:
        """Return the keys below a folder of the prefix."""
        return self.server.keys(self.location.bucket, f"media/{folder}/")


@pytest.fixture
def bucket(s3_server: S3Server) -> OwnBucket:
    return OwnBucket(s3_server)


@pytest.fixture(scope="module")
def common(s3_server: S3Server) -> OwnBucket:
    """The bucket of the service that tests share."""
    return OwnBucket(s3_server)


@pytest.fixture(scope="module")
def headend(
    common: OwnBucket, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServiceProcess]:
    folder = tmp_path_factory.mktemp("bucket") / "data"
    with service(folder, environment=common.settings()) as running:
        yield running


def arriving(data: Path) -> list[Path]:
    """Return the files of unfinished uploads and imports in a data folder."""
    paths = [*(data / "scratch").glob("uploads/*"), *(data / "scratch").glob("sources/*/*")]
    return [path for path in paths if path.is_file()]


def doctor(data: Path, bucket: OwnBucket) -> str:
    done = run_headend("doctor", "--data", str(data), environment=bucket.settings())
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def shown(headend: ServiceProcess, video: dict[str, object]) -> dict[str, CollectedRendition]:
    collected: dict[str, CollectedRendition] = {}
    collect(f"{headend.http}/videos/{video['hash']}/index.m3u8", collected)
    return collected


def test_a_video_is_uploaded_made_played_and_deleted(
    headend: ServiceProcess, common: OwnBucket, tmp_path: Path
) -> None:
    bucket = common
    path = film(tmp_path / "film.mp4", *X264, seconds=5, size=(640, 360), rate=30)
    status, added = upload(headend, path)
    assert status == 201, added
    video = added["video"]
    completed(headend, video["id"], within=60)
    collected = shown(headend, video)
    for name, rendition in collected.items():
        file = rendition.file(tmp_path / f"{name}.mp4")
        assert decoder_errors(file) == ""
        if name != "audio":
            assert len(list(frames(file))) == 150
    assert not (headend.data / "objects").exists()
    assert arriving(headend.data) == []
    assert len(bucket.names(f"sources/{video['hash']}")) == 1

    detail = get_json(headend, f"/api/videos/{video['id']}")
    for address in detail["image_urls"].values():
        assert fetch(address).body.startswith(b"\xff\xd8")
    (rung,) = [name for name in collected if name != "audio"]
    playlist = addresses(f"{headend.http}/videos/{video['hash']}/index.m3u8")[rung]
    segment = playlist.replace("index.m3u8", media(playlist).segments[0].uri)
    whole = fetch(segment)
    part = fetch(segment, headers={"Range": "bytes=10-19"})
    assert (part.status, part.body) == (206, whole.body[10:20])
    revalidation = fetch(segment, headers={"If-None-Match": whole.headers["etag"]})
    assert revalidation.status == 304

    findings = doctor(headend.data, bucket)
    assert "all files of the catalog exist" in findings
    assert "database and media belong together" in findings

    deletion = fetch(
        f"{headend.http}/api/videos/{video['id']}", method="DELETE", token=headend.token
    )
    assert deletion.status == 204
    poll(lambda: fetch(segment).status == 404, within=2, what="it is gone")
    headend.empty_trash()
    folders = (f"videos/{video['hash']}", f"sources/{video['hash']}")
    poll(lambda: not any(map(bucket.names, folders)), within=30)


def test_a_killed_service_goes_on_with_the_run_that_the_bucket_holds(
    bucket: OwnBucket, small_source: Path, tmp_path: Path
) -> None:
    collected: dict[str, CollectedRendition] = {}
    environment = bucket.settings()

    def last_of(headend: ServiceProcess) -> int:
        playlist = media(addresses(headend.playlist)["audio"])
        return playlist.sequence + len(playlist.segments)

    with service(tmp_path / "data", environment=environment) as first:
        send = ffmpeg(small_source, f"{first.server}/{first.key}", "-stream_loop", "-1")
        with publishing(send):
            poll(lambda: multivariant(first.playlist), within=20, what="a playlist")
            poll(lambda: last_of(first) >= 3, within=20, what="three segments")
            first.process.send_signal(signal.SIGKILL)
            first.process.wait(timeout=10)
    # Everything but the database and keys of the first process is lost with its machine.
    assert not (tmp_path / "data" / "objects").exists()
    with service(tmp_path / "data", environment=environment) as second:
        before = last_of(second)
        assert before >= 2
        collect(second.playlist, collected)
        send = ffmpeg(small_source, f"{second.server}/{second.key}", "-stream_loop", "-1")
        with publishing(send) as encoder:
            poll(lambda: last_of(second) >= before + 3, within=30, what="three more")
            collect(second.playlist, collected)
            encoder.send_signal(signal.SIGINT)
            encoder.wait(timeout=10 * SCALE)
        playlist = addresses(second.playlist)["audio"]
        poll(lambda: media(playlist).ended, within=40, what="ENDLIST")
        collect(second.playlist, collected)
        for name, rendition in collected.items():
            # Segments that were listed before they were stored are gone with the process.
            missing = {*range(max(rendition.segments) + 1)} - {*rendition.segments}
            assert len(missing) <= 2
            assert missing <= {before - 1, before, before + 1}
            for file in rendition.stretches(tmp_path / f"{name}.mp4"):
                assert decoder_errors(file) == ""

        def recording() -> dict[str, object] | None:
            listed = fetch(f"{second.http}/api/projects/1/videos", token=second.token).json["data"]
            assert isinstance(listed, list)
            return listed[0] if listed else None  # pyright: ignore[reportUnknownVariableType]

        video = poll(recording, within=20, what="a recording")
        of_video = shown(second, video)
        for name, rendition in collected.items():
            ours = [of_video[name].segments[n].data for n in sorted(of_video[name].segments)]
            assert ours == [rendition.segments[n].data for n in sorted(rendition.segments)]


def test_streams_play_on_while_the_s3_server_is_down(
    headend: ServiceProcess, common: OwnBucket, small_source: Path
) -> None:
    """What cannot be stored is served from memory, and stored later or listed as a gap."""
    server = common.server
    send = ffmpeg(small_source, f"{headend.server}/{headend.key}", "-stream_loop", "-1")
    with publishing(send) as encoder:
        poll(lambda: multivariant(headend.playlist), within=20, what="a playlist")
        playlist = addresses(headend.playlist)["audio"]

        def newest() -> int:
            listed = media(playlist)
            return listed.sequence + len(listed.segments)

        poll(lambda: newest() >= 3, within=20, what="three segments")
        server.stop_gateway()
        try:
            reached = newest()
            poll(lambda: newest() >= reached + 4, within=20 * SCALE, what="going on")
            assert encoder.poll() is None
            readiness = fetch(f"{headend.http}/readyz")
            assert readiness.status == 503
            assert re.search("the bucket (cannot be reached|does not answer)", readiness.text)
        finally:
            server.start_gateway()
        reached = newest()
        poll(lambda: newest() >= reached + 3, within=20, what="going on")
        poll(lambda: fetch(f"{headend.http}/readyz").status == 200, within=20, what="ready")
        assert encoder.poll() is None


def test_a_host_without_the_file_transcodes_it_and_viewers_are_redirected_to_the_bucket(
    bucket: OwnBucket, postgres_server: PostgresServer, browser: Chromium, tmp_path: Path
) -> None:
    """Uploaded at one host, transcoded at another; they share only PostgreSQL and the bucket."""
    bucket.server.allow_pages(bucket.location.bucket)
    path = film(tmp_path / "film.mp4", *X264, seconds=5, size=(640, 360), rate=30)
    with postgres_server.empty_database() as database:
        environment = bucket.settings(
            HEADEND_DATABASE__URL=database, HEADEND_STORAGE__DELIVERY="redirect"
        )
        api_folder, worker_folder = tmp_path / "one", tmp_path / "other"
        migration = run_headend("migrate", "--data", str(api_folder), environment=environment)
        assert migration.returncode == 0, migration.stderr
        with (
            service(api_folder, role="api", environment=environment, arguments=PORTS) as api,
            service(
                worker_folder, role="transcode", environment=environment, arguments=PORTS
            ) as worker,
        ):
            status, added = upload(api, path)
            assert status == 201, added
            completed(api, added["video"]["id"], within=60)
            for name, rendition in shown(api, added["video"]).items():
                file = rendition.file(tmp_path / f"{name}.mp4")
                assert decoder_errors(file) == ""
                if name != "audio":
                    assert len(list(frames(file))) == 150
            assert worker.process.poll() is None
            viewer = browser.open(f"{api.http}/watch/{added['video']['hash']}")
            try:
                viewer.wait_for("playing", 30)
                viewer.wait(lambda sample: sample.buffered > 4, 30, "with all of it")
                assert viewer.breaches() == []
            finally:
                viewer.close()
            # The media did not pass through the host that redirected the viewer.
            scratch = api.data / "scratch"
            assert [each for each in scratch.rglob("*.m4s") if each.is_file()] == []
        assert arriving(api_folder) == arriving(worker_folder) == []
