"""The primary fails in every way in which encoders fail, and viewers do not notice.

Two encoders show the same clock in their pictures (`tests.support.e2e.clock_video`). Everything
listed is stored and decoded; the clock shows what was lost or repeated, and how old it was.
"""

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from math import inf
from pathlib import Path

import msgspec
import pytest

from tests.conftest import Proof
from tests.support.browser import Chromium, PlayerSample, Wait
from tests.support.e2e import clock_video
from tests.support.e2e.clock_video import (
    ClockJump,
    PlaylistArchive,
    ReceivedPicture,
    archiving,
    clock_jumps,
    lags,
    longest_gap,
    middle,
)
from tests.support.e2e.encoder_pair import pair
from tests.support.e2e.failing_primary import (
    CAUSES,
    GOP_SECONDS,
    RETURN_SECONDS,
    Switch,
    fail_once,
    primary_of,
)
from tests.support.e2e.hls_reader import decoder_errors, multivariant
from tests.support.e2e.publishers import publishing
from tests.support.e2e.service import SCALE, ServiceProcess, service
from tests.support.waiting import poll

pytestmark = pytest.mark.e2e

RUNGS = ("480p", "360p")
_PASSED_THROUGH = 160  # lines of the first rung: the encoder's own pictures
_SEED = 20_26
# For the service, a stopped encoder is as silent as one whose packets are lost.
_UNLIKE = tuple(cause for cause in CAUSES if cause.name != "SIGSTOP")
_ONCE = pytest.param(1, id="once each")
_ALL = pytest.param(20, id="twenty each", marks=pytest.mark.prove)


class StallLimit(msgspec.Struct, frozen=True, kw_only=True):
    """The promise to viewers at a latency: the most seconds that a page may wait in total.

    Separately after a lost connection, a stalled encoder, and a return. `settings` are those of the
    service.
    """

    latency: str
    detect: float
    settings: dict[str, str]
    lost: float
    stalled: float
    returned: float


NORMAL = StallLimit(
    latency="normal",
    detect=2.0,
    # Encoders and browsers share this machine: one may be held up for longer than 0.7 s.
    settings={"HEADEND_FAILOVER__DETECT_SECONDS": "2"},
    lost=0.0,
    stalled=0.0,
    returned=0.0,
)
# On a machine shared with other tests, encoders are held up for longer than the default.
LOW = StallLimit(
    latency="low",
    detect=round(0.7 * SCALE, 1),
    settings={} if SCALE == 1 else {"HEADEND_FAILOVER__DETECT_SECONDS": str(round(0.7 * SCALE, 1))},
    lost=1.0,
    stalled=2.0,
    returned=1.0,
)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(NORMAL, id="normal"),
        # `tests/e2e/test_low_latency.py` always checks the playlists at low latency.
        pytest.param(LOW, id="low", marks=pytest.mark.prove),
    ],
)
def stall_limit(request: pytest.FixtureRequest) -> StallLimit:
    return request.param


@pytest.fixture(scope="module")
def running(
    stall_limit: StallLimit, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServiceProcess]:
    """A service that returns to the primary quickly."""
    environment = {
        "HEADEND_LIVE__RECONNECT_SECONDS": "30",
        "HEADEND_FAILOVER__RETURN_SECONDS": str(RETURN_SECONDS),
        "HEADEND_LIVE__LATENCY": stall_limit.latency,
        "HEADEND_STORAGE__MIN_FREE_BYTES": "0",
        **stall_limit.settings,
    }
    folder = tmp_path_factory.mktemp("never") / "data"
    with service(folder, environment=environment) as headend:
        yield headend


def follow_on(archive: PlaylistArchive, seconds: float) -> None:
    """Wait until the playlists have advanced by so many seconds."""
    rung = poll(lambda: archive.named.get(RUNGS[0]), within=20, what="a rendition")
    last = max(rung)

    def went_on() -> bool:
        assert archive.fault is None, archive.fault
        return max(rung) >= last + seconds / GOP_SECONDS

    poll(went_on, within=seconds + 15, what="going on")


