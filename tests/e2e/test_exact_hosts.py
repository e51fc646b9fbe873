"""The owner of a stream is killed, whose two encoders are apart: viewers get every picture once.

Each encoder sends a film of one programme, whose pictures have numbers. They are at different
hosts, or both at a host that relays them to the owner. The next owner has to find out again how far
they are apart, and its switches are exact then. Everything listed is decoded.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import msgspec
import pytest

from tests.conftest import Proof
from tests.e2e.test_bucket import OwnBucket
from tests.e2e.test_exact_failover import RUNGS, SeenProgramme, behind_of, noting_reports
from tests.support.e2e.clock_video import PlaylistArchive, archiving
from tests.support.e2e.encoder_pair import pair
from tests.support.e2e.hls_reader import multivariant
from tests.support.e2e.hosts import HostProcesses
from tests.support.e2e.listed_segments import ListedSegments, watching
from tests.support.e2e.programme_films import FilmKind, FilmSender, make_film
from tests.support.e2e.publishers import publishing
from tests.support.e2e.shown_once import Joint
from tests.support.postgres import PostgresServer
from tests.support.redis_server import redis_server
from tests.support.storage.s3_server import S3Server
from tests.support.waiting import SCALE, poll

pytestmark = [pytest.mark.e2e, pytest.mark.prove]

KINDS: Final = (FilmKind(gop=2.0), FilmKind(gop=2.0, later=21))
SECONDS: Final = 170.0  # of the programme
# An encoder is compared before that, also on a busy machine.
RETURN_SECONDS: Final = 20
MOST_REORDERED: Final = 2  # pictures that an encoder's reordering takes with it
MOST_AHEAD: Final = 17  # a part by which a rung may be ahead of another one, and these
MOST_WAIT: Final = 4.0  # seconds, at low latency
ALIGNED_WITHIN: Final = 15.0


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """At which hosts the encoders are; `a` is the owner."""

    name: str
    primary: str
    backup: str


APART: Final = Placement(name="an encoder at each host", primary="a", backup="b")
ELSEWHERE: Final = Placement(name="both encoders at another host", primary="b", backup="b")


@pytest.fixture(params=["stored", "shown"])
def hosts(
    request: pytest.FixtureRequest,
    s3_server: S3Server,
    postgres_server: PostgresServer,
    tmp_path: Path,
) -> Iterator[HostProcesses]:
    """The next owner continues after what is stored, or with Redis after what viewers saw."""
    environment = OwnBucket(s3_server).settings(
        HEADEND_FAILOVER__RETURN_SECONDS=str(RETURN_SECONDS),
        HEADEND_FAILOVER__ALIGN_WAIT_SECONDS="3.5",
        HEADEND_LIVE__RECONNECT_SECONDS="30",
        HEADEND_LIVE__LATENCY="low",
    )
    with ExitStack() as world:
        if request.param == "shown":
            environment["HEADEND_REDIS__URL"] = world.enter_context(redis_server(tmp_path)).url
        database = world.enter_context(postgres_server.empty_database())
        yield world.enter_context(HostProcesses(tmp_path, database, environment))


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("films")
    return [make_film(kind, SECONDS, folder / f"{slot}.mkv") for slot, kind in enumerate(KINDS)]


class OrphanedStream:
    """A stream with two encoders, `behind` seconds apart, whose owner is killed."""

    def __init__(
        self, hosts: HostProcesses, placement: Placement, behind: float, films: list[Path]
    ) -> None:
        self._hosts = hosts
        self._placement = placement
        self._behind = behind
        self._api = hosts.api()
        self._owner, self._other = hosts.ingest("a"), hosts.ingest("b")
        self._films = films
        self.stream = pair(self._api.running, f"{placement.name}, {behind:+g} s")
        self.archive = PlaylistArchive("")
        self.listed: ListedSegments | None = None
        self.aligned: list[tuple[str, float, int]] = []  # moment, seconds, and how far apart
        self.notes: list[str] = []
        self.killed = 0.0  # the time of day

    def run(self) -> None:
        """Kill the owner; then lose the primary, and let it return."""
        stream, placement, hosts = self.stream, self._placement, self._hosts
        with ExitStack() as world:
            epoch = time.monotonic() + 1.0 + max(0.0, -self._behind)
            primary = world.enter_context(ExitStack())
            primary.enter_context(publishing(self._sender(0, "a", epoch)()))
            poll(lambda: hosts.owner(stream.number) == ("a", 1), within=20, what="an owner")
            poll(lambda: multivariant(stream.playlist), within=30, what="a playlist")
            world.enter_context(publishing(self._sender(1, placement.backup, epoch)()))
            if placement.primary != "a":
                poll(lambda: stream.receives() == 2, within=20, what="both encoders at first")
                primary.close()
                poll(stream.backup_is_on_air, within=20, what="the backup at first")
                primary.enter_context(publishing(self._sender(0, placement.primary, epoch)()))
            self.notes = world.enter_context(noting_reports(stream))
            self._wait_until_aligned("at first")
            self._wait_for_primary("the primary first")
            self.listed = world.enter_context(watching(stream.playlist))
            self.archive = world.enter_context(archiving(stream.playlist))
            time.sleep(6.3)
            self._note("kill")
            self.killed = time.time()
            self._owner.kill()
            poll(lambda: hosts.owner(stream.number) == ("b", 2), within=10, what="another owner")
            self._note("taken over")
            if placement.primary == "a":
                primary.close()
                time.sleep(4)
                self._owner.start()
                primary.enter_context(publishing(self._sender(0, "a", epoch)()))
            poll(lambda: stream.receives() == 2, within=20, what="both encoders")
            self._note("both")
            self._wait_until_aligned("after the owner's death")
            self._wait_for_primary("the primary again")
            time.sleep(6)
            self._note("primary lost")
            primary.close()
            poll(stream.backup_is_on_air, within=20, what="the backup")
            self._note("backup on air")
            time.sleep(4)
            primary.enter_context(publishing(self._sender(0, placement.primary, epoch)()))
            poll(lambda: stream.receives() == 2, within=20, what="both encoders")
            self._wait_until_aligned("after a loss")
            self._wait_for_primary("the return")
            self._note("returned")
            time.sleep(9)

    def since_death(self, rung: str, number: int) -> bool:
        """Return whether a segment was listed after the owner's death."""
        return self.archive.named[rung][number] > self.killed

    def _sender(self, slot: int, host: str, epoch: float) -> Callable[[], list[str]]:
        return FilmSender(
            film=self._films[slot],
            kind=KINDS[slot],
            epoch=epoch + slot * self._behind,
            url=self._hosts.url(host, self.stream.key, slot=slot),
        ).command

    def _note(self, what: str) -> None:
        self.notes.append(f"{time.time() % 3600:.1f} {what}")

    def _wait_until_aligned(self, when: str) -> None:
        began = time.monotonic()
        found = poll(lambda: behind_of(self.stream), within=40 * SCALE, what=f"alignment {when}")
        self.aligned.append((when, time.monotonic() - began, found[0]))

    def _wait_for_primary(self, what: str) -> None:
        poll(lambda: not self.stream.backup_is_on_air(), within=60, what=what)

    @property
    def rungs(self) -> tuple[str, ...]:
        """The rungs without gaps: a busy machine sheds encoded ones."""
        return RUNGS[:1] if self.stream.listed_events("rung shed") else RUNGS

    @property
    def log(self) -> str:
        """What the hosts have logged of the stream."""
        lines = [
            line
            for host in (self._owner, self._other)
            for line in host.running.log.read_text().splitlines()
            if self.stream.hash in line
        ]
        return "\n".join([*self.notes, *lines])


