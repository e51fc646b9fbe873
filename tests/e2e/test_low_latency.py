"""A strict checker of the standard follows low-latency streams through every fault.

It reads bytes only (`tests/support/hls`): its findings are breaches of draft-pantos-hls-rfc8216bis.
Its client reloads with blocking requests, requests hinted parts early, applies delta updates, and
fetches everything listed.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import Proof
from tests.e2e.test_differing import QUICK
from tests.e2e.test_killed import engine_of
from tests.support.e2e import clock_video
from tests.support.e2e.encoder_pair import EncoderPair, pair
from tests.support.e2e.failing_primary import (
    CAUSES,
    RETURN_SECONDS,
    Switch,
    fail_once,
    primary_of,
)
from tests.support.e2e.hls_reader import multivariant
from tests.support.e2e.publishers import persisting, publishing
from tests.support.e2e.service import ServiceProcess, service
from tests.support.e2e.slow_process import throttled
from tests.support.hls.live_checker import LiveChecker
from tests.support.hls.strict_client import Mode, checking
from tests.support.waiting import poll

pytestmark = pytest.mark.e2e

SIZE = clock_video.TWO_RUNGS
_DETECT_SECONDS = 0.7  # the default
_SHORT = pytest.param(3, id="short")
_LONG = pytest.param(200, id="10 min", marks=pytest.mark.prove)
_NAMES: dict[Mode, str] = {
    "low": "low latency",
    "normal": "normal latency",
    "legacy": "legacy",
}
_SETTINGS = {
    "HEADEND_FAILOVER__RETURN_SECONDS": str(RETURN_SECONDS),
    "HEADEND_LIVE__GOODBYE_SECONDS": "3",
    "HEADEND_LIVE__RECONNECT_SECONDS": "30",
    "HEADEND_STORAGE__MIN_FREE_BYTES": "0",
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    with service(tmp_path_factory.mktemp("low") / "data", environment=_SETTINGS) as headend:
        yield headend


def newest(checker: LiveChecker) -> int:
    """Return the number of the newest segment that every rendition lists."""
    return min((each.history.newest[0] for each in checker.renditions.values()), default=-1)


def wait_for_segments(checker: LiveChecker, seconds: float, *, segments: int = 2) -> None:
    """Wait until some more segments are listed, and at least for some seconds."""
    time.sleep(seconds)
    reached = newest(checker)
    poll(lambda: newest(checker) >= reached + segments, within=25, what="going on")


def is_clean(
    checker: LiveChecker,
    proof: Proof,
    what: str,
    *,
    mode: Mode = "low",
    excused: tuple[str, ...] = (),
) -> None:
    """Check that there are no findings but those that contain excused words."""
    findings = [each for each in checker.findings if not any(word in each for word in excused)]
    proof(
        f"{_NAMES[mode]}, {what}: {checker.fetches} answers, "
        f"{checker.merged} of them delta updates",
        f"{len(findings)} findings",
        "0",
    )
    assert findings == [], "\n".join(findings)
    if mode == "low":
        assert all(each.history.hints for each in checker.renditions.values()), "parts were hinted"


def name_of(url: str) -> str:
    """Return the name of a playlist's rendition."""
    return url.split("/")[-2]


def loses_its_engine(stream: EncoderPair) -> None:
    dead = poll(lambda: engine_of(stream.headend, stream.hash), within=5, what="an engine")
    os.kill(dead, signal.SIGKILL)
    poll(
        lambda: engine_of(stream.headend, stream.hash) not in {None, dead},
        within=10,
        what="another engine",
    )


@pytest.mark.parametrize("seconds", [_SHORT, _LONG])
def test_a_switch_an_engine_that_dies_and_the_end_keep_the_standard(
    running: ServiceProcess, seconds: float, proof: Proof
) -> None:
    stream = pair(running)
    with ExitStack() as world:
        first = world.enter_context(publishing(clock_video.encoder(stream.url(0), size=SIZE)))
        poll(lambda: multivariant(stream.playlist), within=20, what="a playlist")
        world.enter_context(publishing(clock_video.encoder(stream.url(1), size=SIZE)))
        with checking(stream.playlist, mode="low") as checker:
            poll(lambda: stream.receives() == 2, within=10, what="both encoders")
            wait_for_segments(checker, seconds)
            first.kill()
            first.wait()
            poll(stream.backup_is_on_air, within=10, what="the backup")
            wait_for_segments(checker, seconds)
            loses_its_engine(stream)
            wait_for_segments(checker, seconds)
            stream.command("end")
            poll(
                lambda: all(
                    each.history.last is not None and each.history.last.ended
                    for each in checker.renditions.values()
                ),
                within=15,
                what="EXT-X-ENDLIST",
            )
            time.sleep(3)  # for the checker to look again
    is_clean(checker, proof, f"a switch, a killed engine, an end in {3 * seconds} s")


@pytest.mark.prove
def test_the_slate_keeps_the_standard(running: ServiceProcess, proof: Proof) -> None:
    stream = pair(running, "Slate")
    command = clock_video.encoder(stream.url(0), size=SIZE)
    with publishing(command) as first:
        poll(lambda: multivariant(stream.playlist), within=20, what="a playlist")
        with checking(stream.playlist, mode="low") as checker:
            wait_for_segments(checker, 4)
            first.kill()
            first.wait()
            poll(lambda: stream.listed_events("slate"), within=10, what="the slate")
            wait_for_segments(checker, 6)
            with publishing(command):
                poll(lambda: stream.listed_events("back on air"), within=15, what="back on air")
                wait_for_segments(checker, 6)
                stream.command("pause")
                wait_for_segments(checker, 6)
                stream.command("resume")
                wait_for_segments(checker, 6)
    is_clean(checker, proof, "a slate and a pause")


