"""Hosts that share only PostgreSQL, Redis and a bucket with the ingest host."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urljoin

import pytest

from media.hls.timeline import Timeline
from tests.conftest import Proof
from tests.e2e.test_bucket import OwnBucket
from tests.support.e2e import clock_video
from tests.support.e2e.encoder_pair import pair
from tests.support.e2e.hls_reader import addresses, media, multivariant
from tests.support.e2e.hosts import HostProcesses as SeveralHosts
from tests.support.e2e.publishers import publishing
from tests.support.e2e.service import SCALE, Answer, ServiceProcess, fetch, run_headend, service
from tests.support.free_ports import free_ports
from tests.support.hls.live_checker import LiveChecker
from tests.support.hls.strict_client import checking
from tests.support.hls.timeline_parser import parse_timeline
from tests.support.postgres import PostgresServer
from tests.support.redis_server import RedisServer, redis_server
from tests.support.storage.counted_generations import BEFORE_FIRST
from tests.support.storage.s3_server import S3Server
from tests.support.waiting import poll

pytestmark = pytest.mark.e2e


class IngestAndApiHosts(NamedTuple):
    """An ingest host, and others with separate data folders that serve its streams.

    The first of the others is an API host; the second could receive streams, too.
    """

    redis: RedisServer
    ingest: ServiceProcess
    others: tuple[ServiceProcess, ServiceProcess]


@pytest.fixture(scope="module")
def hosts(
    s3_server: S3Server, postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[IngestAndApiHosts]:
    folder = tmp_path_factory.mktemp("hosts")
    rtmp, rtmps = free_ports(2)
    ports = ("--rtmp", f"127.0.0.1:{rtmp}", "--rtmps", f"127.0.0.1:{rtmps}")
    with ExitStack() as stack:
        redis = stack.enter_context(redis_server(folder))
        environment = OwnBucket(s3_server).settings(
            HEADEND_DATABASE__URL=stack.enter_context(postgres_server.empty_database()),
            HEADEND_REDIS__URL=redis.url,
        )
        migration = run_headend(
            "migrate", "--data", str(folder / "ingest"), environment=environment
        )
        assert migration.returncode == 0, migration.stderr
        ingest, one, two = (
            stack.enter_context(
                service(folder / name, role=role, environment=environment, arguments=arguments)
            )
            for name, role, arguments in (
                ("ingest", "ingest", ports),
                ("one", "api", ports),
                ("two", "serve", ()),
            )
        )
        yield IngestAndApiHosts(redis, ingest, (one, two))


def newest(checker: LiveChecker) -> int:
    """Return the number of the newest segment that every rendition lists."""
    return min((each.history.newest[0] for each in checker.renditions.values()), default=-1)


def sound(host: ServiceProcess) -> str:
    """Return the playlist of the sound at a host."""
    return addresses(host.playlist)["audio"]


def is_low_latency(host: ServiceProcess) -> bool:
    return "#EXT-X-PART:" in fetch(sound(host)).text


def next_part(timeline: Timeline) -> tuple[int, int]:
    return timeline.next_msn, len(timeline.parts)


def block(url: str, timeline: Timeline) -> Answer:
    """Send a blocking request for the playlist with the next part."""
    msn, part = next_part(timeline)
    return fetch(f"{url}?_HLS_msn={msn}&_HLS_part={part}")


def test_every_host_has_low_latency_and_keeps_the_standard(
    hosts: IngestAndApiHosts, proof: Proof
) -> None:
    command = clock_video.encoder(f"{hosts.ingest.server}/{hosts.ingest.key}")
    with publishing(command):
        for host in hosts.others:
            poll(lambda at=host.playlist: multivariant(at), within=30, what="a playlist")
        with ExitStack() as stack:
            checkers = [
                stack.enter_context(checking(host.playlist, mode="low")) for host in hosts.others
            ]
            began = time.monotonic()
            for checker in checkers:
                poll(lambda one=checker: newest(one) >= 1, within=30, what="segments")
            reached = [newest(checker) for checker in checkers]
            for checker, least in zip(checkers, reached, strict=True):
                poll(
                    lambda one=checker, least=least: newest(one) >= least + 4,
                    within=30,
                    what="four more segments",
                )
            # A viewer whose requests reach one host after the other.
            timeline, _ = parse_timeline(fetch(sound(hosts.others[0])).text)
            for number in range(9):
                url = sound(hosts.others[number % 2])
                answer = block(url, timeline)
                assert answer.status == 200
                following = next_part(timeline)
                timeline, _ = parse_timeline(answer.text)
                assert timeline.has(*following)
                if timeline.parts:
                    part = fetch(urljoin(url, timeline.parts[-1].uri))
                    assert (part.status, len(part.body) > 0) == (200, True)
            seconds = time.monotonic() - began
        for checker in checkers:
            proof(
                f"low latency at a host that does not make the stream for {seconds:.0f} s: "
                f"{checker.fetches} answers",
                f"{len(checker.findings)} findings",
                "0",
            )
            assert checker.findings == [], "\n".join(checker.findings)
            assert all(each.history.hints for each in checker.renditions.values())

        without_redis(hosts)
        assert "edge not published" in hosts.ingest.log.read_text()
        assert "edge published again" in hosts.ingest.log.read_text()
        assert not any((host.data / "objects").exists() for host in hosts.others)


def without_redis(hosts: IngestAndApiHosts) -> None:
    """Kill Redis and start it again: viewers get the stored segments, then low latency."""

    def reached(host: ServiceProcess) -> int:
        playlist = media(sound(host))
        return playlist.sequence + len(playlist.segments)

    hosts.redis.stop()
    for host in hosts.others:
        poll(lambda at=host: not is_low_latency(at), within=20, what="stored playlists")
        before = reached(host)
        poll(lambda at=host, least=before + 2: reached(at) >= least, within=30, what="going on")
        url = sound(host)
        listed = media(url).segments[-1]
        assert fetch(urljoin(url, listed.uri)).status == 200
        assert fetch(f"{url}?_HLS_msn={before + 1}&_HLS_part=0").status == 200
    hosts.redis.start()
    for host in hosts.others:
        poll(lambda at=host: is_low_latency(at), within=20 * SCALE, what="low latency again")
        timeline, _ = parse_timeline(fetch(sound(host)).text)
        assert block(sound(host), timeline).status == 200


@pytest.mark.prove
def test_low_latency_goes_on_at_the_next_owner_and_a_frozen_one_changes_nothing(
    s3_server: S3Server, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    """The owner freezes, the host that relays the backup takes over, and the owner wakes up."""
    with ExitStack() as stack:
        redis = stack.enter_context(redis_server(tmp_path))
        database = stack.enter_context(postgres_server.empty_database())
        environment = OwnBucket(s3_server).settings(HEADEND_REDIS__URL=redis.url)
        several = stack.enter_context(SeveralHosts(tmp_path, database, environment))
        api, first, _ = several.api(), several.ingest("a"), several.ingest("b")
        stream = pair(api.running)
        for host, slot in (("a", 0), ("b", 1)):
            command = clock_video.encoder(several.url(host, stream.key, slot=slot))
            stack.enter_context(publishing(command))
            poll(lambda: several.owner(stream.number) == ("a", 1), within=20, what="an owner")
        poll(lambda: multivariant(stream.playlist), within=30, what="a playlist")
        poll(lambda: stream.receives() == 2, within=20, what="both encoders")
        url = addresses(stream.playlist)["audio"]

        def timeline() -> Timeline:
            response = fetch(url)
            assert response.status == 200
            return parse_timeline(response.text)[0]

        poll(lambda: timeline().parts, within=20, what="low latency")
        with first.frozen():
            poll(lambda: several.owner(stream.number) == ("b", 2), within=20, what="a takeover")
            before = timeline().next_msn
            poll(lambda: timeline().next_msn >= before + 3, within=30, what="going on")
            poll(lambda: timeline().parts, within=20, what="low latency again")
        poll(lambda: first.log_has("surrendered"), within=20, what="giving way")
        reached = next_part(timeline())
        for _ in range(10):
            answer = block(url, timeline())
            assert answer.status == 200
            newest = next_part(parse_timeline(answer.text)[0])
            assert newest > reached
            reached = newest
        (generation,) = redis.command("KEYS", "*.edge:generation:*")
        assert redis.command("GET", generation) == b"%d" % (BEFORE_FIRST + 2)
        assert addresses(stream.playlist)["audio"] == url, "it is the same run"
