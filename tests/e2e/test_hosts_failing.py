"""Any one of six hosts is killed, frozen or cut off, again and again: everything continues.

Each host has its own network stack (`tests.support.e2e.network_namespaces`), so a host that is cut
off keeps running.
"""

import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final, cast

import pytest

from tests.conftest import Proof
from tests.e2e.test_bucket import OwnBucket
from tests.support.e2e.encoder_pair import EncoderPair, pair
from tests.support.e2e.hls_reader import addresses, media, multivariant
from tests.support.e2e.hosts import HostProcess, HostProcesses
from tests.support.e2e.network_namespaces import HERE, network
from tests.support.e2e.publishers import ffmpeg, persisting
from tests.support.e2e.roaming_uploads import Uploader, uploading
from tests.support.e2e.roaming_viewers import ApiHosts, LowLatencyViewer, RoamingViewer, waiting
from tests.support.e2e.service import ServiceProcess
from tests.support.e2e.strict_player import keeping_up
from tests.support.e2e.uploaded_videos import get_json, upload
from tests.support.e2e.written_once import WrittenOnce
from tests.support.engine.upload_files import film
from tests.support.postgres import running_postgres
from tests.support.redis_server import redis_server
from tests.support.sql import run_sql
from tests.support.storage.s3_server import running_s3
from tests.support.waiting import SCALE, poll

pytestmark = [pytest.mark.e2e, pytest.mark.prove]

ROUNDS: Final = int(os.environ.get("HEADEND_TEST_ROUNDS", "50"))
SEED: Final = int(os.environ.get("HEADEND_TEST_SEED", "15"))
STREAMS: Final = 3
FILMS: Final = 2
UPLOADS: Final = 2
AWAY_SECONDS: Final = 10.0
MOST_WAIT: Final = 4.0  # seconds, at low latency
KINDS: Final = ("kill", "freeze", "cut")
HOSTS: Final = ("a", "b", "api", "api-2", "t", "u")
X264: Final = ("-c:v", "libx264", "-preset", "ultrafast", "-g", "60", "-c:a", "aac")


class HostsAndStreams:
    """Two hosts of each role; each stream has its encoders at different ingest hosts."""

    def __init__(self, hosts: HostProcesses, bucket: OwnBucket, database: str) -> None:
        self.hosts = hosts
        self.bucket = bucket
        self.database = database
        self.ingest = [hosts.ingest(name) for name in "ab"]
        self.apis = [hosts.api(name) for name in ("api", "api-2")]
        self.transcode = [hosts.transcode(name) for name in ("t", "u")]
        self.all = [*self.ingest, *self.apis, *self.transcode]
        token = self.apis[0].running.token
        for host in self.apis:
            (host.running.data / "owner.token").write_text(token)
        self.streams = [pair(self.apis[0].running, f"Stream {n}") for n in range(STREAMS)]
        self.bases = [host.running.http for host in self.apis]

    def api_hosts(self, first: int) -> ApiHosts:
        """Return the API hosts in the order of a viewer that prefers host `first`."""
        first %= len(self.bases)
        return ApiHosts([*self.bases[first:], *self.bases[:first]])

    def newest(self, host: HostProcess, stream: EncoderPair) -> int:
        address = f"{host.running.http}/live/{stream.hash}/index.m3u8"
        playlist = media(addresses(address)["audio"])
        return playlist.sequence + len(playlist.segments)

    def wait_for_segments(self, count: int) -> None:
        """Wait until each API host lists `count` more segments of each stream."""
        pairs = [(host, stream) for host in self.apis for stream in self.streams]
        before = [self.newest(host, stream) for host, stream in pairs]
        for (host, stream), least in zip(pairs, before, strict=True):
            poll(
                lambda host=host, stream=stream, least=least + count: (
                    self.newest(host, stream) >= least
                ),
                within=40,
                what=f"{host.name} shows {stream.hash}",
            )

    def wait_for_both(self) -> None:
        """Wait until both encoders of each stream send."""
        for stream in self.streams:
            poll(lambda one=stream: one.receives() == 2, within=40, what="both encoders")

    def made(self) -> Counter[str]:
        """Return how often each video was completed."""
        rows = run_sql(
            self.database,
            "SELECT subject, count(*) FROM events WHERE kind = 'video completed' GROUP BY subject",
        )
        return Counter({str(subject): cast("int", count) for subject, count in rows})


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[HostsAndStreams]:
    with ExitStack() as world:
        around = world.enter_context(network())
        redis = world.enter_context(redis_server(tmp_path, address=HERE))
        postgres = world.enter_context(running_postgres(HERE))
        database = world.enter_context(postgres.empty_database())
        bucket = OwnBucket(world.enter_context(running_s3(HERE)))
        environment = bucket.settings(
            HEADEND_REDIS__URL=redis.url, HEADEND_FAILOVER__RETURN_SECONDS="3"
        )
        machines = {name: around.machine() for name in HOSTS}
        hosts = world.enter_context(
            HostProcesses(tmp_path, database, environment, machines=machines)
        )
        yield HostsAndStreams(hosts, bucket, database)


