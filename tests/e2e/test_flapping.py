"""A primary that dies and returns again and again: viewers are not switched back and forth."""

import random
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.conftest import Proof
from tests.support.browser import Chromium
from tests.support.e2e import clock_video
from tests.support.e2e.clock_video import archiving
from tests.support.e2e.encoder_pair import pair
from tests.support.e2e.hls_reader import multivariant
from tests.support.e2e.publishers import publishing
from tests.support.e2e.service import SCALE, ServiceProcess, service
from tests.support.waiting import poll

pytestmark = [pytest.mark.e2e, pytest.mark.prove]

FLAPS = 50
RETURN_SECONDS = 10.0  # the default: a primary must have been healthy for so long
_SPARE = 3.0  # an encoder takes a moment to be on air, and a switch waits for a keyframe
_SEED = 20_26
# Seconds that the page may stall at a lost connection or a return; at normal latency, none.
_LOW_WAIT = 1.0
_SAME = 0.5  # seconds: a smaller jump ahead is ignored


@pytest.fixture(params=["normal", "low"])
def latency(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def running(latency: str, tmp_path: Path) -> Iterator[ServiceProcess]:
    environment = {
        # Encoders and browsers share this machine: one may be held up for longer than 0.7 s.
        "HEADEND_FAILOVER__DETECT_SECONDS": "2",
        "HEADEND_LIVE__LATENCY": latency,
        "HEADEND_STORAGE__MIN_FREE_BYTES": "0",
    }
    with service(tmp_path / "data", environment=environment) as headend:
        yield headend


def lives() -> list[float]:
    """Return the primary's lifetimes (seconds), five of them long enough to return."""
    moments = random.Random(_SEED)
    short = [moments.uniform(1.0, RETURN_SECONDS - 3) for _ in range(FLAPS - 5)]
    long = [RETURN_SECONDS + _SPARE] * 5
    lifetimes = short + long
    moments.shuffle(lifetimes)
    return lifetimes


def test_a_primary_that_flaps_moves_viewers_no_more_often_than_the_policy_allows(
    latency: str, running: ServiceProcess, browser: Chromium, proof: Proof
) -> None:
    stream = pair(running, "Flapping")
    command = clock_video.encoder(stream.url(0))
    began = time.monotonic()
    with publishing(clock_video.encoder(stream.url(1))):
        poll(lambda: multivariant(stream.playlist), within=20, what="a playlist")
        viewer = browser.open(stream.watch)
        with archiving(stream.playlist) as archive:
            first = viewer.wait_until_playing(20)
            viewer.record_waits()
            for life in lives():
                with publishing(command) as primary:
                    time.sleep(life)
                    primary.kill()
                    primary.wait()
                time.sleep(0.5)
            elapsed = time.monotonic() - began
            sample = viewer.wait_until_playing(10)
            waits = [wait.seconds for wait in viewer.waits()]
        viewer.close()
    assert archive.fault is None, archive.fault
    switches = stream.listed_events("switched")
    ways = [(switch["facts"]["from"], switch["facts"]["to"]) for switch in switches]
    returns = ways.count(("backup-1", "primary"))
    assert 1 <= returns <= 5, ways
    assert returns <= elapsed / RETURN_SECONDS
    assert all(switch != following for switch, following in pairwise(ways)), "to and fro in turns"
    assert len(ways) <= 2 * returns + 1
    marks = sum(len(archive.marks(rendition)) for rendition in archive.held)
    label = f"{latency} latency, {FLAPS} deaths of a primary in {elapsed / 60:.1f} minutes"
    proof(
        f"{label}, 5 lives long enough: switches",
        f"{len(ways)} ({returns} returns), {marks} discontinuities, {sample.stalls} waits",
        f"at most 10, 0{', 0' if latency == 'normal' else ''}",
    )
    assert marks == 0
    assert not [fault for fault in sample.faults if fault.endswith("fatal")], sample.faults
    assert sample.run == first.run
    if latency == "normal":
        assert sample.stalls == 0, sample
        return
    longest, whole = max([0.0, *waits]), sum(wait for wait in waits if wait > 0)
    most = _LOW_WAIT * len(ways)
    proof(f"{label}: the page's longest wait", f"{longest:.2f} s", f"{_LOW_WAIT} s")
    proof(f"{label}: the page's waits in all", f"{whole:.2f} s", f"{most} s")
    assert min([0.0, *waits]) > -_SAME, waits
    assert longest <= _LOW_WAIT * SCALE, waits
    assert whole <= most * SCALE, waits
