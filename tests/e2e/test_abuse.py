"""A service under attack: the encoder on air loses no frame, and the next one is accepted.

One encoder is on air from the first attack to the last. After each attack another one may publish,
and the service uses no more memory. Slow attacks run concurrently with the others.
"""

import itertools
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from ingest.publishing.log_throttle import LINES_PER_NETWORK
from tests.conftest import Proof
from tests.support.e2e.attacks import LIMITS, QUICK, SLOW, TICK, Attack
from tests.support.e2e.hls_reader import (
    CollectedRendition,
    addresses,
    collect,
    decoder_errors,
    has_ended,
    media,
    multivariant,
    picture_digests,
)
from tests.support.e2e.hostile_peer import AT_ONCE, Target
from tests.support.e2e.publishers import ffmpeg, publishing
from tests.support.e2e.service import SCALE, ServiceProcess, service
from tests.support.ingest import rtmp_peer
from tests.support.waiting import poll

pytestmark = pytest.mark.e2e

GROWTH_BYTES = 20 << 20
SOAK_SECONDS = 180.0
ENVIRONMENT = {
    # No slate after the counted frames, nor where a busy machine starves ffmpeg.
    "HEADEND_LIVE__GOODBYE_SECONDS": "0",
    "HEADEND_FAILOVER__DETECT_SECONDS": "30",
    "HEADEND_LIVE__RECONNECT_SECONDS": "5",
    "HEADEND_STORAGE__MIN_FREE_BYTES": "0",
}


class AttackedService:
    """A service, its encoder on air, a viewer of that stream, and the slow attackers."""

    def __init__(self, headend: ServiceProcess, folder: Path) -> None:
        self.headend = headend
        self.held: dict[str, CollectedRendition] = {}
        self.slow: dict[str, Future[None]] = {}
        self.progress = folder / "progress.txt"
        self.encoder: subprocess.Popen[bytes] | None = None
        self.left = threading.Event()
        self.keys: list[str] = []
        self.grown = 0
        self._homes = itertools.count()
        self.other = self.add("Other")
        self.other_key = str(self.other["stream"])

    def add(self, title: str) -> dict[str, object]:
        record = self.headend.add_stream(title)
        self.keys.append(str(record["stream"]))
        return record

    def target(self, *, key: str = "") -> Target:
        """Return the service as the target of an attacker with a new address."""
        number = next(self._homes)
        return Target(
            port=self.headend.port_of(self.headend.server),
            secure_port=self.headend.port_of(self.headend.secure_server),
            home=f"127.{2 + number // 62_500}.{number // 250 % 250}.{2 + number % 250}",
            key=key,
        )

    def target_of(self, attack: Attack) -> Target:
        key = str(self.add(attack.name)["stream"]) if attack.key else ""
        return self.target(key=key)

    def memory(self) -> int:
        """Return the resident bytes of the service, without its engines."""
        status = Path(f"/proc/{self.headend.process.pid}/status").read_text()
        match = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert match is not None
        return int(match[1]) << 10

    def publish(self) -> None:
        """Check that an encoder is accepted, and end its stream."""
        target = self.target(key=self.other_key)
        with target.publishing() as line:
            line.send_bytes(rtmp_peer.GOODBYE)

    def logged_causes(self, home: str) -> list[str]:
        """Return the causes of disconnects and refusals that the log has for an address."""
        log = self.headend.log.read_text()
        return re.findall(rf'peer={re.escape(home)}:\d+ .*?cause=("[^"]*"|\S+)', log)

    def watch(self) -> None:
        """Fetch everything listed, as a viewer does, until the attacks are over."""
        while not self.left.wait(0.7):
            with suppress(AssertionError):  # not listed yet
                collect(self.headend.playlist, self.held)


