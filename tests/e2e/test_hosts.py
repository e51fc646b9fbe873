"""Several hosts receive a stream's encoders, and any of them dies, freezes or returns."""

import subprocess
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, cast

import pytest

from tests.e2e.test_bucket import OwnBucket
from tests.support.e2e.clock_video import PlaylistArchive, archiving, clock_jumps, encoder
from tests.support.e2e.encoder_pair import EncoderPair, Json, pair
from tests.support.e2e.hls_reader import addresses, media, multivariant
from tests.support.e2e.hosts import HostProcess, HostProcesses
from tests.support.e2e.publishers import ffmpeg, publishing
from tests.support.e2e.service import fetch
from tests.support.e2e.strict_player import following
from tests.support.postgres import PostgresServer
from tests.support.redis_server import redis_server
from tests.support.storage.s3_server import S3Server
from tests.support.waiting import poll

pytestmark = pytest.mark.e2e

# Another host takes over 3 s after an owner was last seen, and its engine starts then.
TAKEN_OVER_SECONDS = 10.0
GOP_MS = 2000


class SharedHosts(NamedTuple):
    """Hosts that the tests share; the ingest hosts run at the start of each test."""

    hosts: HostProcesses
    api: HostProcess
    first: HostProcess
    second: HostProcess


@pytest.fixture(scope="module", params=["stored", pytest.param("shown", marks=pytest.mark.prove)])
def installation(
    request: pytest.FixtureRequest,
    s3_server: S3Server,
    postgres_server: PostgresServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[SharedHosts]:
    """The next owner continues after what is stored, or with Redis after what viewers saw."""
    environment = OwnBucket(s3_server).settings(HEADEND_FAILOVER__RETURN_SECONDS="3")
    with ExitStack() as world:
        if request.param == "shown":
            redis = world.enter_context(redis_server(tmp_path_factory.mktemp("redis")))
            environment["HEADEND_REDIS__URL"] = redis.url
        database = world.enter_context(postgres_server.empty_database())
        folder = tmp_path_factory.mktemp("hosts")
        hosts = world.enter_context(HostProcesses(folder, database, environment))
        api = hosts.api()
        # Room for one run, and for two.
        first = hosts.ingest("a", HEADEND_HOSTS__STREAMS="1")
        second = hosts.ingest("b", HEADEND_HOSTS__STREAMS="2")
        yield SharedHosts(hosts, api, first, second)


@pytest.fixture
def shared(installation: SharedHosts) -> Iterator[SharedHosts]:
    """The hosts, all running and without streams."""
    for host in (installation.first, installation.second):
        if host.running.process.poll() is not None:
            host.stop()
            host.start()
    yield installation
    listed = fetch(
        f"{installation.api.running.http}/api/projects/1/streams",
        token=installation.api.running.token,
    )
    for stream in cast("list[Json]", listed.json["data"]):  # JSON
        replace(installation.api.running, number=stream["id"]).delete_stream()


def newest(stream: EncoderPair) -> int:
    playlist = media(addresses(stream.playlist)["audio"])
    return playlist.sequence + len(playlist.segments)


def wait_for_both(hosts: HostProcesses, stream: EncoderPair, owner: str) -> None:
    """Wait until both encoders send, and some segments are listed."""
    poll(lambda: multivariant(stream.playlist), within=30, what="a playlist")
    poll(lambda: stream.receives() == 2, within=20, what="both encoders")
    ownership = hosts.owner(stream.number)
    assert ownership is not None
    assert ownership[0] == owner
    wait_for_segments(stream, 3)


def wait_for_segments(stream: EncoderPair, count: int) -> None:
    before = newest(stream)
    poll(lambda: newest(stream) >= before + count, within=30, what="going on")


def taken_over(hosts: HostProcesses, stream: EncoderPair, owner: str, generation: int) -> None:
    poll(
        lambda: hosts.owner(stream.number) == (owner, generation),
        within=TAKEN_OVER_SECONDS,
        what="another owner",
    )


def check_pictures(archive: PlaylistArchive, folder: Path, *, marks: int) -> None:
    """Check that a change of the owner loses nothing, and repeats at most one keyframe interval.

    The new owner sends again what the old one had not stored.
    """
    (top,) = [name for name in archive.held if name != "audio"][:1]
    jumps = clock_jumps(archive.pictures(top, folder / "kept"))
    taken_over = [each for each in jumps if each.after.segment in archive.marks(top)]
    assert [each.gap_ms for each in taken_over if each.gap_ms > 0] == []
    # A switch between encoders loses up to half an interval, as on one host.
    assert [each.gap_ms for each in jumps if each.gap_ms > GOP_MS // 2] == []
    assert [each.gap_ms for each in jumps if each.gap_ms < -GOP_MS] == []
    assert len(archive.marks(top)) <= marks


class PublishedPair(NamedTuple):
    """Two hosts with an encoder each: the first owns the stream, the second relays its backup."""

    first: HostProcess
    second: HostProcess
    stream: EncoderPair
    primary: list[str]
    backup: subprocess.Popen[bytes]


@contextmanager
def two_encoders(shared: SharedHosts) -> Generator[PublishedPair]:
    """Publish a stream through two hosts for the length of the block."""
    hosts, api, first, second = shared
    stream = pair(api.running)
    primary = encoder(hosts.url("a", stream.key))
    with publishing(primary):
        poll(lambda: hosts.owner(stream.number) == ("a", 1), within=20, what="an owner")
        with publishing(encoder(hosts.url("b", stream.key, slot=1))) as backup:
            wait_for_both(hosts, stream, "a")
            yield PublishedPair(first, second, stream, primary, backup)


def test_a_killed_owner_is_replaced_by_the_host_that_relays_the_backup(
    shared: SharedHosts, tmp_path: Path
) -> None:
    hosts = shared.hosts
    with two_encoders(shared) as (first, second, stream, primary, backup):
        run = addresses(stream.playlist)
        with following(stream.playlist) as viewer, archiving(stream.playlist) as archive:
            wait_for_segments(stream, 2)
            first.kill()
            taken_over(hosts, stream, "b", 2)
            wait_for_segments(stream, 3)
            assert addresses(stream.playlist) == run
            assert backup.poll() is None
            # The host returns, and the primary with it, relayed to the new owner.
            first.start()
            with publishing(primary):
                poll(lambda: stream.receives() == 2, within=20, what="both again")
                poll(lambda: not stream.backup_is_on_air(), within=20, what="the primary")
                assert hosts.owner(stream.number) == ("b", 2)
                wait_for_segments(stream, 3)
        assert addresses(stream.playlist) == run
        assert max(viewer.marks.values()) <= 1
        check_pictures(archive, tmp_path, marks=1)
    assert not second.log_has("Traceback")


@pytest.mark.prove
def test_an_owner_that_was_frozen_surrenders_and_relays(
    shared: SharedHosts, tmp_path: Path
) -> None:
    hosts = shared.hosts
    with two_encoders(shared) as (first, second, stream, primary, backup):
        with following(stream.playlist) as viewer, archiving(stream.playlist) as archive:
            wait_for_segments(stream, 2)
            surrendered_before = first.running.log.read_text().count("surrendered")
            with first.frozen():
                taken_over(hosts, stream, "b", 2)
                wait_for_segments(stream, 4)
            poll(
                lambda: first.running.log.read_text().count("surrendered") > surrendered_before,
                within=20,
                what="giving way",
            )
            wait_for_segments(stream, 3)
        assert backup.poll() is None
        assert max(viewer.marks.values()) <= 1
        check_pictures(archive, tmp_path, marks=1)
        # Its encoder returns, and is relayed.
        with publishing(primary):
            poll(lambda: stream.receives() == 2, within=20, what="both again")
            assert hosts.owner(stream.number) == ("b", 2)
    assert not first.log_has("Traceback")
    assert not second.log_has("Traceback")


def test_commands_reach_the_owner_and_a_run_without_encoders_is_ended(
    shared: SharedHosts, small_source: Path
) -> None:
    hosts, api, first, _ = shared
    stream = pair(api.running)
    stream.settle(reconnect_seconds=5)
    with publishing(ffmpeg(small_source, hosts.url("a", stream.key), "-stream_loop", "-1")):
        poll(lambda: multivariant(stream.playlist), within=30, what="a playlist")
        wait_for_segments(stream, 2)
        stream.command("pause")
        poll(lambda: stream.record()["paused"], within=10, what="the pause")
        stream.command("resume")
        first.kill()
    playlist = addresses(stream.playlist)["audio"]
    poll(lambda: media(playlist).ended, within=30, what="ENDLIST")
    poll(lambda: not stream.record()["processing"], within=20, what="off air")
    assert hosts.owner(stream.number) is None


def test_a_stream_beyond_a_hosts_capacity_runs_on_another_host_until_that_one_stops(
    shared: SharedHosts, small_source: Path
) -> None:
    hosts, api, _, roomy = shared
    first_stream, second_stream = pair(api.running), pair(api.running, "One too many")

    def sending(stream: EncoderPair) -> list[str]:
        return ffmpeg(small_source, hosts.url("a", stream.key), "-stream_loop", "-1")

    with publishing(sending(first_stream)):
        poll(lambda: hosts.owner(first_stream.number) == ("a", 1), within=20, what="an owner")
        with publishing(sending(second_stream)) as encoder:
            poll(
                lambda: hosts.owner(second_stream.number) == ("b", 1),
                within=20,
                what="the one with room",
            )
            poll(lambda: multivariant(second_stream.playlist), within=30, what="a playlist")
            wait_for_segments(second_stream, 2)
            run = addresses(second_stream.playlist)
            # It stops as for an upgrade: no host has room, but the stream continues.
            roomy.stop()
            taken_over(hosts, second_stream, "a", 2)
            wait_for_segments(second_stream, 2)
            assert addresses(second_stream.playlist) == run
            assert encoder.poll() is None
            assert hosts.owner(first_stream.number) == ("a", 1)
