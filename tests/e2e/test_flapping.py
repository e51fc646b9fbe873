"""A primary that comes and goes again and again: viewers are not sent to and fro with it."""

import random
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.conftest import Proof
from tests.support.browser import Chromium
from tests.support.e2e import clock_video
from tests.support.e2e.clock_video import keeping
from tests.support.e2e.encoder_pair import pair
from tests.support.e2e.hls_reader import multivariant
from tests.support.e2e.publishers import publishing
from tests.support.e2e.service import Running, service
from tests.support.waiting import poll

pytestmark = [pytest.mark.e2e, pytest.mark.prove]

FLAPS = 50
RETURN_SECONDS = 10.0  # the default: so long must a primary have been well
_SPARE = 3.0  # an encoder takes a moment to be on air, and a switch waits for a keyframe
_SEED = 20_26


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    environment = {
        # Encoders and browsers share this machine: one may be held up for longer than 0.7 s.
        "HEADEND_FAILOVER__DETECT_SECONDS": "2",
        # What viewers at normal latency are promised: no stall.
        "HEADEND_LIVE__LATENCY": "normal",
        "HEADEND_STORAGE__MIN_FREE_BYTES": "0",
    }
    with service(tmp_path / "data", environment=environment) as headend:
        yield headend


def lives() -> list[float]:
    """Return how long (seconds) the primary lives each time: five times long enough to return."""
    moments = random.Random(_SEED)
    short = [moments.uniform(1.0, RETURN_SECONDS - 3) for _ in range(FLAPS - 5)]
    long = [RETURN_SECONDS + _SPARE] * 5
    found = short + long
    moments.shuffle(found)
    return found


def test_a_primary_that_flaps_moves_viewers_no_more_often_than_the_policy_allows(
    running: Running, browser: Chromium, proof: Proof
) -> None:
    stream = pair(running, "Flapping")
    command = clock_video.encoder(stream.url(0))
    began = time.monotonic()
    with publishing(clock_video.encoder(stream.url(1))):
        poll(lambda: multivariant(stream.playlist), within=20, what="a playlist")
        viewer = browser.open(stream.watch)
        with keeping(stream.playlist) as keeper:
            viewer.wait_until_playing(20)
            for life in lives():
                with publishing(command) as primary:
                    time.sleep(life)
                    primary.kill()
                    primary.wait()
                time.sleep(0.5)
            took = time.monotonic() - began
            sample = viewer.wait_until_playing(10)
        viewer.close()
    assert keeper.fault is None, keeper.fault
    switches = stream.told("switched")
    ways = [(one["facts"]["from"], one["facts"]["to"]) for one in switches]
    returns = ways.count(("backup-1", "primary"))
    assert 1 <= returns <= 5, ways
    assert returns <= took / RETURN_SECONDS
    assert all(one != other for one, other in pairwise(ways)), "to and fro in turns"
    assert len(ways) <= 2 * returns + 1
    marks = sum(len(keeper.marks(rendition)) for rendition in keeper.held)
    proof(
        f"{FLAPS} deaths of a primary in {took / 60:.1f} minutes, 5 lives long enough: switches",
        f"{len(ways)} ({returns} returns), {marks} discontinuities, {sample.stalls} waits",
        "at most 10, 0, 0",
    )
    assert marks == 0
    assert not [fault for fault in sample.faults if fault.endswith("fatal")], sample.faults
    assert sample.stalls == 0, sample