def fail(host: HostProcess, kind: str, written: WrittenOnce) -> None:
    """Let a host fail, and return."""
    if kind == "kill":
        host.kill()
        time.sleep(1)
        host.start()
        return
    with host.frozen() if kind == "freeze" else host.cut_off():
        time.sleep(AWAY_SECONDS)
        written.refresh()  # the objects from before it resumed must be unchanged afterwards


def incomplete(api: ServiceProcess, videos: list[int]) -> list[int]:
    """Return the videos that are not complete; none may have failed."""
    states = {
        number: str(get_json(api, f"/api/videos/{number}/status")["state"]) for number in videos
    }
    assert "failed" not in states.values(), states
    return [number for number, state in states.items() if state != "completed"]


def print_progress(text: str) -> None:
    """Print the progress, since the test takes a quarter of an hour."""
    print(f"{time.strftime('%T')} {text}", file=sys.__stderr__, flush=True)


class FailureRounds:
    """Failures one after the other, and their results."""

    def __init__(self, installation: HostsAndStreams, path: Path) -> None:
        self.installation = installation
        self.films: list[int] = []
        self.failed: Counter[str] = Counter()
        self.written = WrittenOnce(
            installation.bucket.server,
            installation.bucket.location,
            [each.hash for each in installation.streams],
        )
        self._path = path
        self._chance = random.Random(SEED)

    def run(self, viewers: list[RoamingViewer], waits: list[LowLatencyViewer]) -> None:
        """Let one of the hosts fail, and wait until all has recovered."""
        host, kind = self._chance.choice(self.installation.all), self._chance.choice(KINDS)
        api = self.installation.apis[0].running
        for _ in range(FILMS - len(incomplete(api, self.films))):
            status, added = upload(api, self._path)
            assert status == 201, added
            self.films.append(cast("int", added["video"]["id"]))
        time.sleep(self._chance.uniform(0, 2))
        owners = [self.installation.hosts.owner(each.number) for each in self.installation.streams]
        began = time.monotonic()
        fail(host, kind, self.written)
        self.failed[f"{host.name} {kind}"] += 1
        self.installation.wait_for_segments(2)
        self.installation.wait_for_both()
        self.written.refresh()
        longest = max(
            (wait for each in waits for wait, at in each.waits if at > began), default=0.0
        )
        print_progress(
            f"round {self.failed.total()}: {host.name} {kind}, owners {owners},"
            f" wait {longest:.1f} s, {time.monotonic() - began:.0f} s,"
            f" least ahead {min(each.least for each in viewers):.1f} s,"
            f" marks {[max(each.marks.values(), default=0) for each in viewers]}"
            f" faults {[each.faults for each in viewers]} {self.written.faults}"
        )


