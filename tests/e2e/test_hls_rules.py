"""A strict checker of the standard follows streams of normal latency through a failover.

It reads bytes only (`tests/support/hls`); its findings are breaches of draft-pantos-hls-rfc8216bis.
"""

import time
from contextlib import ExitStack

import pytest

from tests.conftest import Proof
from tests.support.e2e import clock_video
from tests.support.e2e.encoder_pair import pair
from tests.support.e2e.hls_reader import multivariant
from tests.support.e2e.publishers import publishing
from tests.support.e2e.service import ServiceProcess
from tests.support.hls.strict_client import Mode, checking
from tests.support.waiting import poll

pytestmark = pytest.mark.e2e

SIZE = clock_video.TWO_RUNGS
_SHORT = pytest.param(8, id="short")
_LONG = pytest.param(300, id="10 min", marks=pytest.mark.prove)


@pytest.mark.parametrize("seconds", [_SHORT, _LONG])
@pytest.mark.parametrize("mode", ["legacy", pytest.param("normal", marks=pytest.mark.prove)])
def test_a_stream_and_its_failover_keep_the_standard(
    shared_service: ServiceProcess, mode: Mode, seconds: float, proof: Proof
) -> None:
    """A legacy player, and one that requests normal latency, during the loss of the primary."""
    stream = pair(shared_service)
    with ExitStack() as world:
        first = world.enter_context(publishing(clock_video.encoder(stream.url(0), size=SIZE)))
        poll(lambda: multivariant(stream.playlist), within=20, what="a playlist")
        world.enter_context(publishing(clock_video.encoder(stream.url(1), size=SIZE)))
        with checking(stream.playlist, mode=mode) as checker:
            poll(lambda: stream.receives() == 2, within=10, what="both encoders")
            time.sleep(seconds)
            first.kill()
            first.wait()
            poll(stream.backup_is_on_air, within=10, what="the backup")
            newest = max(each.history.newest for each in checker.renditions.values())
            poll(
                lambda: all(
                    each.history.newest > (newest[0] + 1, 0) for each in checker.renditions.values()
                ),
                within=20,
                what="going on",
            )
            time.sleep(seconds - 8)
    proof(
        f"{mode}: {checker.fetches} answers in {2 * seconds} s with a failover",
        f"{len(checker.findings)} findings",
        "0",
    )
    assert checker.findings == []
    assert len(checker.renditions) == 3
