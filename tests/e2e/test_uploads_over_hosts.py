"""A file uploaded over several hosts that share PostgreSQL and a bucket; two of them are killed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.test_bucket import OwnBucket
from tests.e2e.test_resumable import MiB, create, offset, send, send_request, written
from tests.support.e2e.hosts import HostProcesses
from tests.support.e2e.service import ServiceProcess, fetch
from tests.support.postgres import PostgresServer
from tests.support.storage.s3_server import S3Server
from tests.support.waiting import poll

pytestmark = pytest.mark.e2e

SIZE = 40 * MiB


@pytest.fixture
def bucket(s3_server: S3Server) -> OwnBucket:
    return OwnBucket(s3_server)


@pytest.fixture
def hosts(
    bucket: OwnBucket, postgres_server: PostgresServer, tmp_path: Path
) -> Iterator[HostProcesses]:
    with (
        postgres_server.empty_database() as database,
        HostProcesses(tmp_path, database, bucket.settings()) as opened,
    ):
        yield opened


def received(running: ServiceProcess, path: str) -> int:
    """Return how many bytes of an upload are stored, without taking the upload over."""
    record = fetch(f"{running.http}{path}", token=running.token).json["data"]
    assert isinstance(record, dict)
    return int(record["offset"])  # pyright: ignore[reportUnknownArgumentType]  # JSON


def test_an_upload_continues_at_another_host_when_its_host_is_killed(
    hosts: HostProcesses, bucket: OwnBucket, tmp_path: Path
) -> None:
    first, second, third = (hosts.api(name) for name in ("api", "api-2", "api-3"))
    for host in (second, third):  # the owner's token is where the catalog was made
        (host.running.data / "owner.token").write_text(first.running.token)
    file = tmp_path / "film.mp4"
    written(file, SIZE)
    path = create(first.running, SIZE)
    # Half of it arrives, and the host is killed during the next bytes.
    send(first.running, path, file, 0, 20 * MiB)
    poll(lambda: received(second.running, path) == 20 * MiB, within=30, what="what was sent")
    at = offset(second.running, path)
    send(first.running, path, file, at, at + 9 * MiB)
    first.kill()
    at = offset(second.running, path)
    assert 20 * MiB <= at <= 29 * MiB
    send(second.running, path, file, at, at + 5 * MiB)
    poll(lambda: received(third.running, path) == at + 5 * MiB, within=30, what="more")
    second.kill()
    at = offset(third.running, path)
    assert b" 204 " in send(third.running, path, file, at).split(b"\r\n")[0]
    hash_ = send_request(third.running, "HEAD", path).headers["headend-video-hash"]
    assert bucket.server.keys(bucket.location.bucket, "media/pieces/") == []
    (source,) = bucket.names(f"sources/{hash_}")
    stored = bucket.server.client(bucket.location.bucket).get(source).bytes()
    assert bytes(stored) == file.read_bytes()