def test_everything_survives_the_failure_of_any_host(
    installation: HostsAndStreams, small_source: Path, tmp_path: Path, proof: Proof
) -> None:
    path = film(tmp_path / "film.mp4", *X264, seconds=20, size=(640, 360), rate=30)
    token = installation.apis[0].running.token
    rounds = FailureRounds(installation, path)
    viewers: list[RoamingViewer] = []
    waits: list[LowLatencyViewer] = []
    uploaders: list[Uploader] = []
    with ExitStack() as stack:
        for stream in installation.streams:
            for slot, name in enumerate("ab"):
                address = installation.hosts.url(name, stream.key, slot=slot)
                command = ffmpeg(small_source, address, "-stream_loop", "-1")
                stack.enter_context(persisting(command))
        for stream in installation.streams:
            poll(lambda one=stream: multivariant(one.playlist), within=60, what="a playlist")
        installation.wait_for_both()
        installation.wait_for_segments(4)
        for number, stream in enumerate(installation.streams):
            viewer = RoamingViewer(
                f"{stream.playlist}?latency=normal", installation.api_hosts(number)
            )
            stack.enter_context(keeping_up(viewer))
            viewers.append(viewer)
            low = LowLatencyViewer(
                addresses(stream.playlist)["audio"], installation.api_hosts(number + 1)
            )
            waits.append(stack.enter_context(waiting(low)))
        for number in range(UPLOADS):
            uploader = Uploader(installation.bases, token, number)
            uploaders.append(stack.enter_context(uploading(uploader)))
        for _ in range(ROUNDS):
            rounds.run(viewers, waits)
        off = run_sql(installation.database, "SELECT count(*) FROM events WHERE kind = 'off air'")
    poll(
        lambda: not incomplete(installation.apis[0].running, rounds.films),
        within=120,
        what="all films",
    )
    uploaded = {name: data for each in uploaders for name, data in each.made.items()}
    completions = poll(
        lambda: counts if uploaded.keys() <= (counts := installation.made()).keys() else None,
        within=120,
        what="all uploads made",
    )
    check_videos(installation, rounds.films, uploaded, completions)
    rounds.written.refresh()
    compared = sum(rounds.written.compare_with(each.digests) for each in viewers)
    assert rounds.written.faults == []

    failed = rounds.failed
    ingest_failures = sum(count for name, count in failed.items() if name.split()[0] in "ab")
    marks = max(max(each.marks.values(), default=0) for each in viewers)
    longest = max(each.longest for each in waits)
    least = min(each.least for each in viewers)
    proof(f"{failed.total()} failures of one of six hosts, seed {SEED}", str(dict(failed)), "")
    proof("least that viewers at normal latency had to play", f"{least:.1f} s of 12 s", "> 0 s")
    proof(
        "discontinuities",
        f"{marks} after {ingest_failures} failures of ingest hosts",
        f"≤ {ingest_failures}",
    )
    proof("longest wait for a part at low latency", f"{longest:.1f} s", f"≤ {MOST_WAIT:.0f} s")
    films = (
        f"{len(rounds.films)} films, {len(uploaded)} uploads cut {sum(e.cuts for e in uploaders)}"
    )
    proof("films and uploads complete, each made once, as sent", f"{films} times", "all")
    proof(
        "segments of which another host changed a byte",
        f"0 of {rounds.written.names}; {compared} as viewers got them",
        "0",
    )
    proof("events that say that a stream is off the air", str(off[0][0]), "0")
    assert marks <= ingest_failures
    assert off == [(0,)]
    assert least > 0
    assert longest <= MOST_WAIT * SCALE


def check_videos(
    installation: HostsAndStreams,
    films: list[int],
    uploaded: dict[str, bytes],
    completions: Counter[str],
) -> None:
    """Check that each film and upload is one video, made once, and stored as it was uploaded."""
    assert set(completions.values()) == {1}, completions
    assert len(completions) == len(films) + len(uploaded)
    server, bucket, prefix = (
        installation.bucket.server,
        installation.bucket.location.bucket,
        "media/sources/",
    )
    stored = server.versions(bucket, prefix)
    assert len(stored) == len(completions)
    for name, data in uploaded.items():
        (key,) = [each for each in stored if each.startswith(f"{prefix}{name}/")]
        assert server.read(bucket, key) == data
    poll(  # the streams' recordings get their previews now
        lambda: run_sql(installation.database, "SELECT count(*) FROM jobs") == [(0,)],
        within=60,
        what="no job left",
    )
    assert run_sql(installation.database, "SELECT count(*) FROM spans") == [(0,)]
