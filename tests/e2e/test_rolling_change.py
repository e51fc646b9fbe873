"""Upgrades from an older version, host by host.

It comes from this repository's history: the oldest that works beside the current one.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from tests.conftest import Proof
from tests.e2e.test_hosts import taken_over, wait_for_segments
from tests.support.e2e.clock_video import encoder
from tests.support.e2e.encoder_pair import EncoderPair, pair
from tests.support.e2e.hls_reader import addresses, multivariant
from tests.support.e2e.hosts import HostProcesses, SharedEngines, running_engines
from tests.support.e2e.older_version import install, oldest_of_this_form
from tests.support.e2e.publishers import publishing
from tests.support.e2e.service import HEADEND, ServiceProcess, fetch
from tests.support.e2e.strict_player import following
from tests.support.waiting import poll

pytestmark = [pytest.mark.e2e, pytest.mark.prove]


@pytest.fixture
def engines(tmp_path: Path) -> Iterator[SharedEngines]:
    with running_engines(tmp_path) as running:
        yield running


def newer(stream: EncoderPair, api: ServiceProcess) -> EncoderPair:
    """Return the stream as served by another API host, with the first host's token."""
    return structs.replace(stream, headend=replace(api, data=stream.headend.data))


def parts_come(stream: EncoderPair) -> None:
    low = addresses(stream.playlist)["audio"]
    poll(lambda: "#EXT-X-PART:" in fetch(low).text, within=20, what="parts, which cross by Redis")


def test_hosts_change_one_after_the_other_while_a_stream_is_on_air(
    engines: SharedEngines, tmp_path: Path, proof: Proof
) -> None:
    commit = oldest_of_this_form()
    old = install(commit, tmp_path / "old")
    with HostProcesses(tmp_path, engines.database, engines.environment, old) as hosts:
        first, old_api = hosts.ingest("a"), hosts.api()
        before = pair(old_api.running)
        primary = encoder(hosts.url("a", before.key))
        with publishing(primary):
            poll(lambda: multivariant(before.playlist), within=30, what="a playlist")
            # This version adds to the tables, and serves the older version's streams.
            hosts.program = HEADEND
            hosts.migrate("api-2")
            stream = newer(before, hosts.api("api-2").running)
            parts_come(stream)
            old_api.stop()
            second = hosts.ingest("b")
            with (
                following(stream.playlist) as viewer,
                publishing(encoder(hosts.url("b", stream.key, slot=1))) as backup,
            ):
                poll(lambda: stream.receives() == 2, within=20, what="both encoders")
                assert hosts.owner(stream.number) == ("a", 1), "it gets what this version relays"
                stream.command("pause")
                poll(lambda: stream.record()["paused"], within=10, what="the pause")
                stream.command("resume")
                run = addresses(stream.playlist)
                first.stop()
                taken_over(hosts, stream, "b", 2)
                wait_for_segments(stream, 2)
                first.program = HEADEND
                first.start()
                with publishing(primary):
                    poll(lambda: stream.receives() == 2, within=20, what="both again")
                    parts_come(stream)
                assert addresses(stream.playlist) == run
                assert backup.poll() is None
            assert viewer.faults == []
            assert not second.log_has("Traceback")
    proof("hosts of this version beside those of an older one, a stream on air", commit[:8], "")
