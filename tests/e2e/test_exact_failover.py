"""Two encoders of one programme that are apart: viewers get every picture of it once.

Their films show the number of each picture, and have keyframes and reordering of their own. The one
on air fails in every way in which encoders fail, and returns. Everything listed is decoded.
"""

import math
import random
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

import msgspec
import pytest

from tests.conftest import Proof
from tests.support.e2e.clock_video import PlaylistArchive, archiving
from tests.support.e2e.encoder_pair import EncoderPair, Json, pair
from tests.support.e2e.failing_primary import (
    CAUSES,
    RETURN_SECONDS,
    Cause,
    Primary,
    Switch,
    next_switch,
)
from tests.support.e2e.hls_reader import multivariant
from tests.support.e2e.programme_films import (
    FilmKind,
    FilmSender,
    make_film,
    number_of,
    whole_sound,
)
from tests.support.e2e.publishers import publishing
from tests.support.e2e.service import SCALE, ServiceProcess, fetch, service
from tests.support.e2e.shown_once import HeardSound, Joint, joints
from tests.support.e2e.tcp_relay import relaying
from tests.support.engine.programmes import Wave
from tests.support.waiting import poll

pytestmark = pytest.mark.e2e

RUNGS = ("480p", "360p")  # the encoder's own packets, and an encoded rung
_SEED = 20_26
# Apart by less, encoders need no wait; the rest is what a busy machine holds them up.
_LOST_CONNECTION = Cause("connection lost", Primary.lose_connection, Primary.start, "lost")
_DRILL = Cause("drill", lambda _: None, lambda _: None, "drill")
ALL_CAUSES = (*CAUSES, _LOST_CONNECTION, _DRILL)
# A switch is looked for so far around its moment, in seconds of the programme.
_AROUND = 15.0
# What viewers get is as much later than what is sent, and changes by as much.
_TOGETHER = 5.0


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """A latency, and for how long viewers wait for an encoder that is behind."""

    name: str
    detect: float
    wait: float


NORMAL = Latency(name="normal", detect=2.0, wait=3.0)
LOW = Latency(name="low", detect=round(0.7 * SCALE, 1), wait=1.0)
PATIENT = Latency(name="low", detect=round(0.7 * SCALE, 1), wait=3.5)


class ApartEncoders(msgspec.Struct, frozen=True, kw_only=True):
    """Two encoders, the second `behind` the first by so many seconds.

    At a switch, `inexact` pictures of the slower one may be lost or shown twice; `marks` are the
    discontinuities of a switch to the backup, and of the return.
    """

    behind: float
    primary: FilmKind = FilmKind()
    backup: FilmKind = FilmKind(later=21)
    rounds: int = 2  # of each cause
    rungs: tuple[str, ...] = RUNGS
    inexact: int = 0
    marks: tuple[int, int] = (0, 0)

    @property
    def grid(self) -> int:
        """The numbers a second by which pictures are counted: all of them have one."""
        return math.lcm(self.primary.fps, self.backup.fps)

    @property
    def step(self) -> int:
        """The numbers from one picture to the next of the slower encoder."""
        return self.grid // min(self.primary.fps, self.backup.fps)

    @property
    def name(self) -> str:
        if self.inexact or self.primary.profile != self.backup.profile:
            return f"{self.behind:+g} s: {self.primary.whole_name} / {self.backup.whole_name}"
        kinds = f"{self.primary.name} / {self.backup.name}, {self.primary.fps} fps"
        return f"{self.behind:+g} s: {kinds}"


