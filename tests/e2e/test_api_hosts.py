"""API hosts that share nothing with the ingest host but PostgreSQL, Redis and a bucket."""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import NamedTuple
from urllib.parse import urljoin

import pytest

from media.hls.live_m3u8 import parse_timeline
from media.hls.timeline import Timeline
from tests.conftest import Proof
from tests.e2e.test_bucket import HEADEND, Bucket
from tests.support.e2e import clock_video
from tests.support.e2e.hls_reader import addresses, media, multivariant
from tests.support.e2e.publishers import publishing
from tests.support.e2e.service import SCALE, Answer, Running, fetch, service
from tests.support.free_ports import free_ports
from tests.support.hls.live_checker import LiveChecker
from tests.support.hls.strict_client import checking
from tests.support.postgres import PostgresServer
from tests.support.redis_server import RedisServer, redis_server
from tests.support.storage.s3_server import S3Server
from tests.support.waiting import poll

pytestmark = pytest.mark.e2e


class Hosts(NamedTuple):
    """An ingest host, and API hosts with data folders of their own."""

    redis: RedisServer
    ingest: Running
    apis: tuple[Running, Running]


@pytest.fixture(scope="module")
def hosts(
    s3_server: S3Server, postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Hosts]:
    folder = tmp_path_factory.mktemp("hosts")
    rtmp, rtmps = free_ports(2)
    ports = ("--rtmp", f"127.0.0.1:{rtmp}", "--rtmps", f"127.0.0.1:{rtmps}")
    with ExitStack() as stack:
        redis = stack.enter_context(redis_server(folder))
        environment = Bucket(s3_server).settings(
            HEADEND_DATABASE__URL=stack.enter_context(postgres_server.empty_database()),
            HEADEND_REDIS__URL=redis.url,
        )
        subprocess.run(
            [HEADEND, "migrate", "--data", str(folder / "ingest")],
            env={**os.environ, **environment}, capture_output=True, check=True,
        )  # fmt: skip
        ingest, one, other = (
            stack.enter_context(
                service(folder / name, role=role, environment=environment, arguments=ports)
            )
            for name, role in (("ingest", "ingest"), ("one", "api"), ("other", "api"))
        )
        yield Hosts(redis, ingest, (one, other))


def newest(checker: LiveChecker) -> int:
    """Return the number of the newest segment that every rendition lists."""
    return min((each.history.newest[0] for each in checker.renditions.values()), default=-1)


def sound(api: Running) -> str:
    """Return the playlist of the sound at an API host."""
    return addresses(api.playlist)["audio"]


def is_low_latency(api: Running) -> bool:
    return "#EXT-X-PART:" in fetch(sound(api)).text


def next_part(timeline: Timeline) -> tuple[int, int]:
    return timeline.next_msn, len(timeline.parts)


def block(url: str, timeline: Timeline) -> Answer:
    """Request the playlist with the part that comes next."""
    msn, part = next_part(timeline)
    return fetch(f"{url}?_HLS_msn={msn}&_HLS_part={part}")


def test_every_api_host_has_low_latency_and_keeps_the_standard(hosts: Hosts, proof: Proof) -> None:
    command = clock_video.encoder(f"{hosts.ingest.server}/{hosts.ingest.key}", size="640x360")
    with publishing(command):
        for api in hosts.apis:
            poll(lambda at=api.playlist: multivariant(at), within=30, what="a playlist")
        with ExitStack() as stack:
            checkers = [
                stack.enter_context(checking(api.playlist, mode="low")) for api in hosts.apis
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
            timeline, _ = parse_timeline(fetch(sound(hosts.apis[0])).text)
            for number in range(8):
                url = sound(hosts.apis[number % 2])
                answer = block(url, timeline)
                assert answer.status == 200
                wanted = next_part(timeline)
                timeline, _ = parse_timeline(answer.text)
                assert timeline.has(*wanted)
                if timeline.parts:
                    part = fetch(urljoin(url, timeline.parts[-1].uri))
                    assert (part.status, len(part.body) > 0) == (200, True)
            seconds = time.monotonic() - began
        for checker in checkers:
            proof(
                f"low latency at an API host of its own for {seconds:.0f} s: "
                f"{checker.fetches} answers",
                f"{len(checker.findings)} findings",
                "0",
            )
            assert checker.findings == [], "\n".join(checker.findings)
            assert all(each.history.hints for each in checker.renditions.values())

        without_redis(hosts)
        assert "edge not published" in hosts.ingest.log.read_text()
        assert "edge published again" in hosts.ingest.log.read_text()
        assert not any((api.data / "objects").exists() for api in hosts.apis)


def without_redis(hosts: Hosts) -> None:
    """Kill Redis and start it again: viewers get what is stored, then low latency."""

    def reached(api: Running) -> int:
        playlist = media(sound(api))
        return playlist.sequence + len(playlist.segments)

    hosts.redis.stop()
    for api in hosts.apis:
        poll(lambda at=api: not is_low_latency(at), within=20, what="stored playlists")
        before = reached(api)
        poll(lambda at=api, least=before + 2: reached(at) >= least, within=30, what="going on")
        url = sound(api)
        listed = media(url).segments[-1]
        assert fetch(urljoin(url, listed.uri)).status == 200
        assert fetch(f"{url}?_HLS_msn={before + 1}&_HLS_part=0").status == 200
    hosts.redis.start()
    for api in hosts.apis:
        poll(lambda at=api: is_low_latency(at), within=20 * SCALE, what="low latency again")
        timeline, _ = parse_timeline(fetch(sound(api)).text)
        assert block(sound(api), timeline).status == 200
