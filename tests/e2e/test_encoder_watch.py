"""The watch over a stream's encoders in a real service: how soon it knows, what it replaces.

Viewers notice nothing if it dies, hangs or gets garbage, nor if four streams switch at once: every
picture has its number, as in `test_exact_failover`.
"""

import os
import random
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

import msgspec
import pytest

from tests.conftest import Proof
from tests.e2e.test_exact_failover import (
    NORMAL,
    RUNGS,
    ApartEncoders,
    FailingWorld,
    SeenProgramme,
    encoder_report,
)
from tests.support.e2e.clock_video import archiving
from tests.support.e2e.encoder_pair import EncoderPair, Json, pair
from tests.support.e2e.failing_primary import CAUSES, RETURN_SECONDS, Cause, Primary
from tests.support.e2e.hls_reader import multivariant
from tests.support.e2e.programme_films import FilmKind, FilmSender, make_film
from tests.support.e2e.publishers import publishing, tool
from tests.support.e2e.service import SCALE, ServiceProcess, service
from tests.support.e2e.slow_process import children_of
from tests.support.waiting import poll

pytestmark = [pytest.mark.e2e, pytest.mark.prove]

_PRIMARY, _BACKUP = FilmKind(), FilmKind(later=21)
_LONG = FilmKind(gop=4.0, b_frames=0, later=36)
_SECONDS = 490.0  # of films, which are made once for all these tests
_BEHIND = 0.3
# At least so far apart, engines that end are replaced at once.
_REPLACED_SECONDS = 31.0
_KILLED, _STOPPED, _ = CAUSES
_BUSY = (SCALE - 1) / 2  # seconds that a machine may be late which other work keeps busy


@pytest.fixture(scope="module")
def headend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    environment = {
        "HEADEND_LIVE__LATENCY": NORMAL.name,
        "HEADEND_LIVE__RECONNECT_SECONDS": "30",
        "HEADEND_FAILOVER__RETURN_SECONDS": str(RETURN_SECONDS),
        "HEADEND_FAILOVER__DETECT_SECONDS": str(NORMAL.detect),
        "HEADEND_FAILOVER__ALIGN_WAIT_SECONDS": str(NORMAL.wait),
        "HEADEND_STORAGE__MIN_FREE_BYTES": "0",
    }
    folder = tmp_path_factory.mktemp("watch") / "data"
    with service(folder, environment=environment, own_engines=True) as running:
        yield running


def watches(headend: ServiceProcess) -> list[int]:
    """Return the service's watch engines."""
    pids: list[int] = []
    for pid in children_of(headend.process.pid):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"transcode.engine" in words and b"watch" in words:
            pids.append(pid)
    return pids


def behind_ms(stream: EncoderPair) -> int | None:
    """Return by how much the backup is behind, as far as it is known."""
    report = encoder_report(stream)
    slots: list[Json] = [] if report is None else report["slots"]
    found = slots[1]["alignment"] if len(slots) == 2 else None
    return None if found is None else found["behind_ms"]


class Senders:
    """The films of one programme, sent in real time: the second one `_BEHIND` the first."""

    def __init__(self, stream: EncoderPair, films: list[Path], kinds: list[FilmKind]) -> None:
        self.began = time.time() + 0.5
        epoch = time.monotonic() + 0.5
        self.primary, self.backup = (
            FilmSender(film=film, kind=kind, epoch=epoch + slot * _BEHIND, url=stream.url(slot))
            for slot, (film, kind) in enumerate(zip(films, kinds, strict=True))
        )


# -- how soon it knows ----------------------------------------------------------------------------


@pytest.mark.parametrize("kinds", [(_PRIMARY, _BACKUP), (_LONG, _BACKUP)], ids=["of_2s", "of_4s"])
def test_an_offset_is_known_within_ten_seconds_of_a_start(
    headend: ServiceProcess, kinds: tuple[FilmKind, FilmKind], proof: Proof, tmp_path: Path
) -> None:
    starts = 6
    films = [make_film(each, _SECONDS, tmp_path / f"{each.later}.mkv") for each in kinds]
    stream = pair(headend)
    senders = Senders(stream, films, list(kinds))
    found: list[int] = []
    dice = random.Random(1)
    with publishing(senders.primary.command()):
        poll(lambda: multivariant(stream.playlist), within=30, what="a playlist")
        assert watches(headend) == [], "one encoder costs nothing"
        for _ in range(starts):
            time.sleep(dice.uniform(1, 3))
            with publishing(senders.backup.command()):
                found += poll(
                    lambda: [each for each in [behind_ms(stream)] if each is not None],
                    within=30,
                    what="an offset",
                )
                assert len(watches(headend)) == 1
            poll(lambda: stream.receives() == 1, within=10, what="the backup's end")
            poll(lambda: not watches(headend), within=10, what="the watch's end")
    took = [known - accepted for accepted, known in starts_of(stream)]
    assert len(took) == starts
    proof(
        f"{starts} starts of a second encoder, a keyframe every {kinds[0].gop:g} s: offset after",
        f"{min(took):.1f} to {max(took):.1f} s, {min(found)} to {max(found)} ms",
        "10 s",
    )
    assert max(took) <= 10 + _BUSY, took


