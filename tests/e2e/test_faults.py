"""The database, Redis, disk or clock fails during a stream: what viewers, owner and log notice.

Two encoders show a clock in their pictures, and a file is transcoded meanwhile. A viewer stores
everything listed; afterwards the clock shows which pictures are missing.
"""

import os
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec
import pytest

from tests.conftest import Proof
from tests.support.e2e import clock_video
from tests.support.e2e.clock_video import PlaylistArchive, clock_jumps
from tests.support.e2e.encoder_pair import EncoderPair, pair
from tests.support.e2e.hls_reader import multivariant
from tests.support.e2e.publishers import persisting
from tests.support.e2e.service import ServiceProcess, service
from tests.support.e2e.uploaded_videos import completed, upload
from tests.support.in_thread import in_thread
from tests.support.postgres import PostgresServer
from tests.support.redis_server import redis_server
from tests.support.storage.full_disk import MIB, small_disk
from tests.support.waiting import poll

pytestmark = [pytest.mark.e2e, pytest.mark.prove]

_RUNG: Final = "360p"
_FPS: Final = 30
_ENVIRONMENT: Final = {"HEADEND_STORAGE__MIN_FREE_BYTES": "0"}
_ROOT: Final = "a test of a stalled disk mounts one: run it as root"


class HostFault(msgspec.Struct, frozen=True):
    """A service's data folder and environment, and a fault that lasts for `seconds`.

    `most_lost` is how many seconds of pictures may be lost.
    """

    data: Path
    environment: dict[str, str]
    fail: Callable[[ServiceProcess], None]
    recover: Callable[[ServiceProcess], None]
    seconds: float
    most_lost: float = 0.0


@contextmanager
def without_database(folder: Path, request: pytest.FixtureRequest) -> Generator[HostFault]:
    server: PostgresServer = request.getfixturevalue("postgres_server")
    with server.fresh_database() as url:
        environment = {"HEADEND_DATABASE__URL": url}
        yield HostFault(
            folder / "data", environment, lambda _: server.stop(), lambda _: server.start(), 30
        )


@contextmanager
def without_redis(folder: Path, _: pytest.FixtureRequest) -> Generator[HostFault]:
    with redis_server(folder) as redis:
        environment = {"HEADEND_REDIS__URL": redis.url}
        yield HostFault(
            folder / "data", environment, lambda _: redis.stop(), lambda _: redis.start(), 30
        )


@contextmanager
def on_a_full_disk(folder: Path, _: pytest.FixtureRequest) -> Generator[HostFault]:
    with small_disk(folder / "disk", 256 * MIB) as disk:
        yield HostFault(
            disk.folder / "data",
            {},
            lambda _: disk.fill(),
            lambda _: disk.empty(),
            15,
            most_lost=20,
        )


@contextmanager
def on_a_stalled_disk(folder: Path, _: pytest.FixtureRequest) -> Generator[HostFault]:
    """Use a file system on a loop device, and freeze it: writes wait."""
    assert os.geteuid() == 0, _ROOT
    image, place = folder / "disk.img", folder / "disk"
    with image.open("wb") as file:
        file.truncate(512 * MIB)
    place.mkdir()
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, place], check=True)

    def freeze(*, frozen: bool) -> None:
        subprocess.run(["fsfreeze", "-f" if frozen else "-u", place], check=True)

    try:
        yield HostFault(
            place / "data", {}, lambda _: freeze(frozen=True), lambda _: freeze(frozen=False), 20
        )
    finally:
        with suppress(subprocess.CalledProcessError):
            freeze(frozen=False)
        subprocess.run(["umount", "--lazy", place], check=True)


@contextmanager
def held_up(folder: Path, _: pytest.FixtureRequest) -> Generator[HostFault]:
    """Stop the process, as when its machine is paused; its engines keep running."""
    yield HostFault(
        folder / "data",
        {},
        lambda running: running.process.send_signal(signal.SIGSTOP),
        lambda running: running.process.send_signal(signal.SIGCONT),
        3,
    )