_TWO = FilmKind(gop=2.0, b_frames=2)
_FOUR = FilmKind(gop=4.0, b_frames=0, later=36)
_LONG = FilmKind(gop=8.3, b_frames=3, later=51)
_FAST = FilmKind(gop=2.0, b_frames=3, fps=60)
_FAST_FOUR = FilmKind(gop=4.0, b_frames=2, fps=60, later=93)
_LATER = FilmKind(gop=2.0, b_frames=2, later=21)
_PAIRS = (
    ApartEncoders(behind=-3.0, primary=_TWO, backup=_LATER),
    ApartEncoders(behind=-1.0, primary=_TWO, backup=_LONG),
    ApartEncoders(behind=-0.3, primary=_FAST, backup=_FAST_FOUR),
    ApartEncoders(behind=0.0, primary=_FOUR, backup=_LONG),
    ApartEncoders(behind=0.3, primary=_LONG, backup=_TWO),
    ApartEncoders(behind=1.0, primary=_TWO, backup=_LATER),
    ApartEncoders(behind=3.0, primary=_FOUR, backup=_TWO),
)
_QUICK = ApartEncoders(behind=0.3)
_WIDE = ("1080p", "720p", "480p", "360p")
_AVC = FilmKind(gop=2.0, b_frames=2, size="1296x240")
# The same shape as the other one's, since the clock is read in the places of its cells.
_HEVC = FilmKind(gop=2.0, b_frames=2, fps=25, later=38, size="864x160", codec="hevc", channels=1)
_BASELINE = FilmKind(gop=2.0, b_frames=0, profile="baseline", channels=1)
_HIGH = FilmKind(gop=4.0, b_frames=3, profile="high", later=51)
_SLOWER = FilmKind(gop=4.0, b_frames=2, fps=25, later=38)
# By name: encoders of other settings.
_DIFFERING = {
    f"{name} {behind:+g}": msgspec.structs.replace(encoders, behind=behind, rounds=1)
    for name, encoders in {
        "HEVC": ApartEncoders(
            behind=0, primary=_AVC, backup=_HEVC, rungs=_WIDE, inexact=2, marks=(1, 1)
        ),
        "profiles": ApartEncoders(behind=0, primary=_BASELINE, backup=_HIGH),
        "25 fps": ApartEncoders(behind=0, primary=_TWO, backup=_SLOWER, inexact=2),
    }.items()
    for behind in (-1.0, 0.3)
}
# Seconds that starting takes, and a cause with the return from it; the latter at its shortest.
_START, _ROUND, _SHORT_ROUND = 40.0, 45.0, 30.0


@pytest.fixture(scope="module")
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServiceProcess]:
    latency: Latency = request.param
    environment = {
        "HEADEND_LIVE__LATENCY": latency.name,
        "HEADEND_LIVE__RECONNECT_SECONDS": "30",
        "HEADEND_FAILOVER__RETURN_SECONDS": str(RETURN_SECONDS),
        "HEADEND_FAILOVER__DETECT_SECONDS": str(latency.detect),
        "HEADEND_FAILOVER__ALIGN_WAIT_SECONDS": str(latency.wait),
        "HEADEND_STORAGE__MIN_FREE_BYTES": "0",
    }
    with service(tmp_path_factory.mktemp("exact") / "data", environment=environment) as headend:
        yield headend


@pytest.mark.parametrize(
    ("running", "latency"), [pytest.param(NORMAL, NORMAL, id="normal")], indirect=["running"]
)
def test_a_loss_and_a_return_show_every_picture_once(
    running: ServiceProcess, latency: Latency, proof: Proof, tmp_path: Path
) -> None:
    world = FailingWorld(running, _QUICK, latency, tmp_path, seconds=_START + _ROUND)
    world.run([CAUSES[0]])
    world.is_exact(proof)


@pytest.mark.prove
@pytest.mark.parametrize("encoders", _PAIRS, ids=lambda each: f"{each.behind:+g}")
@pytest.mark.parametrize(
    ("running", "latency"),
    [
        pytest.param(NORMAL, NORMAL, id="normal"),
        pytest.param(LOW, LOW, id="low"),
        pytest.param(PATIENT, PATIENT, id="patient"),
    ],
    indirect=["running"],
)
def test_whatever_fails_every_picture_is_shown_once(
    running: ServiceProcess, latency: Latency, encoders: ApartEncoders, proof: Proof, tmp_path: Path
) -> None:
    dice = random.Random(_SEED)
    causes = [cause for cause in ALL_CAUSES for _ in range(encoders.rounds)]
    dice.shuffle(causes)
    world = FailingWorld(
        running, encoders, latency, tmp_path, seconds=_START + len(causes) * _ROUND * SCALE**0.5
    )
    world.run(causes, dice)
    world.is_exact(proof)


