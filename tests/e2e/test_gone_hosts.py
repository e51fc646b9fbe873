"""An ingest and an API on two machines: they share PostgreSQL and a bucket, but no folder."""

import signal
import sys
import time
from pathlib import Path
from typing import cast

import pytest

from tests.e2e.test_bucket import OwnBucket
from tests.support.e2e.publishers import ffmpeg, publishing
from tests.support.e2e.service import ServiceProcess, fetch, run_headend, service
from tests.support.postgres import PostgresServer
from tests.support.storage.s3_server import S3Server
from tests.support.waiting import poll

pytestmark = pytest.mark.e2e

HEADEND = str(Path(sys.executable).with_name("headend"))
# A host counts as gone after 3 s, and its streams after 8 s more.
GONE_SECONDS = 11.0


def headend(data: Path, command: str, environment: dict[str, str]) -> str:
    """Run `headend` to its end, and return its output."""
    done = run_headend(command, "--data", str(data), environment=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def live(api: ServiceProcess) -> bool:
    answer = fetch(f"{api.http}/api/projects/1/streams", token=api.token)
    assert answer.status == 200, answer.text
    return cast("list[dict[str, bool]]", answer.json["data"])[-1]["live"]  # JSON


@pytest.mark.prove
def test_streams_are_on_air_as_long_as_the_host_that_owns_them_lives(
    s3_server: S3Server, postgres_server: PostgresServer, small_source: Path, tmp_path: Path
) -> None:
    with postgres_server.empty_database() as database:
        environment = OwnBucket(s3_server).settings(HEADEND_DATABASE__URL=database)
        ingest_folder, api_folder = tmp_path / "one", tmp_path / "other"
        headend(api_folder, "migrate", environment)  # the owner's token is where the API is
        with service(ingest_folder, role="ingest", environment=environment) as ingest:
            ports = (
                *("--rtmp", f"[::]:{ingest.port_of(ingest.server)}"),
                *("--rtmps", f"[::]:{ingest.port_of(ingest.secure_server)}"),
            )
            with service(api_folder, role="api", environment=environment, arguments=ports) as api:
                ((name, role, _, _, state, *_),) = hosts(api_folder, environment)
                assert (name.endswith("/ingest"), role, state) == (True, "ingest", "alive")
                key = headend(api_folder, "streams", environment).split("\t")[2]
                send = ffmpeg(small_source, f"{ingest.server}/{key}", "-stream_loop", "-1")
                with publishing(send):
                    poll(lambda: live(api), within=30, what="live")
                    time.sleep(GONE_SECONDS + 2)  # the API sees no folder of an ingest
                    assert live(api)
                    ingest.stop(signal.SIGKILL)
                    poll(lambda: not live(api), within=GONE_SECONDS + 20, what="off air")
                assert [host[4] for host in hosts(api_folder, environment)] == ["gone"]
                with service(ingest_folder, role="ingest", environment=environment):
                    assert [host[4] for host in hosts(api_folder, environment)] == ["alive"]
                assert hosts(api_folder, environment) == []


def hosts(data: Path, environment: dict[str, str]) -> list[list[str]]:
    return [line.split("\t") for line in headend(data, "hosts", environment).splitlines()]