@pytest.mark.prove
def test_a_rung_that_is_shed_keeps_the_standard(running: ServiceProcess, proof: Proof) -> None:
    stream = pair(running, "Shed")
    shed = f'event="rung shed" stream={stream.hash}'
    with publishing(clock_video.encoder(stream.url(0), size="1280x720")):
        poll(lambda: multivariant(stream.playlist), within=20, what="a playlist")
        with checking(stream.playlist, mode="low") as checker:
            wait_for_segments(checker, 4)
            engine = poll(lambda: engine_of(running, stream.hash), within=5, what="an engine")
            with throttled(engine) as throttle:
                for share in (0.5, 0.35, 0.25, 0.18, 0.13, 0.1, 0.07, 0.05):
                    throttle.share = share
                    until = time.monotonic() + 12
                    while shed not in running.log.read_text() and time.monotonic() < until:
                        time.sleep(0.2)
                    if shed in running.log.read_text():
                        break
                assert shed in running.log.read_text()
                time.sleep(10)
            wait_for_segments(checker, 30)
    # What it borrows has another size, without a discontinuity, which all renditions would have.
    excused = ("p/index.m3u8 is (", "has another encoding without EXT-X-DISCONTINUITY")
    is_clean(checker, proof, "a rung that is shed", excused=excused)


@pytest.mark.prove
@pytest.mark.parametrize("mode", ["low", "normal", "legacy"])
def test_every_failure_of_a_primary_and_its_return_keep_the_standard(
    running: ServiceProcess, mode: Mode, proof: Proof
) -> None:
    stream = pair(running, f"Failing, {mode}")
    switches: list[Switch] = []
    with ExitStack() as world:
        primary = world.enter_context(primary_of(stream, size=SIZE))
        poll(lambda: multivariant(stream.playlist), within=20, what="a playlist")
        world.enter_context(publishing(clock_video.encoder(stream.url(1), size=SIZE)))
        with checking(stream.playlist, mode=mode) as checker:
            poll(lambda: stream.receives() == 2, within=10, what="both encoders")
            wait_for_segments(checker, 4)
            for cause in CAUSES:
                fail_once(stream, primary, cause, switches, detect=_DETECT_SECONDS)
                wait_for_segments(checker, 4)
    what = f"{len(CAUSES)} failures of a primary and as many returns"
    is_clean(checker, proof, what, mode=mode)
    if mode == "low":
        wrong = {name_of(url): each.history.wrong_hints for url, each in checker.renditions.items()}
        counted = ", ".join(f"{count} in {name}" for name, count in sorted(wrong.items()))
        proof(
            f"{_NAMES[mode]}, {what}: hints after which another part came",
            counted,
            "one a switch",
        )
        # A backup's keyframes may be further apart at a switch than usual on a busy machine.
        assert max(wrong.values()) <= 2 * len(CAUSES), wrong


@pytest.mark.prove
@pytest.mark.parametrize("mode", ["low", "normal", "legacy"])
def test_encoders_that_differ_keep_the_standard(
    running: ServiceProcess, mode: Mode, proof: Proof, tmp_path: Path
) -> None:
    stream = pair(running, f"Differing, {mode}")
    kinds = (QUICK.primary, QUICK.backup)
    commands = [kind.command(stream.url(slot), tmp_path) for slot, kind in enumerate(kinds)]
    with publishing(commands[0]):
        poll(lambda: multivariant(stream.playlist), within=20, what="a playlist")
        with publishing(commands[1]), checking(stream.playlist, mode=mode) as checker:
            poll(lambda: stream.receives() == 2, within=10, what="both encoders")
            wait_for_segments(checker, 4)
            for drill in (1, 2):
                stream.command("failover-drill")
                poll(
                    lambda drill=drill: len(stream.listed_events("switched")) >= 2 * drill,
                    within=20,
                    what="the primary again",
                )
                wait_for_segments(checker, 6)
    is_clean(checker, proof, f"4 switches between two encoders: {QUICK.name}", mode=mode)


@pytest.mark.prove
def test_a_service_that_is_killed_and_restarted_keeps_the_standard(
    tmp_path: Path, two_rungs: Path, proof: Proof
) -> None:
    """Media that only memory had become a gap; a discontinuity follows it."""
    folder = tmp_path / "data"
    with service(folder, environment=_SETTINGS) as first:
        key, playlist = first.key, first.playlist
        ports = (first.port_of(first.http + "/"), first.port_of(first.server))
    arguments = ("--http", f"127.0.0.1:{ports[0]}", "--rtmp", f"[::]:{ports[1]}", "--rtmps", "")
    source = clock_video.encoder(f"rtmp://127.0.0.1:{ports[1]}/live/{key}", size=SIZE)
    with persisting(source), ExitStack() as world:
        with service(folder, environment=_SETTINGS, arguments=arguments) as second:
            poll(lambda: multivariant(playlist), within=30, what="a playlist")
            checker = world.enter_context(checking(playlist, mode="low"))
            wait_for_segments(checker, 6)
            second.stop(signal.SIGKILL)
        with service(folder, environment=_SETTINGS, arguments=arguments):
            wait_for_segments(checker, 8)
            world.close()
    lost = sorted({number for each in checker.renditions.values() for number in each.history.lost})
    assert lost, "viewers had parts of the segment that was being made"
    is_clean(checker, proof, f"a service that is killed, segments lost: {lost}")
