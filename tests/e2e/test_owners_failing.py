"""The owner of streams is killed, frozen or cut off, again and again: what was listed stays so.

One stream has an encoder at each of two hosts, the other has both at its owner; these go to the
other host when theirs fails. Redis stays there all the time, so nothing that viewers saw is lost.
The first failure comes when viewers know the second stream, and its first step is not stored yet.
"""

import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.conftest import Proof
from tests.e2e.test_bucket import OwnBucket
from tests.support.e2e.encoder_pair import EncoderPair, pair
from tests.support.e2e.hls_reader import multivariant
from tests.support.e2e.hosts import HostProcess, HostProcesses
from tests.support.e2e.listed_segments import ListedSegments, watching
from tests.support.e2e.network_namespaces import ALSO_HERE, HERE, NetworkHost, network
from tests.support.e2e.publishers import ffmpeg, persisting, publishing
from tests.support.e2e.written_once import WrittenOnce
from tests.support.in_thread import in_thread
from tests.support.postgres import running_postgres
from tests.support.redis_server import redis_server
from tests.support.storage.s3_server import running_s3
from tests.support.waiting import SCALE, poll

pytestmark = [pytest.mark.e2e, pytest.mark.prove]

ROUNDS: Final = int(os.environ.get("HEADEND_TEST_ROUNDS", "30"))
KINDS: Final = ("freeze", "cut", "kill")
AWAY_SECONDS: Final = 8.0
NAMES: Final = ("a", "b")
MOST_WAIT: Final = 4.0  # seconds, at low latency, with an encoder at each host
PART_SECONDS: Final = 0.5


class MovingEncoder:
    """An encoder that is restarted until the end, at another host once it is told so."""

    def __init__(self, source: Path, hosts: HostProcesses, key: str, slot: int) -> None:
        self._commands = {
            name: ffmpeg(source, hosts.url(name, key, slot=slot), "-stream_loop", "-1")
            for name in NAMES
        }
        self._host = NAMES[0]
        self._over = threading.Event()

    def move(self, host: str) -> None:
        """Send to this host from now on."""
        self._host = host

    def run(self) -> None:
        """Send until `stop`."""
        while not self._over.is_set():
            host = self._host
            with publishing(self._commands[host]) as encoder:
                while encoder.poll() is None and host == self._host and not self._over.wait(0.1):
                    pass
                encoder.kill()
            self._over.wait(0.3)

    def stop(self) -> None:
        """End `run`."""
        self._over.set()


@contextmanager
def running(encoder: MovingEncoder) -> Generator[MovingEncoder]:
    with in_thread(encoder.run, encoder.stop):
        yield encoder


class Owners:
    """Two hosts on two machines, and two streams, both owned by the same host."""

    def __init__(
        self, hosts: HostProcesses, bucket: OwnBucket, machines: Mapping[str, NetworkHost]
    ) -> None:
        self.hosts = hosts
        self._machines = machines
        self._kept_from_store = ExitStack()
        self.ingest = {name: hosts.ingest(name) for name in NAMES}
        self.api = hosts.api()
        self._bucket = bucket
        self.apart, self.together = (
            pair(self.api.running, f"Encoders {place}") for place in ("apart", "together")
        )
        self.written = WrittenOnce(bucket.server, bucket.location, [self.apart.hash])
        self.failed: Counter[str] = Counter()

    @property
    def streams(self) -> tuple[EncoderPair, EncoderPair]:
        return self.apart, self.together

    def owner(self, stream: EncoderPair) -> str:
        owner = self.hosts.owner(stream.number)
        return "" if owner is None else owner[0]

    def wait_for_playlist(self, stream: EncoderPair) -> None:
        """Wait until viewers know a stream."""
        poll(lambda: multivariant(stream.playlist), within=60, what="a playlist")

    def keep_from_storing(self, stream: EncoderPair) -> None:
        """Let the owner of a new stream store no step of it, until it fails."""
        poll(lambda: self._stored(stream), within=60, what="anything of a run")
        machine = self._machines[self.owner(stream)]
        self._kept_from_store.enter_context(machine.kept_from(ALSO_HERE))

    def _stored(self, stream: EncoderPair, ending: str = "") -> list[str]:
        place, server = self._bucket.location, self._bucket.server
        keys = server.versions(place.bucket, f"{place.prefix}/live/{stream.hash}/")
        return [key for key in keys if key.endswith(ending)]

    def wait_for_both(self) -> None:
        for stream in self.streams:
            self.wait_for_encoders(stream)

    def wait_for_encoders(self, stream: EncoderPair) -> None:
        """Wait until a stream has both encoders."""
        poll(lambda: stream.receives() == 2, within=40, what="both encoders")

    def fail(self, kind: str, moving: list[MovingEncoder]) -> list[str]:
        """Let the owner of both streams fail, and wait until the other one has taken over.

        Return the playlists of the second stream that were stored when it failed.
        """
        name = self.owner(self.apart)
        poll(lambda: self.owner(self.together) == name, within=20, what="one owner")
        (other,) = set(NAMES) - {name}
        host = self.ingest[name]
        with _failing(host, kind):
            began = time.monotonic()
            stored = self._stored(self.together, ".m3u8")
            self._kept_from_store.close()
            for encoder in moving:
                encoder.move(other)
            for stream in self.streams:
                poll(lambda one=stream: self.owner(one) == other, within=20, what="another owner")
            time.sleep(max(0.0, AWAY_SECONDS - (time.monotonic() - began)))
            self.written.refresh()
        self.failed[kind] += 1
        self.wait_for_both()
        time.sleep(2)
        self.written.refresh()
        return stored