def stop_an_encoder(attacked_service: AttackedService, key: str, source: Path) -> None:
    """Stop ffmpeg in mid-stream: the kernel keeps the connection, without reads or writes."""
    with publishing(ffmpeg(source, f"{attacked_service.headend.server}/{key}")) as encoder:
        hash_ = key.split("_")[0]

        def line(words: str) -> bool:
            return f"{words} stream={hash_}" in attacked_service.headend.log.read_text().replace(
                '"', ""
            )

        poll(lambda: line("event=publisher on"), within=10, what="it publishes")
        encoder.send_signal(signal.SIGSTOP)
        stopped = time.monotonic()
        try:
            seconds = LIMITS.idle_media_seconds
            poll(lambda: line("event=publisher off"), within=seconds + TICK, what="it is off")
            assert time.monotonic() - stopped >= seconds - 1
        finally:
            encoder.kill()


@pytest.fixture(scope="module")
def attacked_service(
    tmp_path_factory: pytest.TempPathFactory, small_source: Path
) -> Iterator[AttackedService]:
    folder = tmp_path_factory.mktemp("abuse")
    with ExitStack() as stack:
        headend = stack.enter_context(service(folder / "data", environment=ENVIRONMENT))
        attacked = AttackedService(headend, folder)
        options = ("-stream_loop", "-1", "-progress", str(attacked.progress))
        command = ffmpeg(small_source, f"{headend.server}/{headend.key}", *options)
        attacked.encoder = stack.enter_context(publishing(command))
        poll(lambda: multivariant(headend.playlist), within=15, what="a playlist")
        threads = stack.enter_context(ThreadPoolExecutor(len(SLOW) + 2))
        stack.callback(attacked.left.set)
        threads.submit(attacked.watch)
        for attack in SLOW:
            attacked.slow[attack.name] = threads.submit(attack.run, attacked.target_of(attack))
        key = str(attacked.add("stopped")["stream"])
        attacked.slow["stopped"] = threads.submit(stop_an_encoder, attacked, key, small_source)
        yield attacked


@pytest.mark.parametrize("attack", QUICK, ids=lambda attack: attack.name)
def test_an_attack_costs_the_attacker_alone(
    attacked_service: AttackedService, attack: Attack
) -> None:
    target = attacked_service.target_of(attack)
    before = attacked_service.memory()
    attack.run(target)
    attacked_service.publish()
    if attack.cause:
        poll(
            lambda: any(
                re.search(attack.cause, logged)
                for logged in attacked_service.logged_causes(target.home)
            ),
            within=AT_ONCE,
            what=f"{attack.cause!r} in the log: {attacked_service.logged_causes(target.home)}",
        )
    poll(
        lambda: attacked_service.memory() - before < GROWTH_BYTES,
        within=20,
        what="the memory is back",
    )
    attacked_service.grown = max(attacked_service.grown, attacked_service.memory() - before)
    assert attacked_service.encoder is not None
    assert attacked_service.encoder.poll() is None


def test_a_second_encoder_with_the_key_is_refused(attacked_service: AttackedService) -> None:
    with attacked_service.target(key=attacked_service.headend.key).dial() as line:
        line.send_bytes(rtmp_peer.opening(name=attacked_service.headend.key))
        line.wait_for(b"another encoder is sending with this key", 2.5 + TICK)
        line.must_close(2.5 + 2 * TICK)
    attacked_service.publish()


def test_a_stopped_encoder_is_closed_in_time(attacked_service: AttackedService) -> None:
    attacked_service.slow["stopped"].result(timeout=60 * SCALE)
    attacked_service.publish()


@pytest.mark.parametrize("attack", SLOW, ids=lambda attack: attack.name)
def test_a_slow_attacker_is_closed_in_time(
    attacked_service: AttackedService, attack: Attack
) -> None:
    attacked_service.slow[attack.name].result(timeout=60 * SCALE)
    logged = attacked_service.headend.log.read_text()
    assert attack.cause in logged
    attacked_service.publish()