@pytest.mark.prove
@pytest.mark.parametrize("encoders", _DIFFERING.values(), ids=_DIFFERING.keys())
@pytest.mark.parametrize(
    ("running", "latency"),
    [pytest.param(NORMAL, NORMAL, id="normal"), pytest.param(LOW, LOW, id="low")],
    indirect=["running"],
)
def test_encoders_of_other_settings_take_over_within_two_pictures(
    running: ServiceProcess, latency: Latency, encoders: ApartEncoders, proof: Proof, tmp_path: Path
) -> None:
    dice = random.Random(_SEED)
    causes = dice.sample(ALL_CAUSES, len(ALL_CAUSES))
    seconds = _START + len(causes) * _SHORT_ROUND * SCALE**0.5
    world = FailingWorld(running, encoders, latency, tmp_path, seconds=seconds)
    world.run(causes, dice)
    world.is_exact(proof)


class FailingWorld:
    """A stream with two encoders that are apart, their switches, and what viewers got."""

    def __init__(
        self,
        headend: ServiceProcess,
        encoders: ApartEncoders,
        latency: Latency,
        folder: Path,
        *,
        seconds: float,
    ) -> None:
        self.stream = pair(headend, encoders.name)
        self.switches: list[Switch] = []
        self.behind_ms: list[int] = []
        self._notes: list[str] = []
        self._settled = 0.0  # the time of day before the first failure
        self._passed = 0  # switches before the first failure
        self._encoders = encoders
        self._latency = latency
        self._folder = folder
        self._seconds = seconds
        self._films = [
            make_film(kind, seconds, folder / f"film-{slot}.mkv")
            for slot, kind in enumerate((encoders.primary, encoders.backup))
        ]
        self._archive = PlaylistArchive("")
        self._began = 0.0  # the time of day at which the primary sends the programme's beginning

    # -- the run ----------------------------------------------------------------------------------

    def run(
        self,
        causes: list[Cause],
        dice: random.Random | None = None,
        settled: Callable[[], None] | None = None,
    ) -> None:
        """Let the primary fail by each cause, and return; call `settled` before the first."""
        stream, encoders = self.stream, self._encoders
        port = stream.headend.port_of(stream.headend.server)
        with ExitStack() as world:
            relay = world.enter_context(relaying(port))
            epoch = time.monotonic() + 0.5 + max(0.0, -encoders.behind)
            self._began = time.time() + epoch - time.monotonic()
            senders = [
                FilmSender(film=film, kind=kind, epoch=epoch + behind, url=url)
                for film, kind, behind, url in zip(
                    self._films,
                    (encoders.primary, encoders.backup),
                    (0.0, encoders.behind),
                    (stream.url(0, port=relay.port), stream.url(1)),
                    strict=True,
                )
            ]
            primary = Primary(senders[0].command, relay)
            world.callback(primary.close)
            primary.start()
            world.enter_context(publishing(senders[1].command()))
            self._archive = world.enter_context(archiving(stream.playlist, patient=True))
            self._notes = world.enter_context(noting_reports(stream))
            poll(lambda: multivariant(stream.playlist), within=20, what="a playlist")
            self._return(primary, None, 1)
            for cause in causes:
                self._wait_until_aligned()
                if settled is not None and not self._settled:
                    settled()
                    self._return(primary, None, 1)  # a busy machine may have held it up
                self._settled = self._settled or time.time()
                if dice is not None:
                    time.sleep(dice.uniform(0, encoders.backup.gop))
                self._fail(primary, cause)
            time.sleep(3 + 2 * RETURN_SECONDS)  # what follows the last switch is listed

    def _return(self, primary: Primary, cause: Cause | None, number: int) -> None:
        """Wait for the return to the primary; a `cause` None: if the backup has begun."""
        if cause is None:
            poll(lambda: self.stream.receives() == 2, within=20, what="both encoders")
            poll(lambda: not self.stream.backup_is_on_air(), within=40, what="the primary first")
            self._passed = len(self.stream.listed_events("switched"))
            return
        within = RETURN_SECONDS + 20 + 3 * max(self._encoders.primary.gop, 4)
        self.switches.append(self._switch(f"{cause.name} over", number, within, primary))

    def _fail(self, primary: Primary, cause: Cause) -> None:
        number = len(self.switches) + 1
        began = time.time()
        if cause is _DRILL:
            self.stream.command("failover-drill")
        cause.begins(primary)
        within = self._latency.detect + self._latency.wait + 6
        away = self._switch(cause.name, number, within)
        self.switches.append(msgspec.structs.replace(away, began=began))
        time.sleep(4)
        if cause is not _LOST_CONNECTION:
            cause.ends(primary)
        self._return(primary, cause, number + 1)

    def _switch(
        self, cause: str, number: int, within: float, primary: Primary | None = None
    ) -> Switch:
        try:
            return next_switch(self.stream, cause, number + self._passed, within, primary)
        except AssertionError as error:
            error.add_note(self._log())
            raise

    def _wait_until_aligned(self) -> None:
        self.behind_ms += poll(
            lambda: behind_of(self.stream), within=30 + 5 * SCALE, what="an alignment"
        )

    # -- what viewers got -------------------------------------------------------------------------

    def is_exact(self, proof: Proof) -> None:
        """Check that each picture was shown once, and print what was measured."""
        encoders = self._encoders
        rungs = self.stream.rungs_made(encoders.rungs)
        seen = SeenProgramme(self._archive, rungs, encoders.grid, self._folder, encoders.step)
        what = f"{self._latency.name}, {self._encoders.name}, {len(self.switches)} switches"
        amiss: list[str] = []
        used: set[tuple[str, int]] = set()
        wrong_ms: list[int] = []
        for switches in self._groups():
            for rung in rungs:
                near = self._joints_of(switches, seen.joints[rung])
                used |= {(rung, joint.before) for joint in near}
                lost, twice = sum(each.lost for each in near), sum(each.twice for each in near)
                shown_ms = round((lost - twice) * 1000 / encoders.grid)
                reported_ms = sum(each.facts.get("gap_ms", 0) for each in switches)
                wrong_ms.append(round((shown_ms - reported_ms) / len(switches)))
                most_lost = self._most_lost(rung) * len(switches)
                most_twice = self._most_twice() * len(switches)
                if lost > most_lost or twice / encoders.grid > most_twice:
                    about = [seen.around(rung, joint) for joint in near]
                    amiss.append(f"{switches} {rung}: {near} {about}")
        strays = {
            rung: [each for each in found if (rung, each.before) not in used]
            for rung, found in seen.joints.items()
        }
        marks = {rung: self._marks(rung) for rung in (*rungs, "audio")}
        holes = seen.sound.holes()
        lips = seen.lip_sync(rungs[0], whole_sound(self._seconds))
        for rung, found in seen.joints.items():
            lost, twice = [each.lost for each in found], [each.twice for each in found]
            proof(
                f"{what}: pictures lost, shown twice, {rung}",
                f"{max(lost, default=0)}, {max(twice, default=0)} at most",
                f"{self._most_lost(rung)}, {self._most_twice():.2g} s",
            )
        asked_marks = sum(encoders.marks) * len(self.switches) // 2
        proof(f"{what}: discontinuities", f"{marks}", f"{asked_marks}")
        longest = max((length for _, length in holes), default=0.0)
        # Before a discontinuity, nothing continues sound that ended earlier than the picture.
        most = 0.25 if asked_marks else 0.02
        asked = f"{most * 1000:.0f} ms"
        proof(f"{what}: longest hole in the sound", f"{longest * 1000:.0f} ms", asked)
        # A single window may be mistaken: a pause in the programme is found anywhere in it.
        three = zip(lips, lips[1:], lips[2:], strict=False)
        steady = [median(each for _, each in some) for some in three]
        moved = (max(steady) - min(steady)) * 1000 if steady else 0.0
        proof(f"{what}: sound moves against the picture by", f"{moved:.0f} ms", "40 ms")
        proof(f"{what}: gap_ms against the pictures", f"{max(wrong_ms, key=abs)} ms", "70 ms")
        proof(f"{what}: behind_ms", f"{min(self.behind_ms)} to {max(self.behind_ms)}", "")
        lip_sync = [f"{at:.1f}: {each * 1000:.0f}" for at, each in lips]
        facts = "\n".join([*amiss, f"{strays}", f"{marks}", f"{holes}", f"{lip_sync}", self._log()])
        assert not amiss, facts
        assert not any(strays.values()), facts
        assert len(lips) > 5
        assert longest <= most, facts
        assert moved <= 40, facts
        assert max(map(abs, wrong_ms)) <= 70, facts
        assert set(marks.values()) == {asked_marks}, facts

    def _most_lost(self, rung: str) -> int:
        """Return the most numbers of pictures that a switch may lose.

        The top rung may lose two that reordering took with it.
        """
        encoders = self._encoders
        return encoders.step * max(encoders.inexact, 2 if rung == encoders.rungs[0] else 0)

    def _most_twice(self) -> float:
        """Return the most seconds that may be shown twice: what the wait does not cover."""
        rest = max(map(abs, self.behind_ms)) / 1000 - self._latency.wait
        pictures = self._encoders.inexact * self._encoders.step / self._encoders.grid
        return max(rest + 0.2 if rest > -0.1 else 0.0, pictures)

    def _groups(self) -> list[list[Switch]]:
        """Return the switches, those together whose joints cannot be told apart."""
        groups: list[list[Switch]] = []
        for switch in self.switches:
            if groups and switch.at - groups[-1][-1].at < _TOGETHER:
                groups[-1].append(switch)
            else:
                groups.append([switch])
        return groups

    def _joints_of(self, switches: list[Switch], found: list[Joint]) -> list[Joint]:
        """Return the joints that are nearer to one of these switches than to any other one."""
        fps = self._encoders.grid

        def distance(switch: Switch, joint: Joint) -> float:
            return abs((switch.at - self._began) * fps - joint.after)

        def nearest(joint: Joint) -> Switch:
            return min(self.switches, key=lambda each: distance(each, joint))

        return [
            each
            for each in found
            if nearest(each) in switches and distance(nearest(each), each) < _AROUND * fps
        ]

    def _marks(self, rendition: str) -> int:
        """Return how many discontinuities there are, but for one where a long GOP had begun."""
        named = self._archive.named[rendition]
        return sum(named[each] > self._settled for each in self._archive.marks(rendition))

    def _log(self) -> str:
        lines = self.stream.headend.log.read_text().splitlines()
        return "\n".join([*self._notes, *(line for line in lines if self.stream.hash in line)])


