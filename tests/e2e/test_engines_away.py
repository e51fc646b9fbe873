"""PostgreSQL, Redis and the bucket of several hosts fail in turn for 30 s: what viewers notice.

Two ingest hosts, an API host and a transcode host share these. Two viewers watch, while a film is
transcoded and others are uploaded.
"""

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import pytest

from tests.conftest import Proof
from tests.e2e.test_bucket import OwnBucket
from tests.support.e2e.encoder_pair import EncoderPair, pair
from tests.support.e2e.hls_reader import addresses, multivariant
from tests.support.e2e.hosts import HostProcess, HostProcesses
from tests.support.e2e.publishers import ffmpeg, persisting
from tests.support.e2e.roaming_uploads import Uploader, uploading
from tests.support.e2e.roaming_viewers import ApiHosts, LowLatencyViewer, RoamingViewer, waiting
from tests.support.e2e.strict_player import keeping_up
from tests.support.e2e.uploaded_videos import completed, upload
from tests.support.e2e.written_once import WrittenOnce
from tests.support.engine.upload_files import film
from tests.support.postgres import PostgresServer, running_postgres
from tests.support.redis_server import RedisServer, redis_server
from tests.support.sql import run_sql
from tests.support.storage.failing_front import FailingFront, failing_front
from tests.support.storage.s3_server import S3Server
from tests.support.waiting import SCALE, poll

pytestmark = [pytest.mark.e2e, pytest.mark.prove]

SECONDS: Final = 30.0
X264: Final = ("-c:v", "libx264", "-preset", "ultrafast", "-g", "60", "-c:a", "aac")


class Engines(NamedTuple):
    """The servers that the hosts share."""

    postgres: PostgresServer
    redis: RedisServer
    server: S3Server
    front: FailingFront


class StreamOnEngines(NamedTuple):
    """The hosts, the engines, and a stream on air with an encoder at each of two hosts."""

    engines: Engines
    database: str
    hosts: HostProcesses
    bucket: OwnBucket
    ingest: tuple[HostProcess, HostProcess]
    api: HostProcess
    stream: EncoderPair


@pytest.fixture(scope="module")
def installation(
    s3_server: S3Server, small_source: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StreamOnEngines]:
    folder = tmp_path_factory.mktemp("engines")
    with ExitStack() as world:
        redis = world.enter_context(redis_server(folder))
        postgres = world.enter_context(running_postgres("127.0.0.1"))
        database = world.enter_context(postgres.empty_database())
        front = world.enter_context(failing_front(folder / "front", s3_server.endpoint))
        bucket = OwnBucket(s3_server)
        environment = bucket.settings(
            HEADEND_STORAGE__ENDPOINT=front.endpoint, HEADEND_REDIS__URL=redis.url
        )
        hosts = world.enter_context(HostProcesses(folder, database, environment))
        api, a, b = hosts.api(), hosts.ingest("a"), hosts.ingest("b")
        hosts.transcode("t")
        stream = pair(api.running)
        for slot, name in enumerate("ab"):
            url = hosts.url(name, stream.key, slot=slot)
            world.enter_context(persisting(ffmpeg(small_source, url, "-stream_loop", "-1")))
            poll(lambda: multivariant(stream.playlist), within=30, what="a playlist")
        engines = Engines(postgres, redis, s3_server, front)
        yield StreamOnEngines(engines, database, hosts, bucket, (a, b), api, stream)


class Outage(msgspec.Struct, frozen=True, kw_only=True):
    """A failure of an engine, and its permitted effect on viewers.

    `most_wait` is how long viewers at low latency may wait for a part, in seconds.
    """

    begin: Callable[[Engines], object]
    end: Callable[[Engines], object]
    most_wait: float = 4.0


def empty(engines: Engines) -> None:
    engines.redis.command("FLUSHALL")


def kill_postgres(engines: Engines) -> None:
    """Kill PostgreSQL, which recovers its data when it starts again."""
    engines.postgres.kill()
    engines.postgres.start()


def nothing(engines: Engines) -> None:
    """Do nothing: the engine recovers by itself."""


FAULTS: Final = {
    "PostgreSQL stopped for 30 s": Outage(
        begin=lambda engines: engines.postgres.stop(),
        end=lambda engines: engines.postgres.start(),
    ),
    "PostgreSQL killed and started": Outage(begin=kill_postgres, end=nothing),
    # Parts are passed on by Redis only; meanwhile viewers get the stored segments.
    "Redis killed for 30 s": Outage(
        begin=lambda engines: engines.redis.stop(),
        end=lambda engines: engines.redis.start(),
        most_wait=SECONDS + 6,
    ),
    "Redis emptied": Outage(begin=empty, end=nothing),
    "the S3 gateway killed for 30 s": Outage(
        begin=lambda engines: engines.server.stop_gateway(),
        end=lambda engines: engines.server.start_gateway(),
    ),
    "S3 answering 503 to half of all requests for 30 s": Outage(
        begin=lambda engines: engines.front.refuse(),
        end=lambda engines: engines.front.pass_all(),
    ),
}