@pytest.mark.parametrize("rounds", [_ONCE, _ALL])
def test_no_failure_of_a_primary_is_noticed_by_viewers(
    stall_limit: StallLimit,
    running: ServiceProcess,
    browser: Chromium,
    rounds: int,
    proof: Proof,
    tmp_path: Path,
) -> None:
    moments = random.Random(_SEED)
    stream = pair(running, f"{rounds} of each")
    causes = [cause for cause in (_UNLIKE if rounds == 1 else CAUSES) for _ in range(rounds)]
    moments.shuffle(causes)
    switches: list[Switch] = []
    with ExitStack() as world:
        primary = world.enter_context(primary_of(stream))
        poll(lambda: multivariant(stream.playlist), within=20, what="a playlist")
        world.enter_context(
            publishing(clock_video.encoder(stream.url(1), size=clock_video.TWO_RUNGS))
        )
        viewer = browser.open(stream.watch)
        with archiving(stream.playlist) as archive:
            viewer.wait_until_playing(20)
            poll(lambda: stream.receives() == 2, within=10, what="both encoders")
            assert not stream.backup_is_on_air(), "the primary has begun"
            follow_on(archive, 2)
            # The encoded rung may be shed on a busy machine: `tests/e2e/test_overload.py`.
            viewer.force(_PASSED_THROUGH)
            # The first seconds, which a busy machine may delay, do not count.
            first = viewer.wait_until_playing(10)
            viewer.record_waits()
            for cause in causes:
                time.sleep(moments.uniform(0, GOP_SECONDS))
                fail_once(stream, primary, cause, switches, detect=stall_limit.detect)
            follow_on(archive, 4)
        sample = viewer.wait_until_playing(10)
        waits = viewer.waits()
        if stall_limit is LOW:
            sample = viewer.wait(_is_near, 60, "back at its distance")
        viewer.close()
    records = ViewerRecords(
        archive, switches, tmp_path, rungs=stream.rungs_made(RUNGS), detect=stall_limit.detect
    )
    what = f"{stall_limit.latency} latency, {len(causes)} failures of a primary and as many returns"
    records.measure(proof, what)
    records.is_whole()
    proof(
        f"{what}: discontinuities, stalls in Chromium",
        f"0, {sample.stalls - first.stalls} (looked at: {', '.join(records.pictures)}, sound)",
        "0, 0" if stall_limit is NORMAL else "0",
    )
    assert not [fault for fault in sample.faults if fault.endswith("fatal")], sample.faults
    assert sample.run == first.run
    if stall_limit is NORMAL:
        assert sample.stalls == first.stalls, sample
    else:
        has_waited_little(stall_limit, switches, waits, sample, proof, what)


def _is_near(sample: PlayerSample) -> bool:
    """Return whether a player is at its target distance; its own tolerance is 0.3 s."""
    latency, target = sample.latency, sample.target
    return latency is not None and target is not None and latency <= target + 0.4


def has_waited_little(
    stall_limit: StallLimit,
    switches: list[Switch],
    waits: list[Wait],
    sample: PlayerSample,
    proof: Proof,
    what: str,
) -> None:
    """Check that a page at low latency waited no longer than promised, at each switch."""
    promised = {
        "lost": stall_limit.lost,
        "stalled": stall_limit.stalled,
        "returned": stall_limit.returned,
    }
    ends = [*(switch.began for switch in switches[1:]), inf]
    waited_by_reason: dict[str, list[float]] = {reason: [] for reason in promised}
    long: list[tuple[Switch, list[Wait]]] = []
    for switch, end in zip(switches, ends, strict=True):
        own_waits = [each for each in waits if switch.began <= each.at < end]
        waited = [each.seconds for each in own_waits]
        reason = switch.facts["reason"]
        waited_by_reason[reason].append(sum(each for each in waited if each > 0))
        if waited_by_reason[reason][-1] > promised[reason] * SCALE:
            long.append((switch, own_waits))
        assert min(waited, default=0.0) > -0.5, (switch, waited)  # it does not jump
    for reason, seconds in waited_by_reason.items():
        proof(
            f"{what}: the page's waits where the primary has {reason}",
            f"{max(seconds):.2f} s at most, {sum(each > 0 for each in seconds)} of {len(seconds)}",
            f"{promised[reason]:.1f} s",
        )
    proof(
        f"{what}: the page's distance at the end, and what it aims at",
        f"{sample.latency:.1f} s, {sample.target:.1f} s",
        "the same",
    )
    assert not long, "\n".join(map(str, long))


