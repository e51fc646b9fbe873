"""Any one of six hosts is killed or frozen, again and again: streams and films go on."""

import os
import random
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, cast

import pytest

from tests.conftest import Proof
from tests.e2e.test_bucket import Bucket
from tests.support.e2e.encoder_pair import Pair, pair
from tests.support.e2e.hls_reader import addresses, media, multivariant
from tests.support.e2e.hosts import Host, Hosts
from tests.support.e2e.publishers import ffmpeg, persisting
from tests.support.e2e.service import Running, fetch
from tests.support.e2e.strict_player import Follower, following
from tests.support.e2e.uploaded_videos import asked, upload
from tests.support.engine.upload_files import film
from tests.support.postgres import PostgresServer
from tests.support.redis_server import redis_server
from tests.support.storage.s3_server import S3Server
from tests.support.waiting import SCALE, poll

pytestmark = [pytest.mark.e2e, pytest.mark.prove]

ROUNDS: Final = int(os.environ.get("HEADEND_TEST_ROUNDS", "50"))
STREAMS: Final = 3
SEED: Final = 15
FROZEN_SECONDS: Final = 10.0
AWAY_SECONDS: Final = 2.0
X264: Final = ("-c:v", "libx264", "-preset", "ultrafast", "-g", "60", "-c:a", "aac")


@pytest.fixture
def hosts(s3_server: S3Server, postgres_server: PostgresServer, tmp_path: Path) -> Iterator[Hosts]:
    with redis_server(tmp_path) as redis, postgres_server.empty_database() as database:
        environment = Bucket(s3_server).settings(
            HEADEND_REDIS__URL=redis.url, HEADEND_FAILOVER__RETURN_SECONDS="3"
        )
        with Hosts(tmp_path, database, environment) as opened:
            yield opened


class Waits:
    """How long a viewer at low latency waits for the next part, at most, in seconds."""

    def __init__(self, playlist: str) -> None:
        self.longest = 0.0
        self._playlist = playlist
        self._over = threading.Event()
        self._newest = ""
        self._at: float | None = None

    def run(self) -> None:
        """Look every 0.1 s until told to stop."""
        while not self._over.wait(0.1):
            began, answer = time.monotonic(), None
            with suppress(OSError):
                answer = fetch(self._playlist)
            if answer is None or time.monotonic() - began > AWAY_SECONDS:
                self._at = None  # its own host is away: a viewer would go to another one
                continue
            lines = [line for line in answer.text.splitlines() if line.startswith("#EXT-X-PART:")]
            newest = lines[-1] if answer.status == 200 and lines else self._newest
            now = time.monotonic()
            if newest != self._newest or self._at is None:
                self._newest, self._at = newest, now
            self.longest = max(self.longest, now - self._at)

    def stop(self) -> None:
        """Look no more."""
        self._over.set()


@contextmanager
def waiting(playlist: str) -> Generator[Waits]:
    """Watch a playlist for the length of the block."""
    waits = Waits(playlist)
    thread = threading.Thread(target=waits.run, name="waits")
    thread.start()
    try:
        yield waits
    finally:
        waits.stop()
        thread.join()


class Place:
    """Two hosts of each role, and streams whose primary is at the one and backup at the other."""

    def __init__(self, hosts: Hosts) -> None:
        self.ingest = [hosts.ingest(name) for name in "ab"]
        self.apis = [hosts.api(name) for name in ("api", "api-2")]
        self.transcode = [hosts.transcode(name) for name in ("t", "u")]
        self.all = [*self.ingest, *self.apis, *self.transcode]
        self.streams = [pair(self.apis[0].running, f"Stream {n}") for n in range(STREAMS)]

    def at(self, host: Host, stream: Pair) -> str:
        """Return the address of a stream at an API host."""
        return f"{host.running.http}/live/{stream.hash}/index.m3u8"

    def newest(self, host: Host, stream: Pair) -> int:
        playlist = media(addresses(self.at(host, stream))["audio"])
        return playlist.sequence + len(playlist.segments)

    def goes_on(self, count: int) -> None:
        """Wait until each API host shows more of each stream."""
        for host in self.apis:
            for stream in self.streams:
                before = self.newest(host, stream)
                poll(
                    lambda host=host, stream=stream, least=before + count: (
                        self.newest(host, stream) >= least
                    ),
                    within=40,
                    what=f"{host.name} shows {stream.hash}",
                )

    def both_on(self) -> None:
        """Wait until both encoders of each stream send."""
        for stream in self.streams:
            poll(lambda one=stream: one.receives() == 2, within=40, what="both encoders")


def fail(host: Host, kind: str) -> None:
    """Have a host fail, and come back."""
    if kind == "kill":
        host.kill()
        time.sleep(1)
        host.start()
    else:
        with host.frozen():
            time.sleep(FROZEN_SECONDS)


def incomplete(api: Running, videos: list[int]) -> list[int]:
    """Return which videos are not complete; none may have failed."""
    states = {number: str(asked(api, f"/api/videos/{number}/status")["state"]) for number in videos}
    assert "failed" not in states.values(), states
    return [number for number, state in states.items() if state != "completed"]


def test_streams_and_films_outlive_the_failure_of_any_host(
    hosts: Hosts, small_source: Path, tmp_path: Path, proof: Proof
) -> None:
    path = film(tmp_path / "film.mp4", *X264, seconds=20, size=(640, 360), rate=30)
    chance = random.Random(SEED)
    place = Place(hosts)
    videos: list[int] = []
    failed: dict[str, int] = {}
    with ExitStack() as stack:
        for stream in place.streams:
            for slot, name in enumerate("ab"):
                address = hosts.url(name, stream.key, slot=slot)
                command = ffmpeg(small_source, address, "-stream_loop", "-1")
                stack.enter_context(persisting(command))
        for stream in place.streams:
            poll(lambda one=stream: multivariant(one.playlist), within=60, what="a playlist")
        place.both_on()
        place.goes_on(2)
        viewers: list[Follower] = []
        waits: list[Waits] = []
        for host in place.apis:
            for stream in place.streams:
                address = place.at(host, stream)
                normal = stack.enter_context(following(f"{address}?latency=normal"))
                viewers.append(normal)
                low = addresses(address)["audio"]
                waits.append(stack.enter_context(waiting(low)))
        for _ in range(ROUNDS):
            host, kind = chance.choice(place.all), chance.choice(["kill", "freeze"])
            if len(incomplete(place.apis[0].running, videos)) < 2:
                status, added = upload(place.apis[0].running, path)
                assert status == 201, added
                videos.append(cast("int", added["video"]["id"]))
            time.sleep(chance.uniform(0, 2))
            fail(host, kind)
            name = f"{host.running.data.name} {kind}"
            failed[name] = failed.get(name, 0) + 1
            place.goes_on(2)
            place.both_on()
        poll(
            lambda: not incomplete(place.apis[0].running, videos),
            within=120,
            what="all films",
        )
        marks = max(max(each.marks.values(), default=0) for each in viewers)
    taken = sum(count for name, count in failed.items() if name[0] in "ab" and name[1] == " ")
    proof(f"{ROUNDS} failures of one of six hosts: {failed}", f"{len(videos)} films", "")
    proof("segments that viewers at normal latency fetched", f"{viewers[0].segments}", "")
    proof("discontinuities", f"{marks} after {taken} failures of ingest hosts", f"{taken}")
    longest = max(each.longest for each in waits)
    proof("longest wait for a part at low latency", f"{longest:.1f} s", "4 s")
    assert marks <= taken
    assert longest <= 4.0 * SCALE