class Observers(NamedTuple):
    """The viewers and the uploader."""

    normal: RoamingViewer
    low: LowLatencyViewer
    uploader: Uploader


@contextmanager
def watching(installation: StreamOnEngines) -> Generator[Observers]:
    """Watch the stream twice and upload films for the length of the block."""
    base = installation.api.running.http
    api_hosts = ApiHosts([base])
    normal = RoamingViewer(f"{installation.stream.playlist}?latency=normal", api_hosts)
    low = LowLatencyViewer(addresses(installation.stream.playlist)["audio"], api_hosts)
    uploader = Uploader([base], installation.api.running.token, int(time.time()))
    with keeping_up(normal), waiting(low), uploading(uploader):
        yield Observers(normal, low, uploader)


def caught_up(observers: Observers, more: int) -> None:
    """Wait until the viewer at normal latency has fetched more segments."""
    least = observers.normal.newest + more
    poll(lambda: observers.normal.newest >= least, within=40, what="going on")


@pytest.mark.parametrize("what", FAULTS)
def test_the_stream_the_film_and_the_upload_survive_the_outage(
    installation: StreamOnEngines, tmp_path: Path, what: str, proof: Proof
) -> None:
    fault, stream = FAULTS[what], installation.stream
    path = film(tmp_path / "film.mp4", *X264, seconds=30, size=(640, 360), rate=30)
    poll(lambda: stream.receives() == 2, within=40, what="both encoders")
    owner = installation.hosts.owner(stream.number)
    events = len(stream.listed_events())
    written = WrittenOnce(installation.bucket.server, installation.bucket.location, [stream.hash])
    with watching(installation) as observers:
        poll(lambda: observers.normal.segments >= 4, within=40, what="segments")
        status, added = upload(installation.api.running, path)
        assert status == 201, added
        written.refresh()
        began = time.monotonic()
        fault.begin(installation.engines)
        time.sleep(max(0.0, began + SECONDS - time.monotonic()))  # for as long as it lasts
        fault.end(installation.engines)
        back = time.monotonic()
        caught_up(observers, 4)
        poll(lambda: observers.uploader.made, within=120, what="an upload")
        completed(installation.api.running, added["video"]["id"], within=120)
    written.refresh()
    compared = written.compare_with(observers.normal.digests)
    kinds = [each["type"] for each in stream.listed_events()[events:]]
    late = max((wait for wait, at in observers.low.waits if at > back), default=0.0)
    figures = {
        "least that a viewer at normal latency had to play": f"{observers.normal.least:.1f} s",
        "longest wait for a part at low latency": f"{observers.low.longest:.1f} s",
        "discontinuities": max(observers.normal.marks.values(), default=0),
        "events": ", ".join(kinds) or "none",
        "segments compared": compared,
        "uploads": f"{len(observers.uploader.made)}, cut {observers.uploader.cuts} times",
        "requests refused in front of S3": installation.engines.front.refused(),
    }
    measured = "; ".join(f"{name}: {figure}" for name, figure in figures.items())
    proof(what, measured, "no stall, no discontinuity, nothing lost or made twice")
    assert observers.normal.least > 0, measured
    assert observers.low.longest <= fault.most_wait * SCALE, measured
    assert late <= (fault.most_wait if fault.most_wait > 4 else 4.0) * SCALE, measured
    assert max(observers.normal.marks.values(), default=0) == 0, measured
    assert "encoder off" not in kinds, measured
    assert installation.hosts.owner(stream.number) == owner
    assert written.faults == []
    check_uploads(installation, observers.uploader)


def check_uploads(installation: StreamOnEngines, uploader: Uploader) -> None:
    """Check that the stored files are those that were uploaded, and each video is made once."""
    server, bucket = installation.bucket.server, installation.bucket.location.bucket
    for name, data in uploader.made.items():
        (key,) = server.versions(bucket, f"media/sources/{name}/")
        assert server.read(bucket, key) == data
    completed_query = "SELECT subject FROM events WHERE kind = 'video completed'"

    def all_made() -> bool:
        return uploader.made.keys() <= {
            str(row[0]) for row in run_sql(installation.database, completed_query)
        }

    poll(all_made, within=120, what="all uploads made")
    repeated_query = f"{completed_query} GROUP BY subject HAVING count(*) > 1"
    assert run_sql(installation.database, repeated_query) == []