class SeenProgramme:
    """Everything that viewers received, decoded."""

    def __init__(
        self,
        archive: PlaylistArchive,
        rungs: tuple[str, ...],
        fps: int,
        folder: Path,
        step: int = 1,
    ) -> None:
        self._fps, self._step = fps, step
        self._pictures = {rung: archive.pictures(rung, folder) for rung in rungs}
        self.joints = {
            rung: joints(found, self._fps, self._step) for rung, found in self._pictures.items()
        }
        self.sound = HeardSound(archive, folder)

    def around(self, rung: str, joint: Joint) -> str:
        """Return the pictures around a joint, each with its time in the media."""
        near = [each for each in self._pictures[rung] if abs(each.time - joint.time) < 0.15]
        return " ".join(f"{number_of(each.stamp or 0, self._fps)}@{each.time:.3f}" for each in near)

    def lip_sync(self, rung: str, whole: Wave) -> list[tuple[float, float]]:
        """Return times, and by how much the sound is behind a rung's pictures there."""
        return self.sound.lip_sync(self._pictures[rung], whole, self._fps, self._step)


@contextmanager
def noting_reports(stream: EncoderPair) -> Generator[list[str]]:
    """Note the encoder report twice a second: what is on air, and how far the two are apart."""
    notes: list[str] = []
    over = threading.Event()

    def note() -> None:
        while not over.wait(0.5):
            report = encoder_report(stream)
            if report is None:
                continue
            found = [each["alignment"] for each in report["slots"]]
            line = f"{report['on_air']} {[each for each in found if each is not None]}"
            if not notes or not notes[-1].endswith(line):
                notes.append(f"{time.time() % 3600:.1f} {line}")

    thread = threading.Thread(target=note, name="reports")
    thread.start()
    try:
        yield notes
    finally:
        over.set()
        thread.join()


def behind_of(stream: EncoderPair) -> list[int]:
    """Return how far the backup is behind, in milliseconds; nothing if that is not known."""
    report = encoder_report(stream)
    slots: list[Json] = report["slots"] if report is not None else []
    found = slots[1]["alignment"] if len(slots) == 2 else None
    return [] if found is None or found["behind_ms"] is None else [found["behind_ms"]]


def encoder_report(stream: EncoderPair) -> Json | None:
    """Return the report of a stream's encoders; None if nobody answers in time."""
    address = f"{stream.headend.http}/api/streams/{stream.number}/ingest"
    answer = fetch(address, token=stream.headend.token)
    if answer.status == 503:  # a busy machine
        return None
    assert answer.status == 200, answer.text
    report: Json = answer.json["data"]  # pyright: ignore[reportAssignmentType]  # JSON
    return report