class ViewerRecords:
    """Everything that viewers received, decoded."""

    def __init__(
        self,
        archive: PlaylistArchive,
        switches: list[Switch],
        folder: Path,
        *,
        rungs: tuple[str, ...],
        detect: float,
    ) -> None:
        self._detect = detect
        self.keeper = archive
        self.switches = switches
        self.folder = folder
        self.pictures: dict[str, list[ReceivedPicture]] = {
            rung: archive.pictures(rung, folder) for rung in rungs
        }

    def is_whole(self, *, marks: int = 0) -> None:
        """Check that there are only `marks` discontinuities, no holes and no decoder errors."""
        for rendition in (*self.pictures, "audio"):
            assert len(self.keeper.marks(rendition)) == marks, rendition
            assert max(map(abs, self.keeper.holes(rendition))) <= 0.1, rendition
            path = self.keeper.held[rendition].file(self.folder / f"whole-{rendition}.mp4")
            assert decoder_errors(path) == "", rendition
        for rung, pictures in self.pictures.items():
            assert longest_gap(pictures) <= 0.101, rung  # three pictures
            assert all(one.stamp is not None for one in pictures), f"{rung}: no clock seen"

    def joint(self, rung: str, switch: Switch) -> ClockJump | None:
        """Return the clock's jump at a switch; None if the clock does not jump."""
        noticed = self._detect if switch.facts["reason"] == "stalled" else 0.0
        due = int((switch.at - noticed - 0.3) * 1000) % clock_video.WRAP_MS

        def away(each: ClockJump) -> int:
            assert each.before.stamp is not None
            return abs(clock_video.apart(each.before.stamp, due))

        nearest = min(clock_jumps(self.pictures[rung]), key=away, default=None)
        return nearest if nearest is not None and away(nearest) < 1000 else None

    def measure(self, proof: Proof, what: str) -> None:
        """Compare the owner's events with the pictures, and print the measurements."""
        gaps: list[int] = []
        amiss: list[float] = []
        wide: list[str] = []
        drift = 0.0  # what the switches before have lost, less what they have repeated
        for number, switch in enumerate(self.switches):
            # More than a second of it is balanced, by a second at most.
            most = GOP_SECONDS / 2 + min(max(abs(drift) - 1, 0), 1)
            drift += switch.facts["gap_ms"] / 1000 - 1 / 30
            for rung in self.pictures:
                joint = self.joint(rung, switch)
                gaps.append(joint.gap_ms if joint else 0)
                amiss.append(gaps[-1] - switch.facts["gap_ms"])
                # An encoder that a busy machine holds up shows an older picture than it sends.
                reported = switch.facts["gap_ms"]
                gap = gaps[-1] if SCALE == 1 else min(gaps[-1], reported, key=abs)
                if abs(gap) / 1000 > most + 0.1 * SCALE:
                    wide.append(f"{rung}, {number}, {switch.cause}: {gaps[-1]}; {switch.facts}")
        assert len(clock_jumps(self.pictures[RUNGS[0]])) <= len(self.switches), "no other joint"
        edge = lags(self.keeper, RUNGS[0], self.pictures[RUNGS[0]])
        usual = middle(lag for at, lag in edge.items() if at < self.switches[0].at - 3)
        after = [
            middle(lag for at, lag in edge.items() if switch.at + 3 <= at <= switch.at + 7)
            for switch in self.switches[::2]
        ]
        worst = max(self.keeper.holes(RUNGS[0]), key=abs)
        stands = max(longest_gap(pictures) for pictures in self.pictures.values())
        proof(f"{what}: longest time one picture stands", f"{stands * 1000:.0f} ms", "100 ms")
        proof(f"{what}: worst step between segments", f"{worst * 1000:+.1f} ms", "100 ms")
        proof(
            f"{what}: most lost, most shown twice",
            f"{max([0, *gaps])} ms, {-min([0, *gaps])} ms",
            f"{GOP_SECONDS * 500:.0f} ms each, more where it balances earlier ones",
        )
        proof(
            f"{what}: gap_ms against the pictures, worst",
            f"{max(amiss, key=abs):+.0f} ms",
            "150 ms",
        )
        proof(
            f"{what}: live edge 4 s after, against before",
            f"{max(after) - usual:+.1f} s",
            "1 s",
        )
        assert wide == []
        # The events are based on arrival times, which have another order than the pictures. An
        # encoder held up by a busy machine shows an older picture: hence the median.
        assert middle(map(abs, amiss)) <= 150 + 50 * (SCALE - 1)
        assert max(after) <= usual + 1.0 * SCALE