@contextmanager
def with_a_clock_off(folder: Path, hours: int) -> Generator[HostFault]:
    """Let the time of day jump; the monotonic clock does not, like the kernel's."""
    libraries = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    assert libraries, "libfaketime is missing: apt-get install faketime"
    offset = folder / "offset"
    offset.write_text("+0")
    environment = {
        "LD_PRELOAD": str(libraries[0]),
        "FAKETIME_TIMESTAMP_FILE": str(offset),
        "FAKETIME_CACHE_DURATION": "1",  # otherwise each call reads the file
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    yield HostFault(
        folder / "data",
        environment,
        lambda _: _write(offset, f"{hours:+d}h"),
        lambda _: _write(offset, "+0"),
        15,
    )


def _write(place: Path, text: str) -> None:
    place.write_text(text)


@contextmanager
def an_hour_ahead(folder: Path, _: pytest.FixtureRequest) -> Generator[HostFault]:
    with with_a_clock_off(folder, 1) as surroundings:
        yield surroundings


@contextmanager
def an_hour_back(folder: Path, _: pytest.FixtureRequest) -> Generator[HostFault]:
    with with_a_clock_off(folder, -1) as surroundings:
        yield surroundings


def both_encoders(stack: ExitStack, stream: EncoderPair) -> None:
    """Start both encoders, and wait until the primary is on air and the backup sends."""
    stack.enter_context(persisting(clock_video.encoder(stream.url(0))))
    poll(lambda: multivariant(stream.playlist), within=30, what="a playlist")
    stack.enter_context(persisting(clock_video.encoder(stream.url(1))))
    poll(lambda: stream.receives() == 2, within=20, what="both encoders")


class KeepingViewer(PlaylistArchive):
    """Stores everything listed, and counts failed requests."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.failures: list[str] = []
        self.slowest = 0.0  # seconds for reading all playlists and their new segments

    def refresh(self) -> None:
        """Fetch new segments; failures are counted."""
        began = time.monotonic()
        try:
            super().refresh()
        except (AssertionError, OSError) as error:
            self.failures.append(str(error)[:200])
        self.slowest = max(self.slowest, time.monotonic() - began)

    def longest_wait(self) -> float:
        """Return the longest time between two new segments, in seconds."""
        named = sorted(set(self.named[_RUNG].values()))
        return max(after - before for before, after in pairwise(named))


@contextmanager
def viewing(stream: EncoderPair) -> Generator[KeepingViewer]:
    """Watch a stream for the length of the block."""
    viewer = KeepingViewer(stream.playlist)
    with in_thread(viewer.run, viewer.stop):
        yield viewer


def lost_pictures(viewer: KeepingViewer, folder: Path) -> int:
    """Return how many pictures are missing, according to the encoders' clock."""
    gaps = (joint.gap_ms for joint in clock_jumps(viewer.pictures(_RUNG, folder)))
    return round(sum(gap for gap in gaps if gap > 0) * _FPS / 1000)


def logged(running: ServiceProcess, after: int) -> str:
    """Return the warnings and errors in the log after an offset, each with its count."""
    lines = running.log.read_text()[after:].splitlines()
    matches = (
        re.search(
            r'level="?(?:warning|error).*?event="([^"]*)"|level=(?:warning|error)'
            r".*?event=(\S+)",
            line,
        )
        for line in lines
    )
    counts = Counter(match[1] or match[2] for match in matches if match is not None)
    return ", ".join(f"{event} ({count})" for event, count in counts.items()) or "nothing"


@pytest.mark.parametrize(
    ("what", "failing"),
    [
        pytest.param("PostgreSQL stopped for 30 s", without_database, id="database"),
        pytest.param("Redis killed for 30 s", without_redis, id="redis"),
        pytest.param("the disk full for 15 s", on_a_full_disk, id="full disk"),
        pytest.param("the disk frozen for 20 s", on_a_stalled_disk, id="stalled disk"),
        pytest.param("the process held up for 3 s", held_up, id="held up"),
        pytest.param("the time of day an hour ahead for 15 s", an_hour_ahead, id="clock ahead"),
        pytest.param("the time of day an hour back for 15 s", an_hour_back, id="clock back"),
    ],
)
def test_a_fault_around_the_service_during_a_stream(
    what: str,
    failing: Callable[[Path, pytest.FixtureRequest], AbstractContextManager[HostFault]],
    request: pytest.FixtureRequest,
    tmp_path: Path,
    two_rungs: Path,
    proof: Proof,
) -> None:
    with ExitStack() as world:
        fault = world.enter_context(failing(tmp_path, request))
        environment = {**_ENVIRONMENT, **fault.environment}
        running = world.enter_context(service(fault.data, environment=environment))
        stream = pair(running, what)
        both_encoders(world, stream)
        with viewing(stream) as viewer:
            poll(lambda: len(viewer.named.get(_RUNG, ())) >= 3, within=30, what="segments")
            status, added = upload(running, two_rungs)
            assert status == 201, added
            events, place = len(stream.listed_events()), len(running.log.read_text())
            fault.fail(running)
            time.sleep(fault.seconds)  # for as long as the fault lasts
            fault.recover(running)
            newest = max(viewer.named[_RUNG])
            poll(lambda: max(viewer.named[_RUNG]) >= newest + 4, within=60, what="going on")
            completed(running, added["video"]["id"], within=120)
        kinds = [each["type"] for each in stream.listed_events()[events:]]
        lost = lost_pictures(viewer, tmp_path / "kept")
        figures = {
            "pictures lost": lost,
            "requests that failed": len(viewer.failures),
            "longest wait for a segment": f"{viewer.longest_wait():.1f} s",
            "slowest look": f"{viewer.slowest:.1f} s",
            "discontinuities": len(viewer.marks(_RUNG)),
            "events": ", ".join(kinds) or "none",
            "log": logged(running, place),
        }
        measured = "; ".join(f"{name}: {figure}" for name, figure in figures.items())
        most = round(fault.most_lost * _FPS)
        required = f"at most {most} pictures lost, no request failed, all goes on"
        proof(f"{what}, with a backup and a file being transcoded", measured, required)
        assert lost <= most, measured
        assert viewer.failures == [], measured
        assert running.process.poll() is None, "it goes on"
        assert (stream.record()["live"], stream.receives()) == (True, 2)