@contextmanager
def _failing(host: HostProcess, kind: str) -> Generator[None]:
    if kind == "kill":
        host.kill()
        yield
        host.start()
    else:
        with host.frozen() if kind == "freeze" else host.cut_off():
            yield


@pytest.fixture
def owners(tmp_path: Path) -> Iterator[Owners]:
    with ExitStack() as world:
        around = world.enter_context(network())
        redis = world.enter_context(redis_server(tmp_path, address=HERE))
        postgres = world.enter_context(running_postgres(HERE))
        database = world.enter_context(postgres.empty_database())
        bucket = OwnBucket(world.enter_context(running_s3(ALSO_HERE)))
        environment = bucket.settings(
            HEADEND_REDIS__URL=redis.url,
            HEADEND_FAILOVER__RETURN_SECONDS="3",
            HEADEND_LIVE__RECONNECT_SECONDS="30",
        )
        machines = {name: around.machine() for name in (*NAMES, "api")}
        hosts = world.enter_context(
            HostProcesses(tmp_path, database, environment, machines=machines)
        )
        yield Owners(hosts, bucket, machines)


def print_progress(text: str) -> None:
    """Print the progress, since the test takes ten minutes."""
    print(f"{time.strftime('%T')} {text}", file=sys.__stderr__, flush=True)


def test_no_listed_segment_changes_when_owners_fail(
    owners: Owners, two_rungs: Path, proof: Proof
) -> None:
    hosts = owners.hosts
    with ExitStack() as stack:
        for slot, name in enumerate(NAMES):
            address = hosts.url(name, owners.apart.key, slot=slot)
            stack.enter_context(persisting(ffmpeg(two_rungs, address, "-stream_loop", "-1")))
            if not slot:
                poll(lambda: owners.owner(owners.apart) == "a", within=20, what="an owner")
        owners.wait_for_playlist(owners.apart)
        owners.wait_for_encoders(owners.apart)
        moving = [
            stack.enter_context(running(MovingEncoder(two_rungs, hosts, owners.together.key, slot)))
            for slot in range(2)
        ]
        owners.keep_from_storing(owners.together)
        owners.wait_for_playlist(owners.together)
        apart, together = watched = [
            stack.enter_context(watching(stream.playlist)) for stream in owners.streams
        ]
        for number in range(ROUNDS):
            kind = KINDS[number % len(KINDS)]
            time.sleep(number * 0.37 % 2)  # anywhere in a segment
            stored = owners.fail(kind, moving)
            if number == 0:
                proof("playlists of a new stream that were stored at first", str(len(stored)), "0")
                assert stored == []
            print_progress(
                f"{number + 1}: {kind}, owners {[owners.owner(each) for each in owners.streams]}"
                f" {describe(apart)}; {describe(together)}; {owners.written.faults}"
            )
        again = sum(each.fetch_again() for each in watched)
    compared = sum(owners.written.compare_with(each.digests) for each in watched)
    proof(f"failures of the owner of two streams: {dict(owners.failed)}", str(ROUNDS), "")
    proof(
        "changes of listed segments, listed parts and stored media",
        f"{sum(len(each.faults) for each in watched)} in"
        f" {sum(each.count for each in watched)} segments; {again} read twice,"
        f" {compared} compared with the bucket",
        "0",
    )
    ends = [(each, *gap) for each in watched for gap in each.gaps if each.is_last_of_source(*gap)]
    lost = [(name, number) for each, name, number in ends if each.parts_of(name, number)]
    proof("of these, gaps where anything was listed", str(len(lost)), "0")
    proof(
        "gaps where a rendition had not begun what another one had", str(len(ends) - len(lost)), ""
    )
    longest = max(apart.waits, default=0.0)
    proof(
        "longest wait for a part, an encoder at each host",
        f"{longest:.1f} s",
        f"≤ {MOST_WAIT:.0f} s",
    )
    for each in watched:
        assert each.faults == []
        assert each.count > 10 * ROUNDS
    assert lost == []
    for stream, each in zip(owners.streams, watched, strict=True):  # a busy machine sheds rungs
        others = [gap for gap in each.gaps if not each.is_last_of_source(*gap)]
        assert others == [] or stream.listed_events("rung shed")
    assert owners.written.faults == []
    assert longest <= MOST_WAIT * SCALE


def describe(listed: ListedSegments) -> str:
    waits = [round(each, 1) for each in listed.waits]
    return f"{listed.count} segments, gaps {listed.gaps}, waits {waits[-2:]}, {listed.faults}"