def test_the_log_is_short_and_holds_no_key(attacked_service: AttackedService) -> None:
    with attacked_service.target().dial():  # at least one line is there
        pass
    log = attacked_service.headend.log.read_text()
    for key in (attacked_service.headend.key, *attacked_service.keys):
        assert key.split("_")[1] not in log
    # 280 of 300 connections, a flood of wrong keys, a clock that jumps thirty times a second.
    for flood in ("too many new connections", 'cause="wrong key"', "clock jumped"):
        assert log.count(flood) <= LINES_PER_NETWORK
    assert len(log) < 200_000


@pytest.mark.prove
def test_minutes_of_attacks_leave_nothing_behind(
    attacked_service: AttackedService, proof: Proof
) -> None:
    """All attacks of strangers again and again, each from a new address."""
    strangers = [attack for attack in QUICK if not attack.key]
    for attack in strangers:  # allocates what is allocated once
        attack.run(attacked_service.target())
    before, deadline, turns = attacked_service.memory(), time.monotonic() + SOAK_SECONDS, 0
    while time.monotonic() < deadline:
        for attack in strangers:
            attack.run(attacked_service.target())
            attacked_service.publish()
            turns += 1
    poll(
        lambda: attacked_service.memory() - before < GROWTH_BYTES,
        within=10,
        what="the memory is back",
    )
    grown = attacked_service.memory() - before
    proof(f"memory of the service after {turns} attacks", f"{grown >> 20} MiB", "below 20 MiB")


def test_another_stream_still_plays(
    attacked_service: AttackedService, small_source: Path, tmp_path: Path
) -> None:
    url = str(attacked_service.other["stream_url"])
    collected: dict[str, CollectedRendition] = {}
    with publishing(
        ffmpeg(small_source, f"{attacked_service.headend.server}/{attacked_service.other_key}")
    ):
        poll(lambda: multivariant(url), within=15, what="a playlist")
        poll(lambda: len(media(addresses(url)["360p"]).segments) >= 3, within=15, what="3 segments")
        collect(url, collected)
    for name, rendition in collected.items():
        assert decoder_errors(rendition.file(tmp_path / f"{name}.mp4")) == "", name


def test_the_encoder_that_was_on_air_throughout_lost_no_frame(
    attacked_service: AttackedService, small_source: Path, tmp_path: Path, proof: Proof
) -> None:
    encoder = attacked_service.encoder
    assert encoder is not None
    assert encoder.poll() is None
    encoder.send_signal(signal.SIGINT)
    encoder.wait(timeout=10 * SCALE)
    playlist = attacked_service.headend.playlist
    poll(
        lambda: has_ended(playlist),
        within=20,
        what="the run's end",
    )
    attacked_service.left.set()
    collect(playlist, attacked_service.held)
    sent_frames = int(
        re.findall(r"^frame=\s*(\d+)", attacked_service.progress.read_text(), re.MULTILINE)[-1]
    )
    assert sent_frames > 0
    top = attacked_service.held["360p"]
    numbers = sorted(top.segments)
    assert numbers == list(range(len(numbers)))
    lines = f"stream={attacked_service.headend.key.split('_')[0]}"
    log = attacked_service.headend.log.read_text().replace('"', "").splitlines()
    told = "\n".join(line for line in log if lines in line)
    assert not any(segment.discontinuity for segment in top.segments.values()), told
    arrived = picture_digests(top.file(tmp_path / "top.mp4"))
    turn = picture_digests(small_source)
    assert arrived == list(itertools.islice(itertools.cycle(turn), sent_frames))
    for name, rendition in attacked_service.held.items():
        assert decoder_errors(rendition.file(tmp_path / f"{name}.mp4")) == "", name
    proof(
        f"frames of an encoder on air during {len(QUICK) + len(SLOW) + 2} attacks",
        f"{len(arrived)} of {sent_frames}",
        "all",
    )
    proof(
        "most memory that an attack left behind",
        f"{attacked_service.grown >> 20} MiB",
        "below 20 MiB",
    )