def starts_of(stream: EncoderPair) -> list[tuple[float, float]]:
    """Return when the backup was accepted, and when its offset was known, of each start."""
    times: dict[str, list[float]] = {"publisher on": [], "encoders aligned": []}
    for line in stream.headend.log.read_text().splitlines():
        if stream.hash in line and "slot=backup-1" in line:
            fields = re.search(r'timestamp=(\S+) .*event="([^"]+)"', line)
            if fields is not None and fields[2] in times:
                times[fields[2]].append(datetime.fromisoformat(fields[1]).timestamp())
    return list(zip(*times.values(), strict=True))


# -- what it replaces -----------------------------------------------------------------------------


def failing_film(film: Path, kind: FilmKind, fault: str, at: float, path: Path) -> Path:
    """Make a film that is black, frozen or silent from a moment of the programme on."""
    since, gop = at - kind.begins, round(kind.gop * kind.fps)
    filters = {
        "black": ("-vf", f"drawbox=color=black:t=fill:enable='gte(t,{since})'"),
        "frozen": ("-vf", f"trim=end={since},tpad=stop_mode=clone:stop_duration=30"),
        "silent": ("-af", f"volume=0:enable='gte(t,{since})'"),
    }
    subprocess.run(
        [
            tool("ffmpeg"), "-nostdin", "-v", "error", "-y", "-i", str(film), *filters[fault],
            *f"-c:v libx264 -preset ultrafast -bf {kind.b_frames} -b_strategy 0 -g {gop}".split(),
            *f"-keyint_min {gop} -sc_threshold 0 -threads 1 -b:v 400k -maxrate 400k".split(),
            *f"-bufsize 400k -c:a aac -b:a 128k -t {since + 25}".split(), str(path),
        ],
        check=True,
        timeout=600,
    )  # fmt: skip
    return path


def replaced_after(
    headend: ServiceProcess, fault: str, kinds: tuple[FilmKind, FilmKind], at: float, folder: Path
) -> float:
    """Return after how many seconds of a fault another encoder is on air."""
    folder.mkdir()
    films = [make_film(each, _SECONDS, folder / f"{each.later}.mkv") for each in kinds]
    films[0] = failing_film(films[0], kinds[0], fault, at, folder / "failing.mkv")
    stream = pair(headend, fault)
    stream.settle(quality="switch")
    senders = Senders(stream, films, list(kinds))
    with publishing(senders.primary.command()), publishing(senders.backup.command()):
        poll(lambda: behind_ms(stream) is not None, within=30, what="an offset")
        assert time.time() < senders.began + at, "known too late"
        poll(lambda: not stream.backup_is_on_air(), within=5, what="the primary")
        time.sleep(max(0.0, senders.began + at - time.time()))
        assert not stream.backup_is_on_air()
        poll(stream.backup_is_on_air, within=20, what=f"a switch: {fault}")
        took = time.time() - senders.began - at
        (event,) = stream.listed_events("switched")
        facts = event["facts"], took, encoder_report(stream), stream.listed_events("encoder fault")
        assert (event["facts"]["from"], event["facts"]["reason"]) == ("primary", fault), facts
    return took


@pytest.mark.parametrize("kinds", [(_PRIMARY, _BACKUP), (_LONG, _BACKUP)], ids=["of_2s", "of_4s"])
def test_an_encoder_that_shows_nothing_is_replaced(
    headend: ServiceProcess, kinds: tuple[FilmKind, FilmKind], proof: Proof, tmp_path: Path
) -> None:
    faults, rounds = ("black", "frozen", "silent"), 2
    dice = random.Random(kinds[0].gop)
    took: dict[str, list[float]] = {each: [] for each in faults}
    for number in range(rounds):
        with ThreadPoolExecutor() as at_once:
            at = 24 * max(1, SCALE / 2) + dice.uniform(0, kinds[0].gop)
            found = {
                each: at_once.submit(
                    replaced_after, headend, each, kinds, at, tmp_path / f"{each}-{number}"
                )
                for each in faults
            }
        for each, future in found.items():
            took[each].append(future.result())
    for fault, seconds in took.items():
        asked = 5 + (kinds[0].gop if kinds[0].gop > 2 else 0)
        proof(
            f"{fault} on air, keyframes every {kinds[0].gop:g} s: replaced after",
            f"{min(seconds):.1f} to {max(seconds):.1f} s",
            f"{asked:g} s",
        )
        assert max(seconds) <= asked + _BUSY, took


# -- without it -----------------------------------------------------------------------------------