@pytest.mark.parametrize("placement", [APART, ELSEWHERE], ids=["apart", "elsewhere"])
@pytest.mark.parametrize("behind", [1.0, -1.0, 3.0, -3.0], ids="{:+g}".format)
def test_the_owners_death_and_what_follows_show_every_picture_once(
    hosts: HostProcesses,
    films: list[Path],
    placement: Placement,
    behind: float,
    proof: Proof,
    tmp_path: Path,
) -> None:
    world = OrphanedStream(hosts, placement, behind, films)
    world.run()
    rungs = world.rungs
    seen = SeenProgramme(world.archive, rungs, 30, tmp_path)
    what = f"{placement.name}, {behind:+g} s"
    marks = {
        rung: [each for each in world.archive.marks(rung) if world.since_death(rung, each)]
        for rung in rungs
    }
    facts = "\n".join([f"{seen.joints}", f"{marks}", f"{world.aligned}", world.log])
    for rung in rungs:
        found = [each for each in seen.joints[rung] if world.since_death(rung, each.segment)]
        at_death = [each for each in found if is_near(each, marks[rung])]
        later = [each for each in found if each not in at_death]
        lost, twice = sum(each.lost for each in at_death), sum(each.twice for each in at_death)
        proof(
            f"{what}: pictures lost, shown twice at the owner's death, {rung}",
            f"{lost}, {twice}",
            f"{MOST_REORDERED}, {MOST_AHEAD}",
        )
        most = MOST_REORDERED if rung == RUNGS[0] else 0
        lost_later = max((each.lost for each in later), default=0)
        twice_later = max((each.twice for each in later), default=0)
        proof(
            f"{what}: at a switch or a return after it, {rung}",
            f"{lost_later}, {twice_later}",
            f"{most}, 0",
        )
        assert lost <= MOST_REORDERED, facts
        assert twice <= MOST_AHEAD, facts
        assert lost_later <= most, facts
        assert twice_later == 0, facts
        assert len(marks[rung]) == 1, facts
    for when, seconds, behind_ms in world.aligned[1:]:
        proof(f"{what}: {when}, {behind_ms} ms found within", f"{seconds:.1f} s", "15 s")
        assert seconds <= ALIGNED_WITHIN * SCALE, facts
    assert world.listed is not None
    longest = max(world.listed.waits, default=0.0)
    proof(f"{what}: longest wait for a part", f"{longest:.1f} s", f"{MOST_WAIT:g} s")
    assert world.listed.faults == []
    assert longest <= MOST_WAIT * SCALE, facts


def is_near(joint: Joint, marks: list[int]) -> bool:
    """Return whether a joint is at a discontinuity, or in the segment before it."""
    return any(mark - 1 <= joint.segment <= mark for mark in marks)