def _watch_dies(headend: ServiceProcess, number: int) -> None:
    """Send a signal to the watch engine, a while after the last one."""
    time.sleep(_REPLACED_SECONDS)
    (pid,) = watches(headend)
    os.kill(pid, number)


def test_a_watch_that_dies_or_hangs_changes_nothing(
    headend: ServiceProcess, proof: Proof, tmp_path: Path
) -> None:
    def killed_before(primary: Primary) -> None:
        _watch_dies(headend, signal.SIGKILL)
        primary.lose_connection()

    def killed_within(primary: Primary) -> None:
        time.sleep(_REPLACED_SECONDS)
        (pid,) = watches(headend)
        primary.stop()
        time.sleep(NORMAL.detect - 0.1)
        os.kill(pid, signal.SIGKILL)

    def hangs_before(primary: Primary) -> None:
        _watch_dies(headend, signal.SIGSTOP)
        time.sleep(0.5)
        primary.kill()

    def stops_later(primary: Primary) -> None:
        time.sleep(_REPLACED_SECONDS)
        primary.stop()

    def killed_at_the_return(primary: Primary) -> None:
        primary.resume()
        time.sleep(RETURN_SECONDS - 0.1)
        (pid,) = watches(headend)
        os.kill(pid, signal.SIGKILL)

    causes = [
        Cause("watch killed, SIGKILL", killed_before, Primary.start, "lost"),
        Cause("SIGSTOP, watch killed", killed_within, Primary.resume, "stalled"),
        Cause("watch stopped, SIGKILL", hangs_before, Primary.start, "lost"),
        Cause("SIGSTOP, watch killed later", stops_later, killed_at_the_return, "stalled"),
    ]
    encoders = ApartEncoders(behind=_BEHIND)
    world = FailingWorld(headend, encoders, NORMAL, tmp_path, seconds=_SECONDS)
    world.run(causes)
    world.is_exact(proof)
    # Where its primary went as well, nothing was asked of it any more.
    assert headend.log.read_text().count('event="sources not compared"') >= 2


def test_garbage_from_a_backup_changes_nothing(
    headend: ServiceProcess, proof: Proof, tmp_path: Path
) -> None:
    films = [make_film(each, _SECONDS, tmp_path / f"{each.later}.mkv")
             for each in (_PRIMARY, _BACKUP)]  # fmt: skip
    stream = pair(headend, "Garbage")
    senders = Senders(stream, films, [_PRIMARY, _BACKUP])
    noisy = senders.backup.command()
    place = noisy.index("-flush_packets")
    noisy[place:place] = ["-bsf:v", "noise=amount=7", "-bsf:a", "noise=amount=7"]
    with ExitStack() as world:
        world.enter_context(publishing(senders.primary.command()))
        archive = world.enter_context(archiving(stream.playlist, patient=True))
        poll(lambda: multivariant(stream.playlist), within=20, what="a playlist")
        world.enter_context(publishing(noisy))
        poll(lambda: stream.receives() == 2, within=20, what="both encoders")
        poll(lambda: watches(headend), within=10, what="a watch")
        time.sleep(45)
    seen = SeenProgramme(archive, stream.rungs_made(RUNGS), _PRIMARY.fps, tmp_path)
    marks = {rung: len(archive.marks(rung)) for rung in archive.held}
    proof(
        "a backup of garbage: pictures lost or twice, discontinuities, holes, switches",
        f"{seen.joints}, {marks}, {seen.sound.holes()}, {stream.listed_events('switched')}",
        "none",
    )
    assert not any(seen.joints.values()), seen.joints
    assert not any(marks.values()), marks
    assert not seen.sound.holes()
    assert stream.listed_events("switched") == []


# -- four at once ---------------------------------------------------------------------------------


def test_four_streams_switch_at_once(headend: ServiceProcess, proof: Proof, tmp_path: Path) -> None:
    streams, rounds = 4, 3
    together = threading.Barrier(streams, timeout=120 * SCALE)

    def at_once(fails: Callable[[Primary], None]) -> Callable[[Primary], None]:
        def begins(primary: Primary) -> None:
            together.wait()
            fails(primary)

        return begins

    causes = [msgspec.structs.replace(each, begins=at_once(each.begins))
              for each in (_KILLED, _STOPPED, _KILLED)]  # fmt: skip
    assert len(causes) == rounds
    apart = (-1.0, -0.3, 0.3, 1.0)
    worlds: list[FailingWorld] = []
    for number in range(streams):
        folder = tmp_path / str(number)
        folder.mkdir()
        encoders = ApartEncoders(behind=apart[number])
        worlds.append(FailingWorld(headend, encoders, NORMAL, folder, seconds=_SECONDS))

    def run(number: int) -> None:
        time.sleep(3 * number)  # starting takes more than switching
        worlds[number].run(causes)

    with ThreadPoolExecutor(streams) as pool:
        list(pool.map(run, range(streams)))
    for world in worlds:
        world.is_exact(proof)
